import type { JsonObject } from '../../json.ts';
import type { Items } from '../../stream/types.ts';
import type { PagedItems } from '../collect.ts';
import { placeAfter } from '../pages.ts';
import { encodeBatch, encodeItem, type Layout } from './items.ts';

const MAX_ITEMS = 32;
const MAX_BYTES = 256 * 1024;

/** Items that go out together. */
class Batch {
  readonly #layout: Layout;
  #items: Buffer[] = [];
  #bytes = 0;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  get empty(): boolean {
    return this.#items.length === 0;
  }

  get full(): boolean {
    return this.#items.length >= MAX_ITEMS || this.#bytes >= MAX_BYTES;
  }

  add(item: JsonObject): void {
    const bytes = encodeItem(this.#layout, item);
    this.#items.push(bytes);
    this.#bytes += bytes.length;
  }

  take(checkpoint: string | undefined): Uint8Array {
    const bytes = encodeBatch(this.#items, checkpoint);
    this.#items = [];
    this.#bytes = 0;
    return bytes;
  }
}

const LATER = Symbol('later');

/** What is there without waiting has come by then. */
const turn = (): Promise<typeof LATER> =>
  new Promise((resolve) => setImmediate(() => resolve(LATER)));

/**
 * A list as messages: up to 32 items or 256 KiB each, and never waiting for more than is there. The
 * list is pulled only as these are; what came before a failure goes out before it is thrown.
 */
export async function* batchesOf(
  layout: Layout,
  list: Items<JsonObject>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const batch = new Batch(layout);
  const items = list[Symbol.asyncIterator]();
  let checkpoint: string | undefined;
  let soon = turn();
  let over = false;
  try {
    for (;;) {
      const pulled = items.next();
      let next: IteratorResult<JsonObject>;
      try {
        if (!batch.empty) {
          const came = await Promise.race([pulled, soon]);
          if (came === LATER) yield batch.take(checkpoint);
        }
        next = await pulled;
      } catch (error) {
        over = true;
        if (!batch.empty) yield batch.take(checkpoint);
        throw error;
      }
      if (next.done) break;
      if (batch.empty) soon = turn();
      batch.add(next.value);
      // Now, for the next pull moves it on.
      checkpoint = list.checkpoint;
      if (batch.full) yield batch.take(checkpoint);
    }
    over = true;
    if (!batch.empty) yield batch.take(checkpoint);
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
  const batch = new Batch(layout);
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
