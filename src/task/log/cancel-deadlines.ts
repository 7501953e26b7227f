import { DuolaneError } from '../../errors.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Commit, Store } from '../store/store.ts';

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5000;

/**
 * Enforces cancels. If the claim holder of a run does not write the end in time, since it cannot
 * write or ignores the cancel, it is fenced and the end is written without it. The lease of a
 * crashed claim holder would expire much later.
 */
export class CancelDeadlines {
  readonly #store: Store;
  readonly #ms: number;
  readonly #timers = new ReleasingMap<string, NodeJS.Timeout>();
  #closed = false;

  constructor(store: Store, ms: number) {
    this.#store = store;
    this.#ms = ms;
  }

  /** Starts the deadline of a task whose log has the cancel and not the end. */
  watch(task: string, note: string): void {
    if (this.#closed || this.#timers.has(task)) return;
    this.#arm(task, note, this.#ms, FIRST_PAUSE_MS);
  }

  #arm(task: string, note: string, ms: number, pauseMs: number): void {
    const take = (): void => {
      this.#store.cancel(task, note, true).then(
        () => {
          this.#timers.take(task);
        },
        (error: unknown) => {
          const isArmed = this.#timers.take(task) !== undefined;
          // The store refuses if the task has ended or is pruned. After a failure, try again: the
          // lease of a live claim holder that does not end its run never expires.
          if (!isArmed || this.#closed || !DuolaneError.from(error, 'server').retryable) return;
          this.#arm(task, note, pauseMs, Math.min(2 * pauseMs, MAX_PAUSE_MS));
        },
      );
    };
    this.#timers.set(task, setTimeout(take, ms));
  }

  commit({ task, ended }: Commit): void {
    if (!ended || this.#timers.size === 0) return;
    clearTimeout(this.#timers.take(task));
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
