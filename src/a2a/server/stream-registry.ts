import { DuolaneError } from '../../errors.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Abortable } from '../../stream/types.ts';
import { Refusal } from '../protocol/a2a-errors.ts';

/** A stream's place among those that are open; aborts when it is left, be it by the client, the server or its reader. */
export interface Place extends Abortable {
  readonly signal: AbortSignal;
  readonly aborted: boolean;
  /** Whether it was the server. */
  isLeft(): boolean;
  /** Whoever takes a place leaves it. Twice is fine. */
  leave(): void;
}

/**
 * The open streams of a server, counted per caller, and who waits for an answer. When the server drains, a stream that has not
 * ended by itself is closed; the client comes back and resumes where it was.
 */
export class Streams {
  readonly #maxPerCaller: number;
  readonly #counts = new Map<string, number>();
  readonly #open = new ReleasingMap<number, OpenPlace>();
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
  enter(owner: string | undefined, client: AbortSignal | Abortable): Place {
    const key = owner ?? '';
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#maxPerCaller)
      throw new Refusal(
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
  wait(client: Abortable): Place {
    return this.#take(client, () => {});
  }

  #take(client: Abortable, free: () => void): Place {
    const number = ++this.#entered;
    const place = new OpenPlace(client, () => {
      this.#open.take(number);
      free();
    });
    this.#open.set(number, place);
    // A stream that nobody begins to read has no end of its own to leave by.
    place.onAbort(() => place.leave());
    if (this.#draining) place.close();
    return place;
  }
}

class OpenPlace extends Cancellation implements Place {
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

  isLeft(): boolean {
    return this.#closed;
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#unfollow();
    this.#free();
    this.abort(LEFT);
  }
}

const LEFT = new DuolaneError('canceled', 'the stream is over: nobody reads it any more');
const CLOSING = new DuolaneError('closed', 'the server is going away; come back and resume');
