/** How many items may be queued before `push` waits. */
const CAPACITY = 1000;

/**
 * Adds items to a stream from beside it, also while the stream itself yields nothing. If `CAPACITY`
 * items are queued, `push` resolves only when the reader has taken its item.
 */
export class SideChannel<T> {
  readonly #queue: { readonly item: T; readonly taken: () => void }[] = [];
  #wake: () => void = () => {};
  #open = false;

  readonly push = (item: T): Promise<void> =>
    new Promise((taken) => {
      if (!this.#open) return taken();
      this.#queue.push({ item, taken });
      if (this.#queue.length <= CAPACITY) taken();
      this.#wake();
    });

  /**
   * Yields the items of both in the order of arrival, for one source at a time. Items that are
   * pushed while no source is read are dropped.
   */
  async *with<S>(source: AsyncIterable<S>): AsyncGenerator<S | T, void, undefined> {
    const iterator = source[Symbol.asyncIterator]();
    this.#open = true;
    try {
      for (;;) {
        const next = iterator.next();
        yield* this.#until(next);
        const { done, value } = await next;
        if (done) return;
        yield value;
      }
    } finally {
      this.#open = false;
      for (const { taken } of this.#queue.splice(0)) taken();
      await iterator.return?.();
    }
  }

  /** Yields pushed items until `next` settles. */
  async *#until(next: Promise<unknown>): AsyncGenerator<T, void, undefined> {
    let settled = false;
    const settle = (): void => {
      settled = true;
      this.#wake();
    };
    next.then(settle, settle);
    for (;;) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      for (let queued = this.#queue.shift(); queued; queued = this.#queue.shift()) {
        queued.taken();
        yield queued.item;
      }
      if (settled) return;
      await woken;
    }
  }
}
