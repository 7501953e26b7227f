import type { SseItem } from '../../../../http/sse-response.ts';
import type { JsonObject } from '../../../../json.ts';
import { onAbort } from '../../../../stream/abort.ts';
import { DONE, QueueReader } from '../../../../stream/queue-reader.ts';
import type { Abortable } from '../../../../stream/types.ts';
import { encodeRpc } from '../../../../wire/json-rpc.ts';

/** How many bytes wait for the client before writers must wait. */
const WAITING_BYTES = 256 * 1024;
/** How many bytes of sent messages are kept for a client that reconnects. */
const KEPT_BYTES = 256 * 1024;

interface KeptEvent {
  readonly seq: number;
  readonly data: string;
  readonly bytes: number;
}

/** One connection that reads a stream. The signal aborts when the client disconnects. */
export interface StreamReadOptions extends Abortable {
  /** Read events after this number; from the first one by default. */
  readonly after?: number;
  /** An event to send before all others. */
  readonly first?: SseItem;
  /**
   * Called once when this connection ends: by the end of the stream, a new reader, `return` or the
   * signal.
   */
  readonly onClose?: () => void;
}

/**
 * The messages of one stream to a client. `push` waits while more than 256 KiB wait for the client,
 * connected or not. With a name, events have ids, and sent messages are kept up to the same size
 * for a client that reconnects, the newest one whatever its size. There is one reader at a time: a
 * new one replaces the old one.
 */
export class ResumableStream {
  /** Resolves with the first message. */
  readonly begun: Promise<void>;
  readonly #name: string | undefined;
  /** The messages from the oldest that is kept to the newest that waits. */
  readonly #entries: KeptEvent[] = [];
  #begin = (): void => {};
  #seq = 0;
  /** The number of the last message that a connection has taken. */
  #taken = 0;
  #keptBytes = 0;
  #waitingBytes = 0;
  #ended = false;
  /** The current connection; it has replaced earlier ones. */
  #reader: QueueReader<SseItem> | undefined;
  #wakeWriters: Array<() => void> = [];

  constructor(name?: string) {
    this.#name = name;
    this.begun = new Promise((resolve) => (this.#begin = resolve));
  }

  /** The number of the newest message; 0 before the first. */
  get last(): number {
    return this.#seq;
  }

  /** The number of the last message that a connection has taken. */
  get taken(): number {
    return this.#taken;
  }

  /**
   * Whether the stream has ended and has no connection: its messages are kept only for a client
   * that reconnects.
   */
  get kept(): boolean {
    return this.#ended && this.#reader === undefined;
  }

  /** How many bytes the stream holds in memory. */
  get bytes(): number {
    return this.#keptBytes + this.#waitingBytes;
  }

  /**
   * Adds a message when there is space. Rejects with `invalid` for a message that cannot be encoded
   * as JSON and is not a response.
   */
  async push(message: JsonObject): Promise<void> {
    while (!this.#ended && this.#waitingBytes > WAITING_BYTES)
      await new Promise<void>((wake) => this.#wakeWriters.push(wake));
    this.offer(message);
  }

  /** Adds a message without waiting, such as the final response. */
  offer(message: JsonObject): void {
    if (this.#ended) return;
    const data = encodeRpc(message);
    const bytes = Buffer.byteLength(data);
    this.#entries.push({ seq: (this.#seq += 1), data, bytes });
    this.#waitingBytes += bytes;
    this.#begin();
    this.#reader?.wake();
  }

  /** Ends the stream; waiting messages can still be read. */
  end(): void {
    this.#ended = true;
    this.#reader?.wake();
    this.#release();
  }

  /** Whether all messages after this number are still available. */
  reaches(after: number): boolean {
    return after <= this.#seq && (this.#entries[0]?.seq ?? this.#seq + 1) <= after + 1;
  }

  /**
   * Returns the events for one connection, which counts from this call on, read or not. This is not
   * a generator: `return` of a generator queues behind a pending read, and before the first read it
   * does not run `finally`, so a client that disconnects would hold its connection forever.
   */
  read({ after = 0, first, onClose, signal }: StreamReadOptions = {}): AsyncIterable<SseItem> {
    let unlisten = (): void => {};
    let next = after + 1;
    let opening = first;
    let closed = false;
    const reader: QueueReader<SseItem> = new QueueReader({
      take: () => {
        if (closed || this.#reader !== reader) return DONE;
        if (opening) {
          const value = opening;
          opening = undefined;
          return { done: false, value };
        }
        const entry = this.#at(next);
        if (!entry) return this.#ended ? DONE : undefined;
        next = entry.seq + 1;
        this.#take(entry);
        return { done: false, value: this.event(entry.seq, entry.data) };
      },
      cancel: () => {
        if (closed) return;
        closed = true;
        unlisten();
        if (this.#reader === reader) this.#reader = undefined;
        reader.wake();
        onClose?.();
      },
    });
    const replaced = this.#reader;
    this.#reader = reader;
    closeReader(replaced);
    unlisten = onAbort(signal, () => closeReader(reader));
    return reader;
  }

  #at(seq: number): KeptEvent | undefined {
    const [oldest] = this.#entries;
    return oldest && this.#entries[Math.max(0, seq - oldest.seq)];
  }

  /**
   * The event with this number. An event without data gives the client an id, so that it can
   * reconnect.
   */
  event(seq: number, data: string): SseItem {
    return { data, ...(this.#name !== undefined && { id: `${this.#name}_${seq}` }) };
  }

  #take({ seq, bytes }: KeptEvent): void {
    if (seq <= this.#taken) return;
    this.#taken = seq;
    this.#waitingBytes -= bytes;
    this.#keptBytes += bytes;
    const isNamed = this.#name !== undefined;
    const limit = isNamed ? KEPT_BYTES : 0;
    // The message that was just sent stays, whatever its size: a client may have lost a large
    // response, and cannot get it in any other way.
    const newest = isNamed ? seq - 1 : seq;
    while (this.#keptBytes > limit && this.#entries[0]!.seq <= newest)
      this.#keptBytes -= this.#entries.shift()!.bytes;
    if (this.#waitingBytes <= WAITING_BYTES) this.#release();
  }

  #release(): void {
    const writers = this.#wakeWriters;
    this.#wakeWriters = [];
    for (const wake of writers) wake();
  }
}

function closeReader(reader: QueueReader<SseItem> | undefined): void {
  reader?.return().catch(() => {}); // `cancel` only changes memory and does not throw
}
