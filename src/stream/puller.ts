type Settled<T> =
  | { readonly result: IteratorResult<T, unknown> }
  | { readonly result?: undefined; readonly error: unknown };

/**
 * Requests one item at a time from a source without waiting for it, for readers that wait for
 * several events. The promise of the source never takes part in a race: a race on a promise that
 * stays pending for hours would add a reaction to it each time.
 */
export class Puller<T> {
  readonly #iterator: AsyncIterator<T>;
  readonly #onSettled: () => void;
  #requested = false;
  #settled: Settled<T> | undefined;
  #ended = false;

  /** `onSettled` is called when `take` has a new result. */
  constructor(source: AsyncIterable<T>, onSettled: () => void) {
    this.#iterator = source[Symbol.asyncIterator]();
    this.#onSettled = onSettled;
  }

  /**
   * Returns the next item or the end; if there is neither yet, requests it and returns `undefined`.
   * Throws the error of the source.
   */
  take(): IteratorResult<T, void> | undefined {
    if (this.#ended) return { done: true, value: undefined };
    const settled = this.#settled;
    if (!settled) {
      this.#request();
      return undefined;
    }
    this.#settled = undefined;
    if (settled.result && !settled.result.done) return settled.result;
    this.#ended = true;
    if (settled.result) return { done: true, value: undefined };
    throw settled.error;
  }

  /**
   * Closes the source. Waits for that only if no item is requested: a source that ignores its
   * signal may never settle a pending request.
   */
  async cancel(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    const closed = this.#iterator.return?.();
    // A source with a pending request closes when that settles; its failure has no reader any more.
    if (this.#requested) closed?.catch(() => {});
    else await closed;
  }

  #request(): void {
    if (this.#requested) return;
    this.#requested = true;
    const settle = (settled: Settled<T>): void => {
      this.#requested = false;
      this.#settled = settled;
      this.#onSettled();
    };
    try {
      this.#iterator.next().then(
        (result) => settle({ result }),
        (error: unknown) => settle({ error }),
      );
    } catch (error) {
      this.#requested = false;
      this.#ended = true;
      throw error;
    }
  }
}
