/**
 * A first-in, first-out queue without the linear cost of `Array.shift`: every operation takes
 * amortised constant time.
 */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes and returns the oldest item. Check `length` first if `undefined` can be an item. */
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
    // A short array is reused; a long one is dropped, so that one burst does not keep its memory.
    if (this.#items.length > 1024) this.#items = [];
    else this.#items.length = 0;
    this.#head = 0;
  }
}
