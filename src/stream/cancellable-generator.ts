import { onAbort } from './index.ts';
import type { Abortable } from './types.ts';

/**
 * A generator that can be left while it waits. `return()` of a bare one queues behind its pending
 * `next()`, for ever if nothing comes; this one aborts the signal that `start` is given, and a
 * `next()` that waits is done. Abort of the caller's signal makes the loop throw its reason.
 */
export function cancellableGenerator<T>(
  { signal: outer }: Abortable,
  start: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>,
): AsyncIterableIterator<T, void, undefined> {
  const inner = new AbortController();
  const unlisten = onAbort(outer, (reason) => inner.abort(reason));
  const items = start(inner.signal);
  let left = false;
  return {
    async next() {
      try {
        const result = await items.next();
        if (result.done) unlisten();
        return result;
      } catch (error) {
        unlisten();
        if (left) return { done: true, value: undefined };
        throw error;
      }
    },
    async return() {
      left = true;
      unlisten();
      inner.abort();
      // The reader has left; a failure to close has no one to go to.
      await items.return().catch(() => {});
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Resolves on `wake`, after `ms`, or when the signal aborts, whichever is first; never rejects. */
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

/** Adds to the set until the function that it returns is called. */
export function addListener(wakes: Set<() => void>, wake: () => void): () => void {
  wakes.add(wake);
  return () => void wakes.delete(wake);
}
