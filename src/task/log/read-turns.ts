/** So many readers may always read from the store at once. */
const MIN_FETCHES = 8;

/**
 * Who may read from the store. What is read is decoded, encoded and written at once, so a thousand readers that are
 * behind would need a thousand times that memory in the same moment.
 */
export class ReadTurns {
  #fetches = 0;
  readonly #waiting: (() => void)[] = [];

  /** Resolves when fewer than `most` others read. */
  take(most: number): Promise<void> | undefined {
    if (this.#fetches >= Math.max(MIN_FETCHES, most))
      return new Promise((resolve) => this.#waiting.push(resolve));
    this.#fetches++;
    return undefined;
  }

  /** The next one may read, once what was read has been passed on. */
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
