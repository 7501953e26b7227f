import { randomUUID } from 'node:crypto';
import { invalid } from '../../errors.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Items, ListOptions } from '../../stream/types.ts';
import { toCheckpoint } from './checkpoint.ts';
import type { TokenSigner } from './signed-token.ts';

/** One page of a list. */
export interface CursorPage<T> {
  readonly items: readonly T[];
  readonly nextCursor?: string;
}

/** The checkpoint after a page; `undefined` after the last page. */
export const checkpointAfter = ({ nextCursor }: CursorPage<unknown>): string | undefined =>
  nextCursor === undefined ? undefined : toCheckpoint(0, nextCursor);

/** How a list is split into pages. */
export interface PagesOptions {
  readonly pageSize: number;
  readonly signer: TokenSigner;
  /** The kind of list; a cursor of one kind is invalid for another. */
  readonly kind: string;
  /** How long the rest of a list stays open for the client that has its cursor; 60 s by default. */
  readonly holdMs?: number;
}

/** A list that a client has started to read. */
interface Walk<T> {
  readonly scope: AbortController;
  readonly list: Items<T>;
  readonly iterator: AsyncIterator<T>;
  /** The item that was read beyond the last page, to know whether there is a next page. */
  readonly ahead: readonly T[];
}

/** How many started lists stay open; beyond it the oldest is closed. */
const MAX_OPEN_LISTS = 64;
const HOLD_MS = 60_000;
/** How long a cursor is valid if the source can continue from its own checkpoint. */
const CURSOR_MS = 24 * 60 * 60 * 1000;

/**
 * Splits a pulled list into pages with cursors. The rest of a list stays open under the cursor of
 * its next page. If it is not open any more (the cursor was used before, expired, was displaced by
 * newer lists, or belongs to another replica), the list is opened again at the source's own
 * checkpoint; only without one the cursor is refused.
 */
export class CursorPages<T> implements AsyncDisposable {
  readonly #open: (options: ListOptions) => Items<T>;
  readonly #options: PagesOptions;
  readonly #openLists = new Map<
    string,
    { readonly walk: Walk<T>; readonly timer: NodeJS.Timeout }
  >();
  readonly #instance = randomUUID();
  #count = 0;

  constructor(open: (options: ListOptions) => Items<T>, options: PagesOptions) {
    this.#open = open;
    this.#options = options;
  }

  /**
   * Returns the page at a cursor. An abort ends the list, not only this page, since no client gets
   * its next cursor.
   */
  async page(cursor: string | undefined, signal: AbortSignal): Promise<CursorPage<T>> {
    const walk = this.#resume(cursor) ?? this.#begin(cursor);
    const unlisten = onAbort(signal, (reason) => walk.scope.abort(reason));
    try {
      return await this.#cut(walk);
    } catch (error) {
      // The cursor of this list is used up, so no later request would close the list. The caller
      // gets the first failure; an error of closing the list is ignored.
      await walk.iterator.return?.().catch(() => {});
      throw error;
    } finally {
      unlisten();
    }
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    for (const cursor of this.#openLists.keys()) await this.#drop(cursor);
  }

  #resume(cursor: string | undefined): Walk<T> | undefined {
    const open = cursor === undefined ? undefined : this.#openLists.get(cursor);
    if (cursor !== undefined) this.#openLists.delete(cursor);
    clearTimeout(open?.timer);
    return open?.walk;
  }

  #begin(cursor: string | undefined): Walk<T> {
    const { signer, kind } = this.#options;
    const scope = new AbortController();
    const { after, until } = cursor === undefined ? {} : signer.verify(kind, cursor, 'cursor');
    const late = typeof until !== 'number' || until < Date.now();
    if (cursor !== undefined && (typeof after !== 'string' || late))
      throw invalid('the cursor has expired; list again from the start');
    const list = this.#open({
      signal: scope.signal,
      ...(typeof after === 'string' && { after }),
    });
    return { scope, list, iterator: list[Symbol.asyncIterator](), ahead: [] };
  }

  async #cut({ scope, list, iterator, ahead }: Walk<T>): Promise<CursorPage<T>> {
    const { pageSize, signer, kind } = this.#options;
    const items = [...ahead];
    let checkpoint = list.checkpoint;
    for (;;) {
      scope.signal.throwIfAborted();
      const step = await iterator.next();
      if (step.done) return { items };
      if (items.length >= pageSize) {
        const until = Date.now() + CURSOR_MS;
        const nextCursor = signer.sign(kind, { n: this.#name(), until, after: checkpoint });
        await this.#keepOpen(nextCursor, { scope, list, iterator, ahead: [step.value] });
        return { items, nextCursor };
      }
      items.push(step.value);
      checkpoint = list.checkpoint;
    }
  }

  /**
   * A name that no other cursor has, also of another replica: two clients never continue the same
   * open list.
   */
  #name(): string {
    return `${this.#instance}-${(this.#count += 1)}`;
  }

  async #keepOpen(cursor: string, walk: Walk<T>): Promise<void> {
    // The client that listed has gone, so no request could report this error.
    const expire = (): void => void this.#drop(cursor).catch(() => {});
    const timer = setTimeout(expire, this.#options.holdMs ?? HOLD_MS);
    timer.unref();
    this.#openLists.set(cursor, { walk, timer });
    const [oldest] = this.#openLists.keys();
    if (this.#openLists.size > MAX_OPEN_LISTS && oldest !== undefined) await this.#drop(oldest);
  }

  async #drop(cursor: string): Promise<void> {
    await this.#resume(cursor)?.iterator.return?.();
  }
}
