import { setMaxListeners } from 'node:events';
import { onAbort } from '../stream/abort.ts';
import { Refusal } from './errors.ts';

/** A stream's place among those that are open. Whoever takes it leaves it. */
export interface Place {
  /** Aborts when the client leaves, and when the server does. */
  readonly signal: AbortSignal;
  /** Whether it was the server. */
  isLeft(): boolean;
  leave(): void;
}

/**
 * The open streams of a server, counted per caller. When the server drains, a stream that has not
 * ended by itself is closed; the client comes back and resumes where it was.
 */
export class Streams {
  readonly #maxPerCaller: number;
  readonly #open = new Map<string, number>();
  readonly #leaving = new AbortController();

  constructor(maxPerCaller: number) {
    this.#maxPerCaller = maxPerCaller;
    setMaxListeners(0, this.#leaving.signal); // one per stream, each taken off again
  }

  /** Closes every stream; none begins any more. */
  drain(): void {
    this.#leaving.abort();
  }

  /** Takes a place for the caller, or throws `TOO_MANY_STREAMS`. */
  enter(owner: string | undefined, client: AbortSignal): Place {
    const key = owner ?? '';
    const count = this.#open.get(key) ?? 0;
    if (count >= this.#maxPerCaller)
      throw new Refusal(
        'TOO_MANY_STREAMS',
        `${count} streams are open; close one before you open another`,
      );
    this.#open.set(key, count + 1);
    const stop = new AbortController();
    const unlisten = [client, this.#leaving.signal].map((signal) =>
      onAbort(signal, (reason) => stop.abort(reason)),
    );
    let left = false;
    return {
      signal: stop.signal,
      isLeft: () => this.#leaving.signal.aborted && !client.aborted,
      leave: () => {
        if (left) return;
        left = true;
        for (const off of unlisten) off();
        const rest = (this.#open.get(key) ?? 1) - 1;
        if (rest > 0) this.#open.set(key, rest);
        else this.#open.delete(key);
      },
    };
  }
}
