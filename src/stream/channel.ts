import { DuolaneError } from '../errors.ts';
import { onAbort } from './abort.ts';
import { Fifo } from './fifo.ts';
import { DONE, QueueReader, secondReaderError, type QueueSource } from './queue-reader.ts';
import type { Abortable } from './types.ts';

export interface ChannelOptions extends Abortable {
  /** How many items may wait before `push` makes the writer wait. */
  readonly capacity?: number;
}

interface Writer<T> {
  readonly item: T;
  readonly accept: () => void;
  readonly refuse: (error: unknown) => void;
}

const ACCEPTED = Promise.resolve();

/**
 * A bounded hand-over from any number of writers to one reader, in the order of the pushes.
 *
 * `push` resolves once the item has a place in the buffer, so writers that await it never run
 * ahead of the reader by more than `capacity` items. Leaving the reading loop (`break`, `throw`,
 * `return`) ends the channel: what waits is dropped and every writer is told with `closed`. An
 * abort of `signal` does the same at once, and the reader's loop and the waiting writers throw its
 * reason.
 */
export class Channel<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #capacity: number;
  readonly #items = new Fifo<T>();
  readonly #writers = new Fifo<Writer<T>>();
  readonly #source: QueueSource<T> = { take: () => this.#take(), cancel: () => this.#leave() };
  #reader: QueueReader<T> | undefined;
  #end: { readonly error?: unknown } | undefined;
  #unlisten = (): void => {};

  constructor({ capacity = 16, signal }: ChannelOptions = {}) {
    if (!(capacity >= 1)) {
      throw new DuolaneError('invalid', `the capacity of a channel must be 1 or more: ${capacity}`);
    }
    this.#capacity = capacity;
    this.#unlisten = onAbort(signal, (reason) => this.#abort(reason));
  }

  /** Whether it takes no more items; some may still wait for the reader. */
  get ended(): boolean {
    return this.#end !== undefined;
  }

  /** Resolves when the item has its place in the buffer; rejects with `closed` if it gets none. */
  push(item: T): Promise<void> {
    if (this.#end) return Promise.reject(closed(this.#end.error));
    if (this.#items.length < this.#capacity) {
      this.#add(item);
      return ACCEPTED;
    }
    return new Promise((accept, refuse) => this.#writers.push({ item, accept, refuse }));
  }

  /**
   * Puts the item there at once, beyond `capacity` if need be and before writers that wait: for a
   * last word that cannot wait. Throws `closed` after the end.
   */
  offer(item: T): void {
    if (this.#end) throw closed(this.#end.error);
    this.#add(item);
  }

  /** No more items: the reader still receives those in the buffer; writers that wait are refused. */
  close(): void {
    this.#finish({});
  }

  /** Stop with an error; items in the buffer are delivered first, then the reader's loop throws. */
  fail(error: unknown): void {
    this.#finish({ error });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T, void, undefined> {
    if (this.#reader) throw secondReaderError('channel');
    this.#reader = new QueueReader(this.#source);
    return this.#reader;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leave();
  }

  #add(item: T): void {
    if (this.#reader?.waits) this.#reader.deliver(item);
    else this.#items.push(item);
  }

  #take(): IteratorResult<T, void> | undefined {
    if (this.#items.length > 0) {
      const value = this.#items.shift() as T;
      this.#admit();
      return { done: false, value };
    }
    if (!this.#end) return undefined;
    if (!('error' in this.#end)) return DONE;
    const { error } = this.#end;
    this.#end = {}; // the error is thrown once; after it there is only the end
    throw error;
  }

  #admit(): void {
    if (this.#items.length >= this.#capacity) return;
    const writer = this.#writers.shift();
    if (!writer) return;
    this.#items.push(writer.item);
    writer.accept();
  }

  #finish(end: { readonly error?: unknown }, refuse = closed): void {
    this.#end ??= end;
    for (let next = this.#writers.shift(); next; next = this.#writers.shift()) {
      next.refuse(refuse(end.error));
    }
    if (this.#items.length === 0) this.#unlisten();
    this.#reader?.wake();
  }

  /** Drops what waits, also when a regular end came before. */
  #abort(reason: unknown): void {
    this.#items.clear();
    this.#end = { error: reason };
    this.#finish(this.#end, () => reason);
  }

  #leave(): void {
    this.#items.clear();
    this.#end = {};
    this.#finish(this.#end);
  }
}

const closed = (cause: unknown): unknown =>
  new DuolaneError('closed', 'the channel has ended and takes no more items', { cause });
