import { onAbort } from '../../stream/abort.ts';

/**
 * At most `count` holders at a time; the others wait in the order in which they came. One whose
 * signal aborts leaves the queue and takes nobody's turn.
 */
export class ConcurrencySlots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves with the function that gives the slot back (twice is fine); throws the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    let held = true;
    return () => {
      if (held) this.#giveBack();
      held = false;
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

  // The slot goes straight to the next in line, so nobody who comes now can overtake.
  #giveBack(): void {
    const [next] = this.#waiting;
    if (!next) this.#free += 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
