import { onAbort } from '../../stream/abort.ts';
import type { Abortable } from '../../stream/types.ts';
import type { SourceChange } from '../types.ts';

/** Changes that wait for one listener; more single resources than this are told as `resources`. */
const MAX_WAITING = 1_000;

interface Listener {
  readonly waiting: Map<string, SourceChange>;
  readonly wake: () => void;
}

const keyOf = ({ type, uri = '' }: SourceChange): string => `${type} ${uri}`;

/**
 * Tells any number of listeners what has changed. A listener that is busy gets each change once,
 * however often it happened, so nobody's slowness costs memory.
 */
export class ChangeFeed {
  readonly #listeners = new Set<Listener>();
  #end: { readonly error: unknown } | undefined;

  get listeners(): number {
    return this.#listeners.size;
  }

  tell(change: SourceChange): void {
    for (const { waiting, wake } of this.#listeners) {
      if (waiting.size >= MAX_WAITING) {
        waiting.clear();
        waiting.set(keyOf({ type: 'resources' }), { type: 'resources' });
      }
      waiting.set(keyOf(change), change);
      wake();
    }
  }

  /** No more changes: every listener's loop throws this, after what waits for it. */
  fail(error: unknown): void {
    this.#end ??= { error };
    for (const { wake } of this.#listeners) wake();
  }

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
