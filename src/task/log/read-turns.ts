/** So many readers may always read from the store at the same time. */
const MIN_FETCHES = 8;

/**
 * Limits how many readers read from the store at the same time. What is read is decoded, encoded
 * and written immediately, so a thousand readers that are behind would need that memory a thousand
 * times.
 */
export class ReadTurns {
  #fetches = 0;
  readonly #waiting: (() => void)[] = [];

  /** Takes a turn. Returns a promise if `most` others read, until this one may. */
  take(most: number): Promise<void> | undefined {
    if (this.#fetches >= Math.max(MIN_FETCHES, most))
      return new Promise((resolve) => this.#waiting.push(resolve));
    this.#fetches++;
    return undefined;
  }

  /** Ends a turn. The next reader starts after what was read has been passed on. */
  end(): void {
    if (this.#waiting.length === 0) {
      this.#fetches--;
      return;
    }
    setImmediate(() => {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#fetches--;
    });
  }
}
