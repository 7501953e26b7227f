/** First in, first out, without the cost of `Array.shift`: every operation is amortised constant. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** The oldest item; look at `length` first where `undefined` may be one. */
  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (this.#head === this.#items.length) return undefined;
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.clear();
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    // A short array is used again; a long one is not kept for the sake of one burst.
    if (this.#items.length > 1024) this.#items = [];
    else this.#items.length = 0;
    this.#head = 0;
  }
}
