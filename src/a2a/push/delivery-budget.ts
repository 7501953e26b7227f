import { whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { heapShare, snapshotChars } from '../../task/text-budget.ts';
import type { TaskLog } from '../../task/types.ts';

/** A short task counts as this much: its delivery has a socket and buffers of its own. */
const MIN_CHARS = 32 * 1024;

/**
 * Limits the memory of the deliveries that are active. Each has its task and the event that it
 * posts in memory, and a caller may have any number of receivers that do not respond. Beyond the
 * limit a delivery waits. One owner has at most half of it, so that its receivers cannot stop those
 * of others.
 */
export class DeliveryBudget {
  readonly #max: number;
  readonly #log: TaskLog;
  readonly #waiting = new Set<ActiveDelivery>();
  readonly #owners = new Map<string, number>();
  #chars = 0;
  #measuring: Promise<unknown> = Promise.resolve();

  constructor(log: TaskLog, max: number = heapShare() / 2) {
    this.#log = log;
    this.#max = max;
  }

  /**
   * Waits until there is memory for the delivery of a task, and resolves with a function that frees
   * it, which may be called twice. An abort frees it as well, and ends the wait.
   */
  async take(task: string, options: Abortable): Promise<() => void> {
    const { owner, chars } = await this.#measure(task);
    const active: ActiveDelivery = { owner, chars, isTaken: false, go: () => {} };
    const turn = new Promise<void>((resolve) => (active.go = resolve));
    this.#waiting.add(active);
    const unlisten = whenAborted(options, () => this.#free(active));
    this.#next();
    await turn;
    return () => {
      unlisten();
      this.#free(active);
    };
  }

  /** One task after the other: after a restart, all receivers ask at the same time. */
  async #measure(task: string): Promise<Pick<ActiveDelivery, 'owner' | 'chars'>> {
    const measured = this.#measuring.then(async () => {
      const snapshot = await this.#log.get(task);
      const chars = snapshot ? snapshotChars(snapshot) : 0;
      return { owner: snapshot?.owner ?? '', chars: Math.max(MIN_CHARS, chars) };
    });
    this.#measuring = measured.catch(() => {}); // the caller gets the failure
    return measured;
  }

  #free(active: ActiveDelivery): void {
    if (this.#waiting.delete(active)) active.go();
    if (!active.isTaken) return;
    active.isTaken = false;
    this.#count(active, -active.chars);
    this.#next();
  }

  #next(): void {
    for (const next of this.#waiting) {
      if (this.#chars > 0 && this.#chars + MIN_CHARS > this.#max) return;
      if (!this.#fits(next)) continue;
      this.#waiting.delete(next);
      next.isTaken = true;
      this.#count(next, next.chars);
      next.go();
    }
  }

  // One delivery is always allowed, however long its task is.
  #fits({ owner, chars }: ActiveDelivery): boolean {
    if (this.#chars === 0) return true;
    const own = (this.#owners.get(owner) ?? 0) + chars;
    return this.#chars + chars <= this.#max && own <= this.#max / 2;
  }

  #count({ owner }: ActiveDelivery, chars: number): void {
    this.#chars += chars;
    const own = (this.#owners.get(owner) ?? 0) + chars;
    if (own > 0) this.#owners.set(owner, own);
    else this.#owners.delete(owner);
  }
}

interface ActiveDelivery {
  readonly owner: string;
  readonly chars: number;
  isTaken: boolean;
  go: () => void;
}
