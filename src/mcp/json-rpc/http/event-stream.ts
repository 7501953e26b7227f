import type { SseItem } from '../../../http/sse.ts';
import type { JsonObject } from '../../../json.ts';

/** Bytes that wait for the client before whoever writes must wait too. */
const WAITING_BYTES = 256 * 1024;
/** Bytes of what has been sent that are kept for a client that comes back. */
const KEPT_BYTES = 256 * 1024;

interface Entry {
  readonly seq: number;
  readonly data: string;
  readonly bytes: number;
}

/**
 * The messages of one stream to a client. `push` waits while more than 256 KiB wait for the client,
 * connected or not. With a name the events have ids, and what was sent is kept up to the same size,
 * for a client that lost its connection and comes back. One reader at a time: a new one takes over
 * from the old.
 */
export class EventStream {
  /** Resolves with the first message. */
  readonly begun: Promise<void>;
  readonly #name: string | undefined;
  /** From the oldest that is kept to the newest that waits. */
  readonly #entries: Entry[] = [];
  #begin = (): void => {};
  #seq = 0;
  /** The number of the last one that a connection has taken. */
  #taken = 0;
  #keptBytes = 0;
  #waitingBytes = 0;
  #ended = false;
  #readers = 0;
  #wakeReader = (): void => {};
  #wakeWriters: Array<() => void> = [];

  constructor(name?: string) {
    this.#name = name;
    this.begun = new Promise((resolve) => (this.#begin = resolve));
  }

  /** The number of the newest message; 0 while there is none. */
  get last(): number {
    return this.#seq;
  }

  /** The number of the last message that a connection has taken. */
  get taken(): number {
    return this.#taken;
  }

  /** Ended, and all of it has been handed to a connection. */
  get spent(): boolean {
    return this.#ended && this.#taken === this.#seq;
  }

  async push(message: JsonObject): Promise<void> {
    while (!this.#ended && this.#waitingBytes > WAITING_BYTES)
      await new Promise<void>((wake) => this.#wakeWriters.push(wake));
    this.offer(message);
  }

  /** At once: for the last word. */
  offer(message: JsonObject): void {
    if (this.#ended) return;
    const data = JSON.stringify(message);
    const bytes = Buffer.byteLength(data);
    this.#entries.push({ seq: (this.#seq += 1), data, bytes });
    this.#waitingBytes += bytes;
    this.#begin();
    this.#wakeReader();
  }

  /** No more messages; what waits can still be read. */
  end(): void {
    this.#ended = true;
    this.#wakeReader();
    this.#release();
  }

  /** Whether everything after this number is still here. */
  reaches(after: number): boolean {
    return after <= this.#seq && (this.#entries[0]?.seq ?? this.#seq + 1) <= after + 1;
  }

  /**
   * The events after number `after`, for one connection. With `prime` the first one is an id alone,
   * so that the client can come back before there was anything to say.
   */
  async *read(after: number, prime = false): AsyncGenerator<SseItem, void, undefined> {
    const mine = (this.#readers += 1);
    this.#wakeReader();
    if (prime) yield this.#event(after, '');
    for (let next = after + 1; this.#readers === mine;) {
      const entry = this.#at(next);
      if (entry) {
        next = entry.seq + 1;
        this.#take(entry);
        yield this.#event(entry.seq, entry.data);
      } else if (this.#ended) return;
      else await new Promise<void>((wake) => (this.#wakeReader = wake));
    }
  }

  #at(seq: number): Entry | undefined {
    const [oldest] = this.#entries;
    return oldest && this.#entries[Math.max(0, seq - oldest.seq)];
  }

  #event(seq: number, data: string): SseItem {
    return { data, ...(this.#name !== undefined && { id: `${this.#name}_${seq}` }) };
  }

  #take({ seq, bytes }: Entry): void {
    if (seq <= this.#taken) return;
    this.#taken = seq;
    this.#waitingBytes -= bytes;
    this.#keptBytes += bytes;
    const limit = this.#name === undefined ? 0 : KEPT_BYTES;
    while (this.#keptBytes > limit && this.#entries[0]!.seq <= seq)
      this.#keptBytes -= this.#entries.shift()!.bytes;
    if (this.#waitingBytes <= WAITING_BYTES) this.#release();
  }

  #release(): void {
    const writers = this.#wakeWriters;
    this.#wakeWriters = [];
    for (const wake of writers) wake();
  }
}
