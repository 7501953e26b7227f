import { Register } from '../stream/register.ts';
import type { Commit, Store } from './store.ts';

/**
 * Cancels that wait for the owner of their run. One that lets the time pass, since it cannot write
 * or has forgotten, is fenced and the end is written without it; the lease of a dead one ends later.
 */
export class Takeovers {
  readonly #store: Store;
  readonly #ms: number;
  readonly #timers = new Register<string, NodeJS.Timeout>();

  constructor(store: Store, ms: number) {
    this.#store = store;
    this.#ms = ms;
  }

  /** The cancel of this task is in the log and its end is not. */
  watch(task: string, note: string): void {
    if (this.#timers.has(task)) return;
    const take = (): void => {
      this.#timers.take(task);
      // The end may have come unannounced, and a store that fails now leaves it to the lease.
      this.#store.cancel(task, note, true).catch(() => {});
    };
    this.#timers.set(task, setTimeout(take, this.#ms));
  }

  commit({ task, ended }: Commit): void {
    if (!ended || this.#timers.size === 0) return;
    clearTimeout(this.#timers.take(task));
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
