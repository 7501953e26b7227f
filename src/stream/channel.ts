import { DuolaneError } from '../errors.ts';
import { onAbort } from './abort.ts';
import { Fifo } from './fifo.ts';
import { DONE, QueueReader, secondReaderError, type QueueSource } from './queue-reader.ts';
import type { Abortable } from './types.ts';

/** Options of a `Channel`. An abort of `signal` ends the channel and throws its reason. */
export interface ChannelOptions extends Abortable {
  /** How many items the buffer holds before `push` waits; 16 by default. */
  readonly capacity?: number;
}

interface Writer<T> {
  readonly item: T;
  readonly accept: () => void;
  readonly refuse: (error: unknown) => void;
}

const ACCEPTED = Promise.resolve();

/**
 * A bounded queue from any number of writers to one reader, in the order of the pushes.
 *
 * `push` resolves once the item is in the buffer, so writers that await it never get more than
 * `capacity` items ahead of the reader. Ending the reading loop (`break`, `throw`, `return`) ends
 * the channel: the buffer is dropped and every writer gets a `closed` error. An abort of `signal`
 * ends it immediately as well; the reader's loop and the waiting writers throw the signal's reason.
 *
 * @example
 * ```ts
 * const channel = new Channel<string>({ capacity: 100 });
 * source.on('line', (line) => channel.push(line).catch(() => source.destroy()));
 * for await (const line of channel) handle(line);
 * ```
 */
export class Channel<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #capacity: number;
  readonly #items = new Fifo<T>();
  readonly #writers = new Fifo<Writer<T>>();
  readonly #source: QueueSource<T> = { take: () => this.#take(), cancel: () => this.#cancel() };
  #reader: QueueReader<T> | undefined;
  #end: { readonly error?: unknown } | undefined;
  #unlisten = (): void => {};

  constructor({ capacity = 16, signal }: ChannelOptions = {}) {
    if (!(capacity >= 1)) {
      throw new DuolaneError('invalid', `invalid capacity "${capacity}": expected 1 or more`);
    }
    this.#capacity = capacity;
    this.#unlisten = onAbort(signal, (reason) => this.#abort(reason));
  }

  /**
   * Whether the channel accepts no more items. Items in the buffer may still wait for the reader.
   */
  get ended(): boolean {
    return this.#end !== undefined;
  }

  /**
   * Resolves when the item is in the buffer; rejects with `closed` if the channel ends before that.
   */
  push(item: T): Promise<void> {
    if (this.#end) return Promise.reject(closed(this.#end.error));
    if (this.#items.length < this.#capacity) {
      this.#add(item);
      return ACCEPTED;
    }
    return new Promise((accept, refuse) => this.#writers.push({ item, accept, refuse }));
  }

  /**
   * Adds the item immediately, even beyond `capacity` and ahead of waiting writers: for a last item
   * whose writer cannot wait. Throws `closed` after the end.
   */
  offer(item: T): void {
    if (this.#end) throw closed(this.#end.error);
    this.#add(item);
  }

  /**
   * Ends the channel. The reader still receives the items in the buffer; waiting writers get
   * `closed`.
   */
  close(): void {
    this.#finish({});
  }

  /**
   * Ends the channel with an error. The reader receives the items in the buffer, then its loop
   * throws.
   */
  fail(error: unknown): void {
    this.#finish({ error });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T, void, undefined> {
    if (this.#reader) throw secondReaderError('channel');
    this.#reader = new QueueReader(this.#source);
    return this.#reader;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#cancel();
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
    this.#end = {}; // The error is thrown once; later reads get the regular end.
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

  /** Drops the buffer, also if the channel was closed before the abort. */
  #abort(reason: unknown): void {
    this.#items.clear();
    this.#end = { error: reason };
    this.#finish(this.#end, () => reason);
  }

  #cancel(): void {
    this.#items.clear();
    this.#end = {};
    this.#finish(this.#end);
  }
}

const closed = (cause: unknown): unknown =>
  new DuolaneError('closed', 'cannot add an item: the channel has ended', { cause });
