import { DuolaneError } from '../errors.ts';

/** The queue behind a `QueueReader`. */
export interface QueueSource<T> {
  /**
   * Returns the next item or the end without waiting; `undefined` if there is neither yet. Throws
   * the failure of the queue.
   */
  take(): IteratorResult<T, void> | undefined;
  /**
   * Called when the reader ends: by the end of the queue, an error or `return`. Releases all
   * resources and wakes a pending read. May be called several times; after the first call, `take`
   * returns the end only.
   */
  cancel(): void | Promise<void>;
}

interface PendingRead<T> {
  readonly resolve: (result: IteratorResult<T, void>) => void;
  readonly reject: (error: unknown) => void;
}

/** The result that ends an iteration. */
export const DONE: IteratorReturnResult<void> = { done: true, value: undefined };

/**
 * The reading side of a queue. It is not an async generator for two reasons: an available item
 * costs one promise only, and `return` also ends a pending `next`.
 */
export class QueueReader<T> implements AsyncIterableIterator<T, void, undefined> {
  readonly #source: QueueSource<T>;
  #waiting: PendingRead<T> | undefined;

  constructor(source: QueueSource<T>) {
    this.#source = source;
  }

  /** Whether a `next` is pending. */
  get waits(): boolean {
    return this.#waiting !== undefined;
  }

  next(): Promise<IteratorResult<T, void>> {
    if (this.#waiting) {
      const message = 'cannot read: another next() is pending; await it first';
      return Promise.reject(new DuolaneError('invalid', message));
    }
    try {
      const result = this.#source.take();
      if (result) return result.done ? this.return() : Promise.resolve(result);
    } catch (error) {
      return this.#cancelWith(error);
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** Retries a pending `next`, because the source has something new. */
  wake(): void {
    const waiting = this.#waiting;
    if (!waiting) return;
    try {
      const result = this.#source.take();
      if (!result) return;
      this.#waiting = undefined;
      if (result.done) this.return().then(waiting.resolve, waiting.reject);
      else waiting.resolve(result);
    } catch (error) {
      this.#waiting = undefined;
      this.#cancelWith(error).catch(waiting.reject);
    }
  }

  /** Resolves the pending `next` with the item. Call it only while `waits` is true. */
  deliver(item: T): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve({ done: false, value: item });
  }

  async return(): Promise<IteratorResult<T, void>> {
    await this.#source.cancel();
    return DONE;
  }

  // A loop whose `next` rejects does not call `return`, so the queue is cancelled here.
  async #cancelWith(error: unknown): Promise<never> {
    // The reader gets the first error, as in a loop that throws.
    await Promise.resolve(this.#source.cancel()).catch(() => {});
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The error for a second reader: each of two readers would get a part of the items. */
export const secondReaderError = (name: string): DuolaneError =>
  new DuolaneError(
    'invalid',
    `cannot read: this ${name} already has a reader; read it in one place only`,
  );
