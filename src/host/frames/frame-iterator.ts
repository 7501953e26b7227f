import type { Frame } from '../../event/types.ts';

/** What a view shows of the frames that pass by. */
export interface FrameSource<T> {
  /** Before the first read; throws if somebody else reads. */
  begin(): void;
  /** The next frame, if it is there. */
  take(): Frame | undefined;
  /** The next frame of the queue, or its end. */
  pull(): Promise<IteratorResult<Frame, void>>;
  /** What is shown for a frame; undefined skips it. */
  show(frame: Frame): T | undefined;
  /** Whether the frame just shown was the last one. */
  isOver(): boolean;
  /** Once, however the reading ends. */
  end(): void;
}

const DONE: IteratorReturnResult<void> = { done: true, value: undefined };

/**
 * One loop over a session. Written by hand and not as an async generator, since every message passes
 * through it: an item that is there costs one promise. Leaving the loop leaves the rest in the queue.
 */
export class FrameIterator<T> implements AsyncIterableIterator<T, void, undefined> {
  readonly #lens: FrameSource<T>;
  #state: 'new' | 'open' | 'over' = 'new';

  constructor(lens: FrameSource<T>) {
    this.#lens = lens;
  }

  next(): Promise<IteratorResult<T, void>> {
    const value = this.take();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#state === 'over') return Promise.resolve(DONE);
    try {
      if (this.#state === 'new') this.#lens.begin();
    } catch (error) {
      this.#state = 'over';
      return Promise.reject(error);
    }
    this.#state = 'open';
    return this.#lens.pull().then(this.#take, this.#fail);
  }

  /** What is there already, once the loop has begun; undefined: ask `next`. */
  take(): T | undefined {
    while (this.#state === 'open') {
      const frame = this.#lens.take();
      if (!frame) return undefined;
      const value = this.#lens.show(frame);
      if (this.#lens.isOver()) this.#end();
      if (value !== undefined) return value;
    }
    return undefined;
  }

  async return(): Promise<IteratorResult<T, void>> {
    this.#end();
    return DONE;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  readonly #take = (
    result: IteratorResult<Frame, void>,
  ): IteratorResult<T, void> | Promise<IteratorResult<T, void>> => {
    if (this.#state === 'over') return DONE;
    if (result.done) {
      this.#end();
      return DONE;
    }
    const value = this.#lens.show(result.value);
    if (this.#lens.isOver()) this.#end();
    return value === undefined ? this.next() : { done: false, value };
  };

  readonly #fail = (error: unknown): never => {
    this.#end();
    throw error;
  };

  #end(): void {
    if (this.#state === 'open') this.#lens.end();
    this.#state = 'over';
  }
}
