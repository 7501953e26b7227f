import { createHash } from 'node:crypto';
import { DuolaneError, malformed, tooLarge } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import type { ListOptions } from '../../../stream/types.ts';
import { parseCheckpoint, toCheckpoint } from '../../sources/checkpoint.ts';
import type { PagedItems } from '../../sources/streaming-adapter.ts';
import type { CursorPage } from '../../sources/cursor-pages.ts';

/** The most pages of one list; a server with more is treated as one whose list never ends. */
const MAX_PAGES = 10_000;

type Ask = (cursor: string | undefined, signal: AbortSignal | undefined) => Promise<JsonObject>;

/**
 * A list that a server sends in cursor pages, as single items. A page is requested when every item
 * before it has been taken. Only an absent `nextCursor` ends the list: the empty string is a cursor
 * like any other, and a repeated cursor is a loop (`malformed`). Items that were yielded stay valid
 * when a later page fails.
 */
export class PageWalk<T extends JsonObject> implements PagedItems<T> {
  readonly #ask: Ask;
  readonly #key: string;
  readonly #signal: AbortSignal | undefined;
  readonly #check: ((item: T) => void) | undefined;
  readonly #seen = new Set<string>();
  #cursor: string | undefined;
  #skip = 0;
  #used = false;
  /** The cursor of the server after a page; inside a page, with the number of items taken. */
  checkpoint: string | undefined;

  /** `check` throws for an invalid item; the items before it stay valid. */
  constructor(
    ask: Ask,
    key: string,
    { after, signal }: ListOptions = {},
    check?: (item: T) => void,
  ) {
    this.#check = check;
    this.#ask = ask;
    this.#key = key;
    this.#signal = signal;
    this.checkpoint = after;
    if (after !== undefined) [this.#skip, this.#cursor] = parseCheckpoint(after);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let skip = this.#skip;
    for await (const { items, nextCursor } of this.#pages()) {
      while (skip < items.length) {
        this.#check?.(items[skip]!);
        skip += 1;
        const ended = skip === items.length && nextCursor !== undefined;
        this.checkpoint = ended ? toCheckpoint(0, nextCursor) : toCheckpoint(skip, this.#cursor);
        yield items[skip - 1]!;
      }
      skip = 0;
    }
  }

  /** Yields pages. A page with an invalid item is not yielded. */
  async *pages(): AsyncGenerator<CursorPage<T>, void, undefined> {
    for await (const page of this.#pages()) {
      for (const item of page.items) this.#check?.(item);
      yield page;
    }
  }

  async *#pages(): AsyncGenerator<CursorPage<T>, void, undefined> {
    if (this.#used)
      throw new DuolaneError(
        'closed',
        'cannot read the list again: a list is read once; request a new list',
      );
    this.#used = true;
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      this.#signal?.throwIfAborted();
      const page = await this.#ask(this.#cursor, this.#signal);
      const items = itemsOf<T>(page, this.#key);
      const { nextCursor: next } = page;
      if (next === undefined || next === null) return yield { items };
      if (typeof next !== 'string')
        throw malformed('the server sent an invalid nextCursor: expected a string');
      yield { items, nextCursor: next };
      this.#turnTo(next);
    }
    throw tooLarge(`the list of the server exceeds ${MAX_PAGES} pages; it may never end`);
  }

  #turnTo(next: string): void {
    if (this.#cursor !== undefined) this.#seen.add(digest(this.#cursor));
    if (this.#seen.has(digest(next)))
      throw malformed(
        'the server sent the same cursor twice: expected a new one, the list would never end',
      );
    this.#cursor = next;
  }
}

function itemsOf<T extends JsonObject>(page: JsonObject, key: string): readonly T[] {
  const items = page[key];
  if (!Array.isArray(items) || !items.every(isObject))
    throw malformed(`the server sent a page with invalid ${key}: expected an array of objects`);
  return items as unknown as readonly T[];
}

/**
 * A short hash of a cursor: cursors may be of any length, and ten thousand of them must fit in
 * memory.
 */
const digest = (cursor: string): string => createHash('sha1').update(cursor).digest('base64');
