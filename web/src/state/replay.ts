import type { Entry } from '../../../src/event/types.ts';
import { TaskView } from './task-view.ts';

/** A wait for a person can take days; nobody wants to watch that. */
const LONGEST_GAP_MS = 2000;

export const SPEEDS = [1, 2, 5, 10, 50] as const;
export type Speed = (typeof SPEEDS)[number];

/** The speed that is nearest to a wish, such as that of the address. */
export const nearestSpeed = (wish: number): Speed =>
  SPEEDS.reduce((best, speed) => (Math.abs(speed - wish) < Math.abs(best - wish) ? speed : best));

/** When each entry comes in a replay at 1x: as recorded, but never backwards and long waits cut short. */
export function schedule(entries: readonly Entry[]): readonly number[] {
  let at = 0;
  let latest = entries[0]?.at ?? 0;
  return entries.map((entry) => {
    at += Math.min(Math.max(entry.at - latest, 0), LONGEST_GAP_MS);
    latest = Math.max(latest, entry.at);
    return at;
  });
}

/** Plays a recorded task into a view of its own; the owner calls `tick` with the time that has passed. */
export class Replay {
  readonly view: TaskView = new TaskView();
  speed: Speed;
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

  /** Whether anything came. */
  tick(ms: number): boolean {
    this.#clock += ms * this.speed;
    const from = this.#next;
    for (; !this.done && (this.#times[this.#next] ?? 0) <= this.#clock; this.#next++)
      this.view.feed(this.#entries[this.#next] as Entry, true);
    if (this.done) this.view.contract.close();
    return this.#next > from;
  }
}
