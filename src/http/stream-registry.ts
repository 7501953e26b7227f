import { DuolaneError } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import { ReleasingMap } from '../stream/releasing-map.ts';
import type { Abortable } from '../stream/types.ts';

/**
 * The slot of one open stream or request. It aborts when the client disconnects, when the server
 * drains and when it is released.
 */
export interface StreamSlot extends Abortable {
  readonly signal: AbortSignal;
  readonly aborted: boolean;
  /** Whether the server drained, and the client had not disconnected before. */
  closedByServer(): boolean;
  /** Frees the slot. The one that opened it must call this; it may be called twice. */
  release(): void;
}

/**
 * The open streams of a server, counted per caller, and its pending unary requests. When the server
 * drains, every stream that is still open is closed; its client reconnects and resumes.
 */
export class StreamRegistry {
  readonly #maxPerCaller: number;
  readonly #counts = new Map<string, number>();
  readonly #open = new ReleasingMap<number, OpenSlot>();
  #opened = 0;
  #draining = false;

  constructor(maxPerCaller: number) {
    this.#maxPerCaller = maxPerCaller;
  }

  /** Closes every stream. A stream that is opened later is closed immediately. */
  drain(): void {
    this.#draining = true;
    for (const slot of this.#open.values()) slot.close();
  }

  /**
   * Opens a slot for a stream, or throws `rate_limited`. `client` aborts when the client
   * disconnects.
   */
  openStream(owner: string | undefined, client: AbortSignal | Abortable): StreamSlot {
    const key = owner ?? '';
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#maxPerCaller)
      throw new DuolaneError(
        'rate_limited',
        `open streams exceed maxStreams (${this.#maxPerCaller}); close one before you open another`,
      );
    this.#counts.set(key, count + 1);
    return this.#take(client instanceof AbortSignal ? { signal: client } : client, () => {
      const rest = (this.#counts.get(key) ?? 1) - 1;
      if (rest > 0) this.#counts.set(key, rest);
      else this.#counts.delete(key);
    });
  }

  /** Opens a slot for a unary request. It does not count as a stream, and is aborted on drain. */
  openUnary(client: Abortable): StreamSlot {
    return this.#take(client, () => {});
  }

  #take(client: Abortable, free: () => void): StreamSlot {
    const number = ++this.#opened;
    const slot = new OpenSlot(client, () => {
      this.#open.take(number);
      free();
    });
    this.#open.set(number, slot);
    // A stream that is never read has no reader that releases its slot, so an abort does.
    slot.onAbort(() => slot.release());
    if (this.#draining) slot.close();
    return slot;
  }
}

class OpenSlot extends Cancellation implements StreamSlot {
  readonly #unfollow: () => void;
  readonly #free: () => void;
  #closed = false;
  #released = false;

  constructor(client: Abortable, free: () => void) {
    super();
    this.#unfollow = this.follow(client);
    this.#free = free;
  }

  close(): void {
    this.#closed = !this.aborted;
    this.abort(CLOSING);
  }

  closedByServer(): boolean {
    return this.#closed;
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#unfollow();
    this.#free();
    this.abort(RELEASED);
  }
}

const RELEASED = new DuolaneError('canceled', 'the stream has ended: its reader closed it');
const CLOSING = new DuolaneError('closed', 'the server is shutting down; reconnect to resume');
