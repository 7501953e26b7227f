/** So much may wait to be heard before who tells has to wait as well. */
const ROOM = 1000;

/** What is told beside a stream while it is silent. With `ROOM` untaken, `push` waits for its own to be taken. */
export class SideChannel<T> {
  readonly #told: { readonly item: T; readonly taken: () => void }[] = [];
  #wake: () => void = () => {};
  #open = false;

  readonly push = (item: T): Promise<void> =>
    new Promise((taken) => {
      if (!this.#open) return taken();
      this.#told.push({ item, taken });
      if (this.#told.length <= ROOM) taken();
      this.#wake();
    });

  /** Both, as they come, for one source at a time; what is told while there is none is dropped. */
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
      for (const { taken } of this.#told.splice(0)) taken();
      await iterator.return?.();
    }
  }

  async *#until(next: Promise<unknown>): AsyncGenerator<T, void, undefined> {
    let settled = false;
    const settle = (): void => {
      settled = true;
      this.#wake();
    };
    next.then(settle, settle);
    for (;;) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      for (let told = this.#told.shift(); told; told = this.#told.shift()) {
        told.taken();
        yield told.item;
      }
      if (settled) return;
      await woken;
    }
  }
}
