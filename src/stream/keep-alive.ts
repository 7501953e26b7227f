import { DuolaneError } from '../errors.ts';
import { Puller } from './puller.ts';
import { QueueReader } from './queue-reader.ts';

/**
 * The items of the source, and `make()` whenever the reader has waited `everyMs` for the next one.
 * The end, an error and leaving pass through; there is one timer for all waits, and none after the
 * reader has left. Single use.
 */
export function keepAlive<T, B>(
  source: AsyncIterable<T>,
  everyMs: number,
  make: () => B,
): AsyncIterableIterator<T | B, void, undefined> {
  if (!(everyMs > 0)) {
    throw new DuolaneError('invalid', `the time between heartbeats must be positive: ${everyMs}`);
  }
  const puller = new Puller(source, () => reader.wake());
  let timer: NodeJS.Timeout | undefined;
  let waitsSince = 0;
  let due = false;
  // Stopping a timer for each item costs more than letting one run out and look what has happened.
  const look = (): void => {
    timer = undefined;
    if (!reader.waits) return;
    const leftMs = waitsSince + everyMs - performance.now();
    if (leftMs > 0) timer = setTimeout(look, Math.ceil(leftMs));
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
        timer ??= setTimeout(look, everyMs);
      }
      return result;
    },
    async cancel() {
      clearTimeout(timer);
      const left = puller.cancel();
      reader.wake();
      await left;
    },
  });
  return reader;
}
