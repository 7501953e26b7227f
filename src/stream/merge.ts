import { Puller } from './puller.ts';
import { DONE, QueueReader } from './queue-reader.ts';

/**
 * The items of all sources as they come. Each source keeps its order, is asked for one item at a
 * time and has its turn, however busy the others are. Ends when all have ended; an error of one,
 * like leaving, closes the others. Single use.
 */
export function merge<T>(
  ...sources: readonly AsyncIterable<T>[]
): AsyncIterableIterator<T, void, undefined> {
  const wake = (): void => reader.wake();
  let pullers = sources.map((source) => new Puller(source, wake));
  const reader = new QueueReader<T>({
    take() {
      for (const puller of pullers) {
        const result = puller.take();
        if (!result) continue;
        // The turn of a source is its place in the list, which is a new one after each turn.
        const others = pullers.filter((other) => other !== puller);
        pullers = result.done ? others : [...others, puller];
        if (!result.done) return result;
      }
      return pullers.length === 0 ? DONE : undefined;
    },
    async cancel() {
      const left = pullers;
      pullers = [];
      reader.wake();
      await Promise.all(left.map((puller) => puller.cancel()));
    },
  });
  return reader;
}
