type Result = IteratorResult<Uint8Array, undefined>;

const DONE: Result = { done: true, value: undefined };

/**
 * Chunks from a pipe to one reader, bounded in bytes. `Channel` counts items and waits in promises;
 * a pipe must be told at once to stop, and a chunk handed to a waiting reader must cost nothing.
 */
export class ByteQueue implements AsyncIterable<Uint8Array>, AsyncIterator<Uint8Array, undefined> {
  readonly #limitBytes: number;
  readonly #onRoom: () => void;
  // Two stacks: the oldest chunk is at the end of `out`, and no chunk moves more than once.
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

  /** The reader has nothing left to read and waits. */
  get starved(): boolean {
    return this.#reader !== undefined;
  }

  get full(): boolean {
    return this.#bytes >= this.#limitBytes;
  }

  /** False: full, stop until `onRoom`. What comes after the end is dropped. */
  push(chunk: Uint8Array): boolean {
    if (this.#ended) return true;
    if (this.#reader) {
      this.#answer({ done: false, value: chunk });
      return true;
    }
    this.#in.push(chunk);
    this.#bytes += chunk.length;
    return !this.full;
  }

  /** The reader still gets what waits. */
  end(): void {
    this.#ended = true;
    if (this.#reader) this.#answer(DONE);
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

  /** The reader left: what waits and what comes is dropped, so that the peer is not held back. */
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

  #answer(result: Result): void {
    const reader = this.#reader;
    this.#reader = undefined;
    reader?.(result);
  }
}
