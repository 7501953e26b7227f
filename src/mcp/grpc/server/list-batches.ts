import type { JsonObject } from '../../../json.ts';
import type { Items } from '../../../stream/types.ts';
import type { PagedItems } from '../../sources/streaming-adapter.ts';
import { placeAfter } from '../../sources/cursor-pages.ts';
import { BatchWriter } from '../codec/batch-codec.ts';
import type { Layout } from '../codec/field-layout.ts';

/** Has passed when all that was there without waiting has come. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * A list as messages: up to 32 items or 256 KiB each, and never waiting for more than is there. The
 * list is pulled only as these are; what came before a failure goes out before it is thrown.
 */
export async function* batchesOf(
  layout: Layout,
  list: Items<JsonObject>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const batch = new BatchWriter(layout);
  const items = list[Symbol.asyncIterator]();
  /** Asked for in the turn of the batch before, and not there in time. */
  let late: Promise<IteratorResult<JsonObject>> | undefined;
  let checkpoint: string | undefined;
  let over = false;
  const add = (next: IteratorResult<JsonObject>): void => {
    over = next.done === true;
    if (next.done) return;
    batch.add(next.value);
    // Now, for the next pull moves it on.
    checkpoint = list.checkpoint;
  };
  /** One plain await an item, for lists are long: whoever is in a hurry races the whole of it. */
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
      await Promise.race([fill(() => passed), turn()]);
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
 * The same for a list that comes in pages of its own: a page is with the client before the next
 * is asked for.
 */
export async function* pageBatchesOf(
  layout: Layout,
  list: PagedItems<JsonObject>,
  delivered: () => Promise<void>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const batch = new BatchWriter(layout);
  for await (const page of list.pages()) {
    const place = placeAfter(page);
    for (const [n, item] of page.items.entries()) {
      batch.add(item);
      const last = n === page.items.length - 1;
      if (last || batch.full) yield batch.take(last ? place : undefined);
    }
    if (place !== undefined) await delivered();
  }
}
