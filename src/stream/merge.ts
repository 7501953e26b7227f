import { Puller } from './puller.ts';
import { DONE, QueueReader } from './queue-reader.ts';

/**
 * Yields the items of all sources as they arrive. Each source keeps its order, is read one item
 * ahead at most and gets its turn, however busy the others are. The stream ends when all sources
 * have ended. An error of one source, or breaking out, closes the others. The result can be read
 * once.
 *
 * @example
 * ```ts
 * for await (const item of merge(first, second)) handle(item);
 * ```
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
        // A source that gave an item moves to the end of the list, so that each one gets its turn.
        const others = pullers.filter((other) => other !== puller);
        pullers = result.done ? others : [...others, puller];
        if (!result.done) return result;
      }
      return pullers.length === 0 ? DONE : undefined;
    },
    async cancel() {
      const canceled = pullers;
      pullers = [];
      reader.wake();
      await Promise.all(canceled.map((puller) => puller.cancel()));
    },
  });
  return reader;
}
