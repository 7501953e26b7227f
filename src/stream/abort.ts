import { Puller } from './puller.ts';
import { DONE, QueueReader } from './queue-reader.ts';

/**
 * Calls `run` with the signal's reason when it aborts, at once if it has. Returns what stops
 * listening: call it when the wait is over, or a signal that lives long collects listeners.
 */
export function onAbort(
  signal: AbortSignal | undefined,
  run: (reason: unknown) => void,
): () => void {
  if (!signal) return () => {};
  if (signal.aborted) {
    run(signal.reason);
    return () => {};
  }
  const listener = (): void => run(signal.reason);
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

/** Resolves when the signal aborts, immediately if it has; never rejects. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    onAbort(signal, () => resolve());
  });

/** Waits; an abort throws the signal's reason at once. Leaves neither timer nor listener. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      unlisten();
      resolve();
    }, ms);
    const unlisten = onAbort(signal, (reason) => {
      clearTimeout(timer);
      reject(reason);
    });
  });
}

/**
 * The value of `work`, or the signal's reason as soon as it aborts. A failure of `work` after the abort
 * is ignored: the caller has the reason already. No listener stays behind.
 */
export function raceAbort<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  toError: (reason: unknown) => unknown = (reason) => reason,
): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, (reason) => reject(toError(reason)));
    work.then(resolve, reject).finally(unlisten);
  });
}

/**
 * The value of `work`, or the error of `toError` after `ms`. A failure of `work` after that is ignored:
 * the caller has the timeout already. No timer stays behind.
 */
export function withTimeout<T>(work: Promise<T>, ms: number, toError: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(toError()), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Whether the promise settled, either way, within `ms`. Never rejects; its timer is cleared. */
export function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    const settled = (): void => {
      clearTimeout(timer);
      resolve(true);
    };
    promise.then(settled, settled);
  });
}

/**
 * The same items, until the signal aborts: then the loop throws its reason at once, also when the
 * source is deaf, and the source's `return` is called. Single use.
 */
export function abortable<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncIterableIterator<T, void, undefined> {
  const puller = new Puller(source, () => reader.wake());
  let state: 'open' | 'aborted' | 'left' = 'open';
  const reader = new QueueReader<T>({
    take() {
      if (state === 'left') return DONE;
      if (state === 'aborted') throw signal.reason;
      return puller.take();
    },
    async cancel() {
      const prompt = state === 'aborted';
      state = 'left';
      unlisten();
      reader.wake();
      const left = puller.cancel();
      // The reader has the abort's reason; a source that ignores its signal is not waited for.
      if (prompt) left.catch(() => {});
      else await left;
    },
  });
  const unlisten = onAbort(signal, () => {
    state = 'aborted';
    reader.wake();
  });
  return reader;
}
