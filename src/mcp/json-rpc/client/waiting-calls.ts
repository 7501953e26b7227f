import { randomUUID } from 'node:crypto';
import type { PendingCall } from './pending-call.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';

/**
 * How many calls of one connection wait for answers. Beyond it the oldest is cancelled, of the
 * caller with the most: one caller must not end the calls of others.
 */
const MAX_WAITING = 256;
/** How long a call waits for its answers. */
const WAIT_MS = 60 * 60 * 1000;

/** Calls that are open on the wire without a reader, each under a random name. */
export class WaitingCalls {
  readonly #calls = new Map<
    string,
    { readonly call: PendingCall; readonly timer: NodeJS.Timeout }
  >();

  get size(): number {
    return this.#calls.size;
  }

  /** Keeps a call and returns its name, which becomes the state of the `input` event. */
  keep(call: PendingCall): string {
    if (this.#calls.size >= MAX_WAITING) this.#makeRoom();
    const name = randomUUID();
    const timer = setTimeout(() => this.#drop(name), WAIT_MS);
    timer.unref();
    this.#calls.set(name, { call, timer });
    return name;
  }

  /**
   * Returns a waiting call; `undefined` if it has expired. Then the call is repeated, and its
   * answers are still valid.
   */
  take(name: string | undefined): PendingCall | undefined {
    const waiting = name === undefined ? undefined : this.#calls.get(name);
    if (!waiting) return undefined;
    clearTimeout(waiting.timer);
    this.#calls.delete(name!);
    return waiting.call;
  }

  /** Drops all calls, because the connection has ended. */
  clear(): void {
    for (const { timer } of this.#calls.values()) clearTimeout(timer);
    this.#calls.clear();
  }

  #makeRoom(): void {
    const byCaller = new Map<string | undefined, string[]>();
    for (const [name, { call }] of this.#calls) {
      const names = byCaller.get(call.caller);
      if (names) names.push(name);
      else byCaller.set(call.caller, [name]);
    }
    const most = [...byCaller.values()].reduce((one, other) =>
      other.length > one.length ? other : one,
    );
    this.#drop(most[0]!);
  }

  #drop(name: string): void {
    this.take(name)?.cancel().catch(reportUnexpected);
  }
}
