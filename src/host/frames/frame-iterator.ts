import type { Frame } from '../../event/types.ts';

/** The frames of a queue, for one loop at a time. */
export interface FrameFeed {
  /** Called before the first read; throws `conflict` if another loop reads. */
  begin(): void;
  /** The next frame, if it is available. */
  take(): Frame | undefined;
  /** Waits for the next frame of the queue, or its end. */
  pull(): Promise<IteratorResult<Frame, void>>;
  /** Called once, however the loop ends. */
  end(): void;
}

/** Selects what a loop yields. */
export interface FrameSelector<T> {
  /** The value for a frame; undefined skips the frame. */
  select(frame: Frame): T | undefined;
  /** Whether the last selected frame ends the loop. */
  isLast?(): boolean;
  /** Called before the first read. */
  onBegin?(): void;
  /** Called once, however the loop ends. */
  onEnd?(): void;
}

const DONE: IteratorReturnResult<void> = { done: true, value: undefined };

/**
 * One loop over the frames of a session. It is not an async generator, because every message passes
 * through it: an available item costs one promise. Breaking out leaves the rest in the queue.
 */
export class FrameIterator<T> implements AsyncIterableIterator<T, void, undefined> {
  readonly #feed: FrameFeed;
  readonly #selector: FrameSelector<T>;
  #state: 'new' | 'open' | 'over' = 'new';

  constructor(feed: FrameFeed, selector: FrameSelector<T>) {
    this.#feed = feed;
    this.#selector = selector;
  }

  next(): Promise<IteratorResult<T, void>> {
    const value = this.take();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#state === 'over') return Promise.resolve(DONE);
    if (this.#state === 'new') {
      try {
        this.#feed.begin();
      } catch (error) {
        this.#state = 'over';
        return Promise.reject(error);
      }
      this.#selector.onBegin?.();
      this.#state = 'open';
    }
    return this.#feed.pull().then(this.#take, this.#fail);
  }

  /** The next item, if it is available and the loop has begun. Otherwise call `next`. */
  take(): T | undefined {
    while (this.#state === 'open') {
      const frame = this.#feed.take();
      if (!frame) return undefined;
      const value = this.#select(frame);
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
    const value = this.#select(result.value);
    return value === undefined ? this.next() : { done: false, value };
  };

  readonly #fail = (error: unknown): never => {
    this.#end();
    throw error;
  };

  #select(frame: Frame): T | undefined {
    const value = this.#selector.select(frame);
    if (this.#selector.isLast?.()) this.#end();
    return value;
  }

  #end(): void {
    if (this.#state === 'open') {
      this.#feed.end();
      this.#selector.onEnd?.();
    }
    this.#state = 'over';
  }
}
