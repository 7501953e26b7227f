import { onAbort } from '../../stream/abort.ts';
import type { Abortable } from '../../stream/types.ts';
import type { SourceChange } from '../types.ts';

/**
 * How many changes wait for one listener. Beyond it, the changes of single resources are replaced
 * by one change of `resources`.
 */
const MAX_WAITING = 1_000;

interface Listener {
  readonly waiting: Map<string, SourceChange>;
  readonly wake: () => void;
}

/** Changes with the same key are reported once. */
const keyOf = ({ type, uri = '' }: SourceChange): string => `${type} ${uri}`;

/**
 * Notifies any number of listeners of changes. A busy listener gets each kind of change once,
 * however often it happened, so a slow listener does not use up memory.
 */
export class ChangeFeed {
  readonly #listeners = new Set<Listener>();
  #end: { readonly error: unknown } | undefined;

  /** How many listeners there are. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** Passes a change to every listener. */
  notify(change: SourceChange): void {
    for (const { waiting, wake } of this.#listeners) {
      if (waiting.size >= MAX_WAITING) {
        waiting.clear();
        waiting.set(keyOf({ type: 'resources' }), { type: 'resources' });
      }
      waiting.set(keyOf(change), change);
      wake();
    }
  }

  /**
   * Ends the feed: the loop of every listener throws this error after the changes that wait for it.
   */
  fail(error: unknown): void {
    this.#end ??= { error };
    for (const { wake } of this.#listeners) wake();
  }

  /** Yields `listening`, then the changes until the signal aborts or the feed fails. */
  async *listen({ signal }: Abortable = {}): AsyncGenerator<SourceChange, void, undefined> {
    signal?.throwIfAborted();
    let resolve = (): void => {};
    const wake = (): void => resolve();
    const listener: Listener = { waiting: new Map(), wake };
    this.#listeners.add(listener);
    const unlisten = onAbort(signal, wake);
    try {
      yield { type: 'listening' };
      for (;;) {
        signal?.throwIfAborted();
        const [next] = listener.waiting;
        if (next) {
          listener.waiting.delete(next[0]);
          yield next[1];
        } else if (this.#end) throw this.#end.error;
        else await new Promise<void>((wakeUp) => (resolve = wakeUp));
      }
    } finally {
      this.#listeners.delete(listener);
      unlisten();
    }
  }
}
