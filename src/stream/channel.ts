import { DuolaneError } from '../errors.ts';
import type { Abortable } from './types.ts';

export interface ChannelOptions extends Abortable {
  /** How many items may wait before `push` makes the writer wait. */
  readonly capacity?: number;
}

type End = { readonly ok: true } | { readonly ok: false; readonly error: unknown };

/**
 * A bounded hand-over from any number of writers to one reader, in order.
 *
 * `push` resolves once the item has a place in the buffer, so writers that await it never run
 * ahead of the reader by more than `capacity` items. Leaving the reading loop (`break`, `throw`,
 * `return`) closes the channel, and every waiting writer is told with `closed`.
 */
export class Channel<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #capacity: number;
  readonly #items: T[] = [];
  readonly #writers: Array<() => void> = [];
  #reader: (() => void) | undefined;
  #end: End | undefined;
  #unlisten = (): void => {};

  constructor({ capacity = 16, signal }: ChannelOptions = {}) {
    this.#capacity = capacity;
    if (!signal) return;
    const onAbort = (): void => this.fail(signal.reason);
    this.#unlisten = () => signal.removeEventListener('abort', onAbort);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  }

  get ended(): boolean {
    return this.#end !== undefined;
  }

  /** Waits for a place in the buffer, then puts the item there. */
  async push(item: T): Promise<void> {
    await this.room();
    this.offer(item);
  }

  /** Puts the item there at once, beyond `capacity` if need be; pair it with `room`. */
  offer(item: T): void {
    if (this.#end) throw new DuolaneError('closed', 'the channel no longer takes items');
    this.#items.push(item);
    this.#wakeReader();
  }

  /** Resolves when the buffer is below its capacity, or the channel has ended. */
  async room(): Promise<void> {
    while (!this.#end && this.#items.length >= this.#capacity) {
      await new Promise<void>((resolve) => this.#writers.push(resolve));
    }
  }

  /** No more items; the reader still receives those that wait. */
  close(): void {
    this.#finish({ ok: true });
  }

  /** Stop with an error; items that wait are delivered first, then the reader's loop throws. */
  fail(error: unknown): void {
    this.#finish({ ok: false, error });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      for (;;) {
        while (this.#items.length > 0) {
          const item = this.#items.shift() as T;
          this.#wakeWriters();
          yield item;
        }
        if (this.#end?.ok === false) throw this.#end.error;
        if (this.#end) return;
        await new Promise<void>((resolve) => (this.#reader = resolve));
      }
    } finally {
      this.#items.length = 0;
      this.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#items.length = 0;
    this.close();
  }

  #finish(end: End): void {
    this.#end ??= end;
    this.#unlisten();
    this.#wakeReader();
    this.#wakeWriters();
  }

  // All of them: each looks again for room, and one that no longer waits costs nobody its turn.
  #wakeWriters(): void {
    for (const wake of this.#writers.splice(0)) wake();
  }

  #wakeReader(): void {
    this.#reader?.();
    this.#reader = undefined;
  }
}
