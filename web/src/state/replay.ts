import type { Entry } from '../../../src/event/types.ts';
import { TaskView } from './task-view.ts';

/** A task can wait days for a person; a replay shortens each pause to this. */
const LONGEST_GAP_MS = 2000;

export const SPEEDS = [1, 2, 5, 10, 50] as const;
export type Speed = (typeof SPEEDS)[number];

/** Returns the available speed nearest to a requested one, e.g. that of the address `?replay=3`. */
export const nearestSpeed = (requested: number): Speed =>
  SPEEDS.reduce((best, speed) =>
    Math.abs(speed - requested) < Math.abs(best - requested) ? speed : best,
  );

/**
 * Returns the time of each entry in a replay at 1x: as recorded, but with long pauses shortened,
 * and never backwards, because the clock of the server may have been set back.
 */
export function schedule(entries: readonly Entry[]): readonly number[] {
  let at = 0;
  let latest = entries[0]?.at ?? 0;
  return entries.map((entry) => {
    at += Math.min(Math.max(entry.at - latest, 0), LONGEST_GAP_MS);
    latest = Math.max(latest, entry.at);
    return at;
  });
}

/**
 * Plays a recorded task into a separate view. The caller calls `tick` with the elapsed time, and
 * `seek` to show any other moment.
 */
export class Replay {
  view: TaskView = new TaskView();
  speed: Speed;
  isPaused = false;
  #entries: readonly Entry[];
  #times: readonly number[];
  #clock = 0;
  #next = 0;

  constructor(entries: readonly Entry[], speed: Speed) {
    this.#entries = entries;
    this.#times = schedule(entries);
    this.speed = speed;
  }

  get done(): boolean {
    return this.#next >= this.#entries.length;
  }

  /** How long the replay is at 1x, and where it is now. */
  get lengthMs(): number {
    return this.#times.at(-1) ?? 0;
  }

  get positionMs(): number {
    return Math.min(this.#clock, this.lengthMs);
  }

  /** How many entries there are, and how many the view has. */
  get count(): number {
    return this.#entries.length;
  }

  get shown(): number {
    return this.#next;
  }

  /** Feeds the entries that are due; returns whether there was one. */
  tick(ms: number): boolean {
    if (this.isPaused) return false;
    this.#clock += ms * this.speed;
    return this.#feed();
  }

  /** Shows another moment. To go back, the view is folded again from the first entry. */
  seek(ms: number): void {
    if (ms < this.#clock) {
      this.view = new TaskView();
      this.#next = 0;
    }
    this.#clock = ms;
    this.#feed();
  }

  #feed(): boolean {
    const from = this.#next;
    for (; !this.done && (this.#times[this.#next] ?? 0) <= this.#clock; this.#next++)
      this.view.feed(this.#entries[this.#next] as Entry, true);
    if (this.done) this.view.contract.close();
    return this.#next > from;
  }
}
