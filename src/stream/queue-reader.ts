import { DuolaneError } from '../errors.ts';

/** What a queue is to its one reader. */
export interface QueueSource<T> {
  /** The next item or the end, at once; `undefined` while there is neither. Throws the failure. */
  take(): IteratorResult<T, void> | undefined;
  /**
   * The reader is gone, by the end, an error or its own will: release everything, and wake a read
   * that waits. Called any number of times; after the first, `take` gives nothing but the end.
   */
  cancel(): void | Promise<void>;
}

interface Waiting<T> {
  readonly resolve: (result: IteratorResult<T, void>) => void;
  readonly reject: (error: unknown) => void;
}

export const DONE: IteratorReturnResult<void> = { done: true, value: undefined };

/**
 * The reading side of a queue. Written by hand and not as an async generator: an item that is there
 * costs one promise, and `return` also ends a `next` that waits.
 */
export class QueueReader<T> implements AsyncIterableIterator<T, void, undefined> {
  readonly #source: QueueSource<T>;
  #waiting: Waiting<T> | undefined;

  constructor(source: QueueSource<T>) {
    this.#source = source;
  }

  get waits(): boolean {
    return this.#waiting !== undefined;
  }

  next(): Promise<IteratorResult<T, void>> {
    if (this.#waiting) {
      const message = 'a read of this queue is already waiting; await next() before the next one';
      return Promise.reject(new DuolaneError('invalid', message));
    }
    try {
      const result = this.#source.take();
      if (result) return result.done ? this.return() : Promise.resolve(result);
    } catch (error) {
      return this.#leaveWith(error);
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** The source has something new: a `next` that waits looks again. */
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
      this.#leaveWith(error).catch(waiting.reject);
    }
  }

  /** Gives an item straight to the `next` that waits; only where `waits` holds. */
  deliver(item: T): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve({ done: false, value: item });
  }

  async return(): Promise<IteratorResult<T, void>> {
    await this.#source.cancel();
    return DONE;
  }

  // A loop whose next() rejects does not call return(), so the queue is left here. As in a loop
  // that throws, the first error is the one that counts.
  async #leaveWith(error: unknown): Promise<never> {
    // The first error is the one that counts.
    await Promise.resolve(this.#source.cancel()).catch(() => {});
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Fails the second time: a queue has one reader, or each of two would see half of the items. */
export const secondReaderError = (name: string): DuolaneError =>
  new DuolaneError(
    'invalid',
    `this ${name} already has a reader; read it in one place, and give each further reader its own`,
  );
