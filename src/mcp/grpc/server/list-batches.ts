import type { JsonObject } from '../../../json.ts';
import type { Items } from '../../../stream/types.ts';
import type { PagedItems } from '../../sources/streaming-adapter.ts';
import { checkpointAfter } from '../../sources/cursor-pages.ts';
import { BatchWriter } from '../codec/batch-codec.ts';
import type { Layout } from '../codec/field-layout.ts';

/**
 * Encodes a list as messages of up to 32 items or 256 KiB, without waiting for items that are not
 * available yet. The list is pulled only when its messages are; items before a failure are sent
 * before it is thrown.
 */
export async function* batchesOf(
  layout: Layout,
  list: Items<JsonObject>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const batch = new BatchWriter(layout);
  const items = list[Symbol.asyncIterator]();
  /** An item that was requested for the previous batch and did not arrive in time. */
  let late: Promise<IteratorResult<JsonObject>> | undefined;
  let checkpoint: string | undefined;
  let over = false;
  const add = (next: IteratorResult<JsonObject>): void => {
    over = next.done === true;
    if (next.done) return;
    batch.add(next.value);
    // Read it now: the next pull moves it.
    checkpoint = list.checkpoint;
  };
  /**
   * Adds items until the turn is over. It costs one await per item, because lists are long; the
   * race is around the loop, not around each item.
   */
  const fill = async (turnIsOver: () => boolean): Promise<void> => {
    while (!over && !batch.full) {
      late = items.next();
      const next = await late;
      if (turnIsOver()) return;
      late = undefined;
      add(next);
    }
  };
  try {
    while (!over) {
      const pulled = late ?? items.next();
      late = undefined;
      add(await pulled);
      let passed = false;
      // `setImmediate` runs when everything that was available without waiting has arrived.
      await new Promise<void>((resolve, reject) => {
        fill(() => passed).then(resolve, reject);
        setImmediate(resolve);
      });
      passed = true;
      if (!batch.empty) yield batch.take(checkpoint);
    }
  } catch (error) {
    if (!batch.empty) yield batch.take(checkpoint);
    throw error;
  } finally {
    if (!over) await items.return?.();
  }
}

/**
 * The same for a list that has pages: a page is delivered to the client before the next is
 * requested.
 */
export async function* pageBatchesOf(
  layout: Layout,
  list: PagedItems<JsonObject>,
  delivered: () => Promise<void>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const batch = new BatchWriter(layout);
  for await (const page of list.pages()) {
    const checkpoint = checkpointAfter(page);
    for (const [n, item] of page.items.entries()) {
      batch.add(item);
      const last = n === page.items.length - 1;
      if (last || batch.full) yield batch.take(last ? checkpoint : undefined);
    }
    if (checkpoint !== undefined) await delivered();
  }
}
