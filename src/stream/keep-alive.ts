import { DuolaneError } from '../errors.ts';
import { Puller } from './puller.ts';
import { QueueReader } from './queue-reader.ts';

/**
 * Yields the items of the source, and `make()` whenever the reader has waited `everyMs` for the
 * next one. The end and errors of the source pass through, and breaking out closes it. All waits
 * share one timer, which is cleared when the reader stops. The result can be read once.
 *
 * @example
 * ```ts
 * for await (const event of keepAlive(events, 15_000, () => ': ping\n\n')) response.write(event);
 * ```
 */
export function keepAlive<T, B>(
  source: AsyncIterable<T>,
  everyMs: number,
  make: () => B,
): AsyncIterableIterator<T | B, void, undefined> {
  if (!(everyMs > 0)) {
    throw new DuolaneError(
      'invalid',
      `invalid everyMs "${everyMs}": expected a positive number of milliseconds`,
    );
  }
  const puller = new Puller(source, () => reader.wake());
  let timer: NodeJS.Timeout | undefined;
  let waitsSince = 0;
  let due = false;
  // Restarting a timer for each item is more expensive than one that fires and checks the state.
  const checkIdle = (): void => {
    timer = undefined;
    if (!reader.waits) return;
    const remainingMs = waitsSince + everyMs - performance.now();
    if (remainingMs > 0) timer = setTimeout(checkIdle, Math.ceil(remainingMs));
    else {
      due = true;
      reader.wake();
    }
  };
  const reader = new QueueReader<T | B>({
    take() {
      const result = puller.take() ?? (due ? { done: false, value: make() } : undefined);
      if (result) due = false;
      else if (!reader.waits) {
        waitsSince = performance.now();
        timer ??= setTimeout(checkIdle, everyMs);
      }
      return result;
    },
    async cancel() {
      clearTimeout(timer);
      const closed = puller.cancel();
      reader.wake();
      await closed;
    },
  });
  return reader;
}
