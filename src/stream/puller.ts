type Settled<T> =
  | { readonly result: IteratorResult<T, unknown> }
  | { readonly result?: undefined; readonly error: unknown };

/**
 * A source that is asked for one item at a time without waiting for it, for those who wait for
 * several things at once. The promise of the source never becomes part of a race, so one that is
 * slow for hours collects nothing.
 */
export class Puller<T> {
  readonly #iterator: AsyncIterator<T>;
  readonly #settledOne: () => void;
  #asked = false;
  #settled: Settled<T> | undefined;
  #over = false;

  /** `settledOne` is called when `take` has something new to say. */
  constructor(source: AsyncIterable<T>, settledOne: () => void) {
    this.#iterator = source[Symbol.asyncIterator]();
    this.#settledOne = settledOne;
  }

  /** What came, the end included, or `undefined` after asking for it. Throws what the source threw. */
  take(): IteratorResult<T, void> | undefined {
    if (this.#over) return { done: true, value: undefined };
    const settled = this.#settled;
    if (!settled) {
      this.#ask();
      return undefined;
    }
    this.#settled = undefined;
    if (settled.result && !settled.result.done) return settled.result;
    this.#over = true;
    if (settled.result) return { done: true, value: undefined };
    throw settled.error;
  }

  /** Closes the source, and waits for that only if it is not busy: a deaf one would keep us. */
  async cancel(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    const closed = this.#iterator.return?.();
    // A busy source closes when its read ends; its failure has no reader any more.
    if (this.#asked) closed?.catch(() => {});
    else await closed;
  }

  #ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    const settle = (settled: Settled<T>): void => {
      this.#asked = false;
      this.#settled = settled;
      this.#settledOne();
    };
    try {
      this.#iterator.next().then(
        (result) => settle({ result }),
        (error: unknown) => settle({ error }),
      );
    } catch (error) {
      this.#asked = false;
      this.#over = true;
      throw error;
    }
  }
}
