import { getHeapStatistics } from 'node:v8';

/** What a request takes in memory besides its text. */
const REQUEST_BYTES = 1024;

/**
 * Limits the memory of requests that are running. A tool may take long and a client need not wait
 * for it, so the limits of the body and of the number of requests are not enough. One owner has at
 * most half of the memory.
 */
export class RunningBytes {
  readonly #max: number;
  readonly #owners = new Map<string | undefined, number>();
  #bytes = 0;

  constructor(max: number = getHeapStatistics().heap_size_limit / 8) {
    this.#max = max;
  }

  /**
   * Counts a request of so many bytes. Returns a function that ends it, which may be called twice,
   * or `undefined` if the request must be refused.
   */
  take(owner: string | undefined, length: number): (() => void) | undefined {
    const bytes = length + REQUEST_BYTES;
    const own = (this.#owners.get(owner) ?? 0) + bytes;
    // One request is always allowed: `maxBodyBytes` limits it.
    const fits = this.#bytes + bytes <= this.#max && own <= this.#max / 2;
    if (!fits && this.#bytes > 0) return undefined;
    this.#add(owner, bytes);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#add(owner, -bytes);
    };
  }

  #add(owner: string | undefined, bytes: number): void {
    this.#bytes += bytes;
    const own = (this.#owners.get(owner) ?? 0) + bytes;
    if (own > 0) this.#owners.set(owner, own);
    else this.#owners.delete(owner);
  }
}
