import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Items, ListOptions } from '../../stream/types.ts';
import { toCheckpoint } from './checkpoint.ts';

export interface CursorPage<T> {
  readonly items: readonly T[];
  readonly nextCursor?: string;
}

/** The checkpoint behind a page; `undefined` behind the last. */
export const placeAfter = ({ nextCursor }: CursorPage<unknown>): string | undefined =>
  nextCursor === undefined ? undefined : toCheckpoint(0, nextCursor);

/** Makes cursors that only we can have made. */
export interface CursorSigner {
  sign(kind: string, value: JsonObject): string;
  verify(kind: string, text: string, what: string): JsonObject;
}

export interface PagesOptions {
  readonly pageSize: number;
  readonly seal: CursorSigner;
  /** A cursor of one kind of list is none of another's. */
  readonly kind: string;
  /** How long the rest of a list is held open for who holds its cursor; 60 s by default. */
  readonly holdMs?: number;
}

/** A list that a client has begun. */
interface Walk<T> {
  readonly scope: AbortController;
  readonly list: Items<T>;
  readonly iterator: AsyncIterator<T>;
  /** Read ahead, to know that there is a next page at all. */
  readonly ahead: readonly T[];
}

/** Lists begun and not finished; the oldest goes when there are more. */
const MAX_HELD = 64;
const HOLD_MS = 60_000;
/** How long a cursor is good where the source can go on from it. */
const CURSOR_MS = 24 * 60 * 60 * 1000;

/**
 * Cuts a pulled list into cursor pages. The rest of a list is held open under the cursor of its
 * next page; if it is no longer there (asked again, too late, too many at once, another instance),
 * the list is opened anew at the source's own checkpoint, and only a source without one refuses.
 */
export class CursorPages<T> implements AsyncDisposable {
  readonly #open: (options: ListOptions) => Items<T>;
  readonly #options: PagesOptions;
  readonly #held = new Map<string, { readonly walk: Walk<T>; readonly timer: NodeJS.Timeout }>();
  readonly #instance = randomUUID();
  #count = 0;

  constructor(open: (options: ListOptions) => Items<T>, options: PagesOptions) {
    this.#open = open;
    this.#options = options;
  }

  /** Aborting ends the list, not only this page: nobody holds its next cursor. */
  async page(cursor: string | undefined, signal: AbortSignal): Promise<CursorPage<T>> {
    const walk = this.#resume(cursor) ?? this.#begin(cursor);
    const unlisten = onAbort(signal, (reason) => walk.scope.abort(reason));
    try {
      return await this.#cut(walk);
    } catch (error) {
      // Its cursor is taken back already, so nothing else would close the rest of the list.
      await this.#end(walk);
      throw error;
    } finally {
      unlisten();
    }
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    for (const cursor of this.#held.keys()) await this.#drop(cursor);
  }

  #resume(cursor: string | undefined): Walk<T> | undefined {
    const held = cursor === undefined ? undefined : this.#held.get(cursor);
    if (cursor !== undefined) this.#held.delete(cursor);
    clearTimeout(held?.timer);
    return held?.walk;
  }

  #begin(cursor: string | undefined): Walk<T> {
    const { seal, kind } = this.#options;
    const scope = new AbortController();
    const { after, until } = cursor === undefined ? {} : seal.verify(kind, cursor, 'cursor');
    const late = typeof until !== 'number' || until < Date.now();
    if (cursor !== undefined && (typeof after !== 'string' || late))
      throw new DuolaneError('invalid', 'The cursor is too old; list again from the start');
    const list = this.#open({
      signal: scope.signal,
      ...(typeof after === 'string' && { after }),
    });
    return { scope, list, iterator: list[Symbol.asyncIterator](), ahead: [] };
  }

  async #cut({ scope, list, iterator, ahead }: Walk<T>): Promise<CursorPage<T>> {
    const { pageSize, seal, kind } = this.#options;
    const items = [...ahead];
    let checkpoint = list.checkpoint;
    for (;;) {
      scope.signal.throwIfAborted();
      const step = await iterator.next();
      if (step.done) return { items };
      if (items.length >= pageSize) {
        const until = Date.now() + CURSOR_MS;
        const nextCursor = seal.sign(kind, { n: this.#name(), until, after: checkpoint });
        await this.#hold(nextCursor, { scope, list, iterator, ahead: [step.value] });
        return { items, nextCursor };
      }
      items.push(step.value);
      checkpoint = list.checkpoint;
    }
  }

  /** Unlike any other, also of another instance: two walks never take each other's list. */
  #name(): string {
    return `${this.#instance}-${(this.#count += 1)}`;
  }

  async #hold(cursor: string, walk: Walk<T>): Promise<void> {
    // Its failure to close is nobody's any more: whoever listed has long gone.
    const expire = (): void => void this.#drop(cursor).catch(() => {});
    const timer = setTimeout(expire, this.#options.holdMs ?? HOLD_MS);
    timer.unref();
    this.#held.set(cursor, { walk, timer });
    const [oldest] = this.#held.keys();
    if (this.#held.size > MAX_HELD && oldest !== undefined) await this.#drop(oldest);
  }

  async #drop(cursor: string): Promise<void> {
    await this.#resume(cursor)?.iterator.return?.();
  }

  /** After a failure: the caller gets that one, so a failure to close the list is dropped. */
  async #end({ iterator }: Walk<T>): Promise<void> {
    // The first failure is the one that is reported.
    await iterator.return?.().catch(() => {});
  }
}
