import { onAbort } from '../../stream/abort.ts';

/**
 * At most `count` slots in use at the same time; further callers wait in order. A caller whose
 * signal aborts leaves the queue and does not delay the others.
 */
export class ConcurrencySlots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /**
   * Waits for a slot and resolves with a function that releases it (calling it twice is harmless).
   * Rejects with the reason of the signal.
   */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    let inUse = true;
    return () => {
      if (inUse) this.#release();
      inUse = false;
    };
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      let unlisten = (): void => {};
      const go = (): void => {
        unlisten();
        resolve();
      };
      this.#waiting.add(go);
      unlisten = onAbort(signal, (reason) => {
        this.#waiting.delete(go);
        reject(reason);
      });
    });
  }

  // The slot passes directly to the first in the queue, so a caller that arrives now cannot
  // overtake.
  #release(): void {
    const [next] = this.#waiting;
    if (!next) this.#free += 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
