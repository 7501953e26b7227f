import { unsupported } from '../../errors.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import type { Abortable, Items, ListOptions } from '../../stream/types.ts';
import type { CursorPage } from './cursor-pages.ts';
import type { Tool, ToolSource } from '../types.ts';

/** The number of items in one list page of a source that has no pages of its own. */
const PAGE_SIZE = 100;

/** The options of the collected lists. */
export interface CursorOptions extends Abortable {
  /**
   * The `nextCursor` of an earlier page, or a `checkpoint` of a list. Without it, the complete list
   * is collected.
   */
  readonly cursor?: string | undefined;
}

/**
 * Offers both forms of every list, for any source. `streamList…` yields items as they arrive.
 * `list…` collects that stream and has no `nextCursor`, so code that follows cursors ends after one
 * round; with a cursor it returns exactly one page. A source without the capability has empty
 * lists.
 */
export class StreamingAdapter {
  /** The source of the lists; call tools on it directly. */
  readonly source: ToolSource;

  constructor(source: ToolSource) {
    this.source = source;
  }

  streamListTools(options?: ListOptions): Items<Tool> {
    return this.source.listTools(options);
  }

  streamListResources(options?: ListOptions): Items<JsonObject> {
    return this.source.listResources?.(options) ?? none();
  }

  streamListResourceTemplates(options?: ListOptions): Items<JsonObject> {
    return this.source.listResourceTemplates?.(options) ?? none();
  }

  streamListPrompts(options?: ListOptions): Items<JsonObject> {
    return this.source.listPrompts?.(options) ?? none();
  }

  listTools(options?: CursorOptions): Promise<NamedPage<'tools', Tool>> {
    return collect('tools', (at) => this.streamListTools(at), options);
  }

  listResources(options?: CursorOptions): Promise<NamedPage<'resources', JsonObject>> {
    return collect('resources', (at) => this.streamListResources(at), options);
  }

  listResourceTemplates(
    options?: CursorOptions,
  ): Promise<NamedPage<'resourceTemplates', JsonObject>> {
    return collect('resourceTemplates', (at) => this.streamListResourceTemplates(at), options);
  }

  listPrompts(options?: CursorOptions): Promise<NamedPage<'prompts', JsonObject>> {
    return collect('prompts', (at) => this.streamListPrompts(at), options);
  }
}

/** A list whose source has pages; each page is one request to the server. */
export interface PagedItems<T> extends Items<T> {
  pages(): AsyncIterable<CursorPage<T>>;
}

/** A page with its items under the name that the protocol gives them. */
type NamedPage<Key extends string, T> = { readonly [K in Key]: readonly T[] } & {
  readonly nextCursor?: string;
};

async function collect<Key extends string, T>(
  key: Key,
  stream: (options: ListOptions) => Items<T>,
  { cursor, signal }: CursorOptions = {},
): Promise<NamedPage<Key, T>> {
  const list = stream(omitUndefined<ListOptions>({ signal, after: cursor }));
  const named = ({ items, ...rest }: CursorPage<T>): NamedPage<Key, T> =>
    ({ [key]: items, ...rest }) as NamedPage<Key, T>;
  if (cursor !== undefined)
    return named(await ('pages' in list ? firstOf(list as PagedItems<T>) : cut(list)));
  const items: T[] = [];
  for await (const item of list) items.push(item);
  return named({ items });
}

/** The next page as the server sends it. Its size is that of the server. */
async function firstOf<T>(list: PagedItems<T>): Promise<CursorPage<T>> {
  for await (const page of list.pages()) return page;
  return { items: [] };
}

/**
 * One page of a source without pages. It reads one item more than it returns, to know whether there
 * is a next page.
 */
async function cut<T>(list: Items<T>): Promise<CursorPage<T>> {
  const items: T[] = [];
  let checkpoint: string | undefined;
  for await (const item of list) {
    if (items.length === PAGE_SIZE) {
      if (checkpoint === undefined)
        throw unsupported(
          'cannot list by cursor: the source has no cursors; list without a cursor',
        );
      return { items, nextCursor: checkpoint };
    }
    items.push(item);
    checkpoint = list.checkpoint;
  }
  return { items };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}
