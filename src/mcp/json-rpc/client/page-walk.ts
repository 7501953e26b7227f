import { createHash } from 'node:crypto';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import type { ListOptions } from '../../../stream/types.ts';
import { parseCheckpoint, toCheckpoint } from '../../sources/checkpoint.ts';
import type { PagedItems } from '../../sources/streaming-adapter.ts';
import type { CursorPage } from '../../sources/cursor-pages.ts';

/** Pages in one walk; a server with more is taken for one that never ends. */
const MAX_PAGES = 10_000;

type Ask = (cursor: string | undefined, signal: AbortSignal | undefined) => Promise<JsonObject>;

/**
 * A list that a server gives in cursor pages, as single items. A page is asked for only when every
 * item before it has been taken. Only an absent `nextCursor` ends the walk: the empty string is a
 * cursor like any other, and one that comes back is a loop (`malformed`). Items already yielded
 * stay good when a later page fails.
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
  /** The server's cursor at the end of a page; inside one, with the number of items taken. */
  checkpoint: string | undefined;

  /** `check` throws for an item that is none; those before it stay good. */
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

  /** A page with an item that fails the check is not given out. */
  async *pages(): AsyncGenerator<CursorPage<T>, void, undefined> {
    for await (const page of this.#pages()) {
      for (const item of page.items) this.#check?.(item);
      yield page;
    }
  }

  async *#pages(): AsyncGenerator<CursorPage<T>, void, undefined> {
    if (this.#used) throw new DuolaneError('closed', 'a list is read once; list again');
    this.#used = true;
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      this.#signal?.throwIfAborted();
      const page = await this.#ask(this.#cursor, this.#signal);
      const items = itemsOf<T>(page, this.#key);
      const { nextCursor: next } = page;
      if (next === undefined || next === null) return yield { items };
      if (typeof next !== 'string')
        throw new DuolaneError('malformed', 'the server sent a nextCursor that is not a string');
      yield { items, nextCursor: next };
      this.#turnTo(next);
    }
    throw new DuolaneError('too_large', `the list has more than ${MAX_PAGES} pages`);
  }

  #turnTo(next: string): void {
    if (this.#cursor !== undefined) this.#seen.add(digest(this.#cursor));
    if (this.#seen.has(digest(next)))
      throw new DuolaneError(
        'malformed',
        'the server sent a cursor for the second time: its list would never end',
      );
    this.#cursor = next;
  }
}

function itemsOf<T extends JsonObject>(page: JsonObject, key: string): readonly T[] {
  const items = page[key];
  if (!Array.isArray(items) || !items.every(isObject))
    throw new DuolaneError(
      'malformed',
      `the server sent a page whose ${key} is no list of objects`,
    );
  return items as unknown as readonly T[];
}

/** A server may make cursors of any length; remembering ten thousand must stay small. */
const digest = (cursor: string): string => createHash('sha1').update(cursor).digest('base64');
