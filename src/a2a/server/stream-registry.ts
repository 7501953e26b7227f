import { DuolaneError } from '../../errors.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Abortable } from '../../stream/types.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

/** A stream's place among those that are open; aborts when it is left, be it by the client, the server or its reader. */
export interface StreamSlot extends Abortable {
  readonly signal: AbortSignal;
  readonly aborted: boolean;
  /** Whether it was the server. */
  closedByServer(): boolean;
  /** Whoever takes a place leaves it. Twice is fine. */
  release(): void;
}

/**
 * The open streams of a server, counted per caller, and who waits for an answer. When the server drains, a stream that has not
 * ended by itself is closed; the client comes back and resumes where it was.
 */
export class StreamRegistry {
  readonly #maxPerCaller: number;
  readonly #counts = new Map<string, number>();
  readonly #open = new ReleasingMap<number, OpenSlot>();
  #entered = 0;
  #draining = false;

  constructor(maxPerCaller: number) {
    this.#maxPerCaller = maxPerCaller;
  }

  /** Closes every stream; none begins any more. */
  drain(): void {
    this.#draining = true;
    for (const place of this.#open.values()) place.close();
  }

  /** Takes a place for the caller, or throws `TOO_MANY_STREAMS`. `client`: what aborts when it leaves. */
  openStream(owner: string | undefined, client: AbortSignal | Abortable): StreamSlot {
    const key = owner ?? '';
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#maxPerCaller)
      throw new A2AError(
        'TOO_MANY_STREAMS',
        `${count} streams are open; close one before you open another`,
      );
    this.#counts.set(key, count + 1);
    return this.#take(client instanceof AbortSignal ? { signal: client } : client, () => {
      const rest = (this.#counts.get(key) ?? 1) - 1;
      if (rest > 0) this.#counts.set(key, rest);
      else this.#counts.delete(key);
    });
  }

  /** A place for who waits for one answer: it is not counted, and closed with the streams. */
  openUnary(client: Abortable): StreamSlot {
    return this.#take(client, () => {});
  }

  #take(client: Abortable, free: () => void): StreamSlot {
    const number = ++this.#entered;
    const place = new OpenSlot(client, () => {
      this.#open.take(number);
      free();
    });
    this.#open.set(number, place);
    // A stream that nobody begins to read has no end of its own to leave by.
    place.onAbort(() => place.release());
    if (this.#draining) place.close();
    return place;
  }
}

class OpenSlot extends Cancellation implements StreamSlot {
  readonly #unfollow: () => void;
  readonly #free: () => void;
  #closed = false;
  #left = false;

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
    if (this.#left) return;
    this.#left = true;
    this.#unfollow();
    this.#free();
    this.abort(LEFT);
  }
}

const LEFT = new DuolaneError('canceled', 'the stream is over: nobody reads it any more');
const CLOSING = new DuolaneError('closed', 'the server is going away; come back and resume');
