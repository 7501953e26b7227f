import { DuolaneError } from '../errors.ts';
import type { Items, ListOptions } from '../stream/types.ts';

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor?: string;
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
const MAX_HELD = 8;

/**
 * Cuts a pulled list into cursor pages. The rest of a list is held open under the cursor of its
 * next page; if it is no longer there (asked again, too many at once, another end), the list is
 * opened anew at the source's own checkpoint, and only a source without one refuses.
 */
export class Pages<T> implements AsyncDisposable {
  readonly #open: (options: ListOptions) => Items<T>;
  readonly #pageSize: number;
  readonly #held = new Map<string, Walk<T>>();
  #count = 0;

  constructor(open: (options: ListOptions) => Items<T>, pageSize: number) {
    this.#open = open;
    this.#pageSize = pageSize;
  }

  /** Aborting ends the list, not only this page: nobody holds its next cursor. */
  async page(cursor: string | undefined, signal: AbortSignal): Promise<Page<T>> {
    const walk = this.#resume(cursor) ?? this.#begin(cursor);
    const onAbort = (): void => walk.scope.abort(signal.reason);
    signal.addEventListener('abort', onAbort);
    try {
      return await this.#cut(walk);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const cursor of this.#held.keys()) await this.#drop(cursor);
  }

  #resume(cursor: string | undefined): Walk<T> | undefined {
    const walk = cursor === undefined ? undefined : this.#held.get(cursor);
    if (cursor !== undefined) this.#held.delete(cursor);
    return walk;
  }

  #begin(cursor: string | undefined): Walk<T> {
    const scope = new AbortController();
    const after = cursor === undefined ? undefined : /^\d+:(.+)$/s.exec(cursor)?.[1];
    if (cursor !== undefined && after === undefined)
      throw new DuolaneError('invalid', `Unknown cursor: ${cursor}; list again from the start`);
    const list = this.#open({ signal: scope.signal, ...(after !== undefined && { after }) });
    return { scope, list, iterator: list[Symbol.asyncIterator](), ahead: [] };
  }

  async #cut({ scope, list, iterator, ahead }: Walk<T>): Promise<Page<T>> {
    const items = [...ahead];
    let checkpoint = list.checkpoint;
    for (;;) {
      const step = await iterator.next();
      if (step.done) return { items };
      if (items.length >= this.#pageSize) {
        // The count makes it unlike any other: two walks never take each other's list.
        const nextCursor = `${(this.#count += 1)}:${checkpoint ?? ''}`;
        await this.#hold(nextCursor, { scope, list, iterator, ahead: [step.value] });
        return { items, nextCursor };
      }
      items.push(step.value);
      checkpoint = list.checkpoint;
    }
  }

  async #hold(cursor: string, walk: Walk<T>): Promise<void> {
    this.#held.set(cursor, walk);
    const [oldest] = this.#held.keys();
    if (this.#held.size > MAX_HELD && oldest !== undefined) await this.#drop(oldest);
  }

  async #drop(cursor: string): Promise<void> {
    const walk = this.#held.get(cursor);
    this.#held.delete(cursor);
    await walk?.iterator.return?.();
  }
}
