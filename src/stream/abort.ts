import { Puller } from './puller.ts';
import { DONE, QueueReader } from './queue-reader.ts';

/**
 * Calls `run` with the signal's reason when it aborts, immediately if it has aborted already.
 * Returns a function that removes the listener: call it when the wait is over, or a long-lived
 * signal collects listeners.
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

/** Resolves when the signal aborts, immediately if it has aborted already; never rejects. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    onAbort(signal, () => resolve());
  });

/**
 * Resolves after `ms`. If the signal aborts first, it rejects immediately with the signal's reason.
 * It leaves no timer and no listener behind.
 *
 * @example
 * ```ts
 * await sleep(500, signal);
 * ```
 */
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
 * Settles like `work`, or rejects with the signal's reason as soon as it aborts. A failure of
 * `work` after the abort is ignored, because the caller has the reason already. It leaves no
 * listener behind.
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
 * Settles like `work`, or rejects with the error of `toError` after `ms`. A failure of `work` after
 * that is ignored, because the caller has the timeout already. It leaves no timer behind.
 */
export function withTimeout<T>(work: Promise<T>, ms: number, toError: () => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(toError()), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Resolves to whether the promise settled, either way, within `ms`. Never rejects, and leaves no
 * timer behind.
 */
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
 * Yields the items of the source until the signal aborts. Then the loop throws the signal's reason
 * immediately, even if the source ignores the signal, and the source's `return` is called. The
 * result can be read once.
 *
 * @example
 * ```ts
 * for await (const item of abortable(source, AbortSignal.timeout(5000))) handle(item);
 * ```
 */
export function abortable<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncIterableIterator<T, void, undefined> {
  const puller = new Puller(source, () => reader.wake());
  let state: 'open' | 'aborted' | 'canceled' = 'open';
  const reader = new QueueReader<T>({
    take() {
      if (state === 'canceled') return DONE;
      if (state === 'aborted') throw signal.reason;
      return puller.take();
    },
    async cancel() {
      const aborted = state === 'aborted';
      state = 'canceled';
      unlisten();
      reader.wake();
      const closed = puller.cancel();
      // After an abort the reader gets its reason now: a source that ignores the signal may never
      // close, so its end is not awaited.
      if (aborted) closed.catch(() => {});
      else await closed;
    },
  });
  const unlisten = onAbort(signal, () => {
    state = 'aborted';
    reader.wake();
  });
  return reader;
}
