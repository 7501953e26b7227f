import { randomUUID } from 'node:crypto';
import type { PendingCall } from './pending-call.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';

/** Calls of one connection that wait for answers; the oldest goes when there are more. */
const MAX_HELD = 256;
const HOLD_MS = 60 * 60 * 1000;

/** Calls that are open on the wire with nobody reading them, each under a name nobody can guess. */
export class WaitingCalls {
  readonly #calls = new Map<
    string,
    { readonly call: PendingCall; readonly timer: NodeJS.Timeout }
  >();

  get size(): number {
    return this.#calls.size;
  }

  keep(call: PendingCall): string {
    const [oldest] = this.#calls.keys();
    if (this.#calls.size >= MAX_HELD && oldest !== undefined) this.#drop(oldest);
    const name = randomUUID();
    const timer = setTimeout(() => this.#drop(name), HOLD_MS);
    timer.unref();
    this.#calls.set(name, { call, timer });
    return name;
  }

  /** Undefined for one that is gone: then the call is made anew, and its answers are still good. */
  take(name: string | undefined): PendingCall | undefined {
    const held = name === undefined ? undefined : this.#calls.get(name);
    if (!held) return undefined;
    clearTimeout(held.timer);
    this.#calls.delete(name!);
    return held.call;
  }

  /** The connection has ended, and every call with it. */
  clear(): void {
    for (const { timer } of this.#calls.values()) clearTimeout(timer);
    this.#calls.clear();
  }

  #drop(name: string): void {
    this.take(name)?.leave().catch(reportUnexpected);
  }
}
