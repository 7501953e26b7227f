type Result = IteratorResult<Uint8Array, undefined>;

const DONE: Result = { done: true, value: undefined };

/**
 * A queue of chunks from a pipe to one reader, bounded in bytes. `Channel` does not fit here: it
 * counts items and signals a full queue by a pending promise, while a pipe must be paused
 * synchronously, and a chunk for a waiting reader must not be copied or queued.
 */
export class ByteQueue implements AsyncIterable<Uint8Array>, AsyncIterator<Uint8Array, undefined> {
  readonly #limitBytes: number;
  readonly #onRoom: () => void;
  // Two stacks: the oldest chunk is at the end of `#out`, and no chunk moves more than once.
  #in: Uint8Array[] = [];
  #out: Uint8Array[] = [];
  #bytes = 0;
  #reader: ((result: Result) => void) | undefined;
  #ended = false;

  /** `onRoom` is called each time that reading brings the queue down to half of its limit. */
  constructor(limitBytes: number, onRoom: () => void) {
    this.#limitBytes = limitBytes;
    this.#onRoom = onRoom;
  }

  /** Whether the reader waits and the queue is empty. */
  get starved(): boolean {
    return this.#reader !== undefined;
  }

  /** Whether the limit is reached. */
  get full(): boolean {
    return this.#bytes >= this.#limitBytes;
  }

  /**
   * Adds a chunk. Returns false if the queue is now full: stop until `onRoom`. Chunks after the end
   * are dropped.
   */
  push(chunk: Uint8Array): boolean {
    if (this.#ended) return true;
    if (this.#reader) {
      this.#settle({ done: false, value: chunk });
      return true;
    }
    this.#in.push(chunk);
    this.#bytes += chunk.length;
    return !this.full;
  }

  /** Ends the queue. The reader still gets the waiting chunks. */
  end(): void {
    this.#ended = true;
    if (this.#reader) this.#settle(DONE);
  }

  next(): Promise<Result> {
    if (this.#out.length === 0) [this.#out, this.#in] = [this.#in.reverse(), this.#out];
    const chunk = this.#out.pop();
    if (!chunk) {
      if (this.#ended) return Promise.resolve(DONE);
      return new Promise((resolve) => (this.#reader = resolve));
    }
    const before = this.#bytes;
    this.#bytes -= chunk.length;
    const low = this.#limitBytes / 2;
    if (before > low && this.#bytes <= low) this.#onRoom();
    return Promise.resolve({ done: false, value: chunk });
  }

  /**
   * Ends the queue because the reader stops. Waiting and later chunks are dropped, so that the peer
   * is not blocked by a full pipe.
   */
  return(): Promise<Result> {
    this.end();
    this.#in = [];
    this.#out = [];
    this.#bytes = 0;
    this.#onRoom();
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #settle(result: Result): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.(result);
  }
}
