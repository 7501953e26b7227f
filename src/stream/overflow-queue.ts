import { DuolaneError } from '../errors.ts';
import { onAbort } from './abort.ts';
import { Fifo } from './fifo.ts';
import { disposeOnce } from './dispose-once.ts';
import { DONE, QueueReader, secondReaderError, type QueueSource } from './queue-reader.ts';
import { DiskQueue } from './disk-queue.ts';
import type { Abortable } from './types.ts';
import { reportUnexpected } from './report-unexpected.ts';

/** Limits of an `OverflowQueue`, and how it writes items to disk. */
export interface OverflowOptions<T> extends Abortable {
  /** Bytes kept in memory before further items go to disk; 4 MiB by default. */
  readonly memoryBytes?: number | undefined;
  /** Bytes on disk before the queue fails with `too_large`; 2 GiB by default. */
  readonly diskBytes?: number | undefined;
  /** Converts an item to well-formed text and back; JSON by default. */
  readonly encode?: (item: T) => string;
  readonly decode?: (text: string) => T;
  /** The folder for the temporary file; the system's temporary folder by default. */
  readonly directory?: string;
}

/** How many items wait in an overflow queue, and where. */
export interface QueueDepth {
  readonly items: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

const BATCH_BYTES = 256 * 1024;

/**
 * A queue for a producer that must not be stopped: `offer` is synchronous and never waits, order is
 * kept, memory is bounded by `memoryBytes`, and items beyond that wait in a temporary file.
 *
 * It has one reader. Breaking out of the reader's loop ends the queue: waiting items are dropped,
 * the file is deleted and `offer` returns false. An abort does the same, and the reader's loop
 * throws the signal's reason immediately. The file is unlinked while it is used, so a crash leaves
 * none behind; only systems that cannot unlink an open file delete it when it has been read or the
 * queue ends.
 *
 * An item that was on disk comes back as an equal value, not as the same object. Sizes in memory
 * are the lengths of the encoded texts.
 */
export class OverflowQueue<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #memoryBytes: number;
  readonly #encode: (item: T) => string;
  readonly #decode: (text: string) => T;
  readonly #items = new Fifo<T>();
  readonly #sizes = new Fifo<number>();
  readonly #disk: DiskQueue;
  readonly #source: QueueSource<T> = { take: () => this.#take(), cancel: () => this.#cancel({}) };
  #bytes = 0;
  #reader: QueueReader<T> | undefined;
  #loading: Promise<void> | undefined;
  #end: { readonly error?: unknown } | undefined;
  #canceled: Promise<void> | undefined;
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
    this.#disk = new DiskQueue({ directory, batchBytes, diskBytes });
    this.#unlisten = onAbort(signal, (reason) => this.#abort(reason));
  }

  /** How many items wait, and where. */
  get waiting(): QueueDepth {
    const { items, memoryBytes, diskBytes } = this.#disk;
    return { items: this.#items.length + items, memoryBytes: this.#bytes + memoryBytes, diskBytes };
  }

  /**
   * Adds the item. Returns false if the queue has ended and did not accept it. A caller that has
   * the encoded form of the item already passes it as `text`, so that the item is not encoded
   * again.
   *
   * If the disk is full or `diskBytes` is exceeded, the queue fails: this and every later `offer`
   * returns false, and the reader gets all accepted items and then the error.
   */
  offer(item: T, text?: string): boolean {
    if (this.#end) return false;
    if (this.#reader?.waits && !this.#loading) {
      this.#reader.deliver(item);
      return true;
    }
    const encoded = text ?? this.#text(item);
    if (this.#disk.items === 0 && this.#bytes + encoded.length <= this.#memoryBytes) {
      this.#items.push(item);
      this.#sizes.push(encoded.length);
      this.#bytes += encoded.length;
      return true;
    }
    try {
      this.#disk.write(encoded);
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /** Whether the next item that is offered goes to disk, because the reader is too far behind. */
  get spilling(): boolean {
    return this.#disk.items > 0 && !this.#end;
  }

  /**
   * Adds an item as the bytes of its text and writes them to disk without decoding them, which
   * allocates nothing. Returns false if the queue is not `spilling`, or has just failed: the item
   * is then not accepted.
   */
  offerBytes(bytes: Buffer, start: number, end: number): boolean {
    if (!this.spilling) return false;
    try {
      this.#disk.writeBytes(bytes, start, end);
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  /**
   * Returns the next item if it waits in memory, without a promise, for a reader on a hot path.
   * `undefined` only means that no item is in memory: use the iterator then. Do not call it while a
   * `next` of the iterator is pending.
   */
  take(): T | undefined {
    if (this.#items.length === 0) return undefined;
    this.#bytes -= this.#sizes.shift() ?? 0;
    return this.#items.shift();
  }

  /** Ends the queue. The reader still receives the waiting items. */
  close(): void {
    this.#finish({});
  }

  /** Ends the queue with an error. The reader receives the waiting items, then its loop throws. */
  fail(error: unknown): void {
    this.#finish({ error });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T, void, undefined> {
    if (this.#reader) throw secondReaderError('queue');
    this.#reader = new QueueReader(this.#source);
    return this.#reader;
  }

  /** Drops the waiting items; resolves when memory and disk are released. */
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#cancel({}));

  #text(item: T): string {
    let text: unknown;
    let cause: unknown;
    try {
      text = this.#encode(item);
    } catch (error) {
      cause = error;
    }
    if (typeof text === 'string') return text;
    const message = 'cannot queue an item: it has no JSON form; offer JSON values, or set encode';
    throw new DuolaneError('invalid', message, { cause });
  }

  #take(): IteratorResult<T, void> | undefined {
    if (this.#items.length > 0) return { done: false, value: this.take() as T };
    if (this.#disk.items > 0 && !this.#canceled) {
      if (this.#loading) return undefined;
      const text = this.#disk.take();
      if (text !== undefined) return { done: false, value: this.#decode(text) };
      this.#loading = this.#load();
      return undefined;
    }
    if (!this.#end) return undefined;
    if (!('error' in this.#end)) return DONE;
    const { error } = this.#end;
    this.#end = {}; // The error is thrown once; later reads get the regular end.
    throw error;
  }

  async #load(): Promise<void> {
    try {
      await this.#disk.load();
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

  /**
   * Ends the queue with an error immediately: waiting items are dropped, even if it was closed
   * before.
   */
  #abort(error: unknown): void {
    // The reader throws the error of the abort, so a file that cannot be closed is only reported.
    if (!this.#canceled) this.#cancel({ error }).catch(reportUnexpected);
  }

  #cancel(end: { readonly error?: unknown }): Promise<void> {
    if (this.#canceled) return this.#canceled;
    this.#end = end;
    this.#unlisten();
    this.#items.clear();
    this.#sizes.clear();
    this.#bytes = 0;
    this.#canceled = this.#release();
    this.#reader?.wake();
    return this.#canceled;
  }

  async #release(): Promise<void> {
    await this.#loading; // A pending read needs its file open.
    await this.#disk.close();
  }
}
