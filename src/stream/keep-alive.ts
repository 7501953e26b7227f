import { DuolaneError } from '../errors.ts';
import { Puller } from './puller.ts';
import { Reader } from './reader.ts';

/**
 * The items of the source, and `make()` whenever the reader has waited `everyMs` for the next one.
 * The end, an error and leaving pass through; a reader that does not wait costs no timer. Single
 * use.
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
  let due = false;
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
    due = false;
  };
  const beat = (): void => {
    due = true;
    reader.wake();
  };
  const reader = new Reader<T | B>({
    take() {
      const result = puller.take() ?? (due ? { done: false, value: make() } : undefined);
      if (result) stop();
      else timer ??= setTimeout(beat, everyMs);
      return result;
    },
    async leave() {
      stop();
      const left = puller.leave();
      reader.wake();
      await left;
    },
  });
  return reader;
}
