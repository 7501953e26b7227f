import { onAbort } from './index.ts';
import type { Abortable } from './types.ts';

/**
 * Wraps a generator so that `return()` works while a `next()` is pending. `return()` of a bare
 * generator queues behind the pending `next()`, forever if no item comes. This one aborts the
 * signal that `start` receives, and the pending `next()` is done. When the caller's signal aborts,
 * the loop throws its reason.
 */
export function cancellableGenerator<T>(
  { signal: outer }: Abortable,
  start: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>,
): AsyncIterableIterator<T, void, undefined> {
  const inner = new AbortController();
  const unlisten = onAbort(outer, (reason) => inner.abort(reason));
  const items = start(inner.signal);
  let returned = false;
  return {
    async next() {
      try {
        const result = await items.next();
        if (result.done) unlisten();
        return result;
      } catch (error) {
        unlisten();
        if (returned) return { done: true, value: undefined };
        throw error;
      }
    },
    async return() {
      returned = true;
      unlisten();
      inner.abort();
      // The reader no longer reads, so a failure to close the source has no receiver.
      await items.return().catch(() => {});
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/**
 * Resolves on `wake`, after `ms`, or when the signal aborts, whichever comes first; never rejects.
 */
export function waitForWake(
  subscribe: (wake: () => void) => () => void,
  signal: AbortSignal,
  ms?: number,
): Promise<void> {
  return new Promise((resolve) => {
    const timer = ms === undefined ? undefined : setTimeout(() => done(), ms);
    const unsubscribe = subscribe(() => done());
    const unlisten = onAbort(signal, () => queueMicrotask(() => done()));
    function done(): void {
      clearTimeout(timer);
      unsubscribe();
      unlisten();
      resolve();
    }
  });
}

/** Adds `wake` to the set. Returns a function that removes it. */
export function addListener<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
