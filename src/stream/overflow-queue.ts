import { DuolaneError } from '../errors.ts';
import { onAbort } from './abort.ts';
import { Fifo } from './fifo.ts';
import { disposeOnce } from './dispose-once.ts';
import { DONE, QueueReader, secondReaderError, type QueueSource } from './queue-reader.ts';
import { DiskQueue } from './disk-queue.ts';
import type { Abortable } from './types.ts';
import { reportUnexpected } from './report-unexpected.ts';

export interface OverflowOptions<T> extends Abortable {
  /** Bytes kept in memory before the queue goes to disk; 4 MiB by default. */
  readonly memoryBytes?: number;
  /** Bytes on disk before the queue fails with `too_large`; 2 GiB by default. */
  readonly diskBytes?: number;
  /** How an item becomes well-formed text and back; JSON by default. */
  readonly encode?: (item: T) => string;
  readonly decode?: (text: string) => T;
  /** Where the file goes; the system's temporary folder by default. */
  readonly directory?: string;
}

/** What waits in an overflow queue, and where. */
export interface QueueDepth {
  readonly items: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

const BATCH_BYTES = 256 * 1024;

/**
 * A queue for a producer that must not be stopped: `offer` is synchronous and never waits, order is
 * kept, memory is bounded by `memoryBytes`, and what is beyond waits in a temporary file.
 *
 * One reader, and leaving its loop ends the queue: what waits is dropped, the file is gone, `offer`
 * returns false. So does an abort, and the reader's loop throws the signal's reason at once. The
 * file has no name while it is used, so nothing is left of it after a crash either; only on systems
 * that cannot unlink an open file it is deleted when it has been read or the queue ends.
 *
 * An item that went through the file comes back as an equal one, not the same. Sizes in memory are
 * the lengths of the encoded texts.
 */
export class OverflowQueue<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #memoryBytes: number;
  readonly #encode: (item: T) => string;
  readonly #decode: (text: string) => T;
  readonly #items = new Fifo<T>();
  readonly #sizes = new Fifo<number>();
  readonly #spill: DiskQueue;
  readonly #source: QueueSource<T> = { take: () => this.#take(), cancel: () => this.#leave({}) };
  #bytes = 0;
  #reader: QueueReader<T> | undefined;
  #loading: Promise<void> | undefined;
  #end: { readonly error?: unknown } | undefined;
  #left: Promise<void> | undefined;
  #unlisten = (): void => {};

  constructor({
    memoryBytes = 4 * 1024 * 1024,
    diskBytes = 2 * 1024 * 1024 * 1024,
    encode = (item) => JSON.stringify(item),
    decode = (text) => JSON.parse(text) as T,
    directory,
    signal,
  }: OverflowOptions<T> = {}) {
    this.#memoryBytes = memoryBytes;
    this.#encode = encode;
    this.#decode = decode;
    const batchBytes = Math.min(BATCH_BYTES, Math.max(64, Math.ceil(memoryBytes / 16)));
    this.#spill = new DiskQueue({ directory, batchBytes, diskBytes });
    this.#unlisten = onAbort(signal, (reason) => this.#abort(reason));
  }

  /** Items that wait, and where. */
  get waiting(): QueueDepth {
    const { items, memoryBytes, diskBytes } = this.#spill;
    return { items: this.#items.length + items, memoryBytes: this.#bytes + memoryBytes, diskBytes };
  }

  /**
   * Takes the item at once; false when the queue has ended and did not take it. `text` is the
   * item's encoded form, for a caller who has it already: an item is then never encoded again.
   *
   * When the disk is full or its budget passed, the queue fails: this and every later `offer`
   * returns false, and the reader gets all items taken before and then the error.
   */
  offer(item: T, text?: string): boolean {
    if (this.#end) return false;
    if (this.#reader?.waits && !this.#loading) {
      this.#reader.deliver(item);
      return true;
    }
    const encoded = text ?? this.#text(item);
    if (this.#spill.items === 0 && this.#bytes + encoded.length <= this.#memoryBytes) {
      this.#items.push(item);
      this.#sizes.push(encoded.length);
      this.#bytes += encoded.length;
      return true;
    }
    try {
      this.#spill.write(encoded);
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /** Whether the reader is so far behind that what is offered next goes to disk. */
  get spilling(): boolean {
    return this.#spill.items > 0 && !this.#end;
  }

  /**
   * Takes an item as the bytes of its text, straight to disk: nothing is decoded, nothing is left
   * to collect. False if the queue is not `spilling`, or has just failed: then it is not taken.
   */
  offerBytes(bytes: Buffer, start: number, end: number): boolean {
    if (!this.spilling) return false;
    try {
      this.#spill.writeBytes(bytes, start, end);
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /**
   * The next item if it waits in memory, without a promise, for a reader in a hurry; undefined says
   * nothing but that: ask the iterator. Not while a `next` of it is pending.
   */
  take(): T | undefined {
    if (this.#items.length === 0) return undefined;
    this.#bytes -= this.#sizes.shift() ?? 0;
    return this.#items.shift();
  }

  /** No more items; the reader still receives those that wait. */
  close(): void {
    this.#finish({});
  }

  /** Ends with an error: the reader receives the items that wait, then its loop throws. */
  fail(error: unknown): void {
    this.#finish({ error });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T, void, undefined> {
    if (this.#reader) throw secondReaderError('queue');
    this.#reader = new QueueReader(this.#source);
    return this.#reader;
  }

  /** Drops what waits; resolves when memory and disk are given back. */
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#leave({}));

  #text(item: T): string {
    let text: unknown;
    let cause: unknown;
    try {
      text = this.#encode(item);
    } catch (error) {
      cause = error;
    }
    if (typeof text === 'string') return text;
    const message = 'an item has no text and cannot be queued; give JSON values, or set encode';
    throw new DuolaneError('invalid', message, { cause });
  }

  #take(): IteratorResult<T, void> | undefined {
    if (this.#items.length > 0) return { done: false, value: this.take() as T };
    if (this.#spill.items > 0 && !this.#left) {
      if (this.#loading) return undefined;
      const text = this.#spill.take();
      if (text !== undefined) return { done: false, value: this.#decode(text) };
      this.#loading = this.#load();
      return undefined;
    }
    if (!this.#end) return undefined;
    if (!('error' in this.#end)) return DONE;
    const { error } = this.#end;
    this.#end = {}; // the error is thrown once; after it there is only the end
    throw error;
  }

  async #load(): Promise<void> {
    try {
      await this.#spill.load();
    } catch (error) {
      this.#abort(error);
    }
    this.#loading = undefined;
    this.#reader?.wake();
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#reader?.wake();
  }

  /** Ends with an error now: what waits is dropped, also when a regular end came before. */
  #abort(error: unknown): void {
    // The reader throws the error of the abort; a file that cannot be closed is reported.
    if (!this.#left) this.#leave({ error }).catch(reportUnexpected);
  }

  #leave(end: { readonly error?: unknown }): Promise<void> {
    if (this.#left) return this.#left;
    this.#end = end;
    this.#unlisten();
    this.#items.clear();
    this.#sizes.clear();
    this.#bytes = 0;
    this.#left = this.#release();
    this.#reader?.wake();
    return this.#left;
  }

  async #release(): Promise<void> {
    await this.#loading; // a file is not closed under a read
    await this.#spill.close();
  }
}
