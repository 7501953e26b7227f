import { unsupported } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
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
  readonly #source: ToolSource;
  readonly #tools: Lister<Tool>;
  readonly #resources: Lister<JsonObject>;
  readonly #templates: Lister<JsonObject>;
  readonly #prompts: Lister<JsonObject>;

  constructor(source: ToolSource) {
    this.#source = source;
    this.#tools = new Lister((options) => source.listTools(options));
    this.#resources = new Lister((options) => source.listResources?.(options) ?? none());
    this.#templates = new Lister((options) => source.listResourceTemplates?.(options) ?? none());
    this.#prompts = new Lister((options) => source.listPrompts?.(options) ?? none());
  }

  /** The source of the lists; call tools on it directly. */
  get source(): ToolSource {
    return this.#source;
  }

  streamListTools(options?: ListOptions): Items<Tool> {
    return this.#tools.stream(options);
  }

  streamListResources(options?: ListOptions): Items<JsonObject> {
    return this.#resources.stream(options);
  }

  streamListResourceTemplates(options?: ListOptions): Items<JsonObject> {
    return this.#templates.stream(options);
  }

  streamListPrompts(options?: ListOptions): Items<JsonObject> {
    return this.#prompts.stream(options);
  }

  async listTools(
    options?: CursorOptions,
  ): Promise<{ readonly tools: readonly Tool[]; readonly nextCursor?: string }> {
    const { items: tools, ...rest } = await this.#tools.list(options);
    return { tools, ...rest };
  }

  async listResources(
    options?: CursorOptions,
  ): Promise<{ readonly resources: readonly JsonObject[]; readonly nextCursor?: string }> {
    const { items: resources, ...rest } = await this.#resources.list(options);
    return { resources, ...rest };
  }

  async listResourceTemplates(
    options?: CursorOptions,
  ): Promise<{ readonly resourceTemplates: readonly JsonObject[]; readonly nextCursor?: string }> {
    const { items: resourceTemplates, ...rest } = await this.#templates.list(options);
    return { resourceTemplates, ...rest };
  }

  async listPrompts(
    options?: CursorOptions,
  ): Promise<{ readonly prompts: readonly JsonObject[]; readonly nextCursor?: string }> {
    const { items: prompts, ...rest } = await this.#prompts.list(options);
    return { prompts, ...rest };
  }
}

/** A list whose source has pages; each page is one request to the server. */
export interface PagedItems<T> extends Items<T> {
  pages(): AsyncIterable<CursorPage<T>>;
}

class Lister<T> {
  readonly stream: (options?: ListOptions) => Items<T>;

  constructor(stream: (options?: ListOptions) => Items<T>) {
    this.stream = stream;
  }

  async list({ cursor, signal }: CursorOptions = {}): Promise<CursorPage<T>> {
    const list = this.stream({
      ...(signal && { signal }),
      ...(cursor !== undefined && { after: cursor }),
    });
    if (cursor !== undefined) return 'pages' in list ? firstOf(list as PagedItems<T>) : cut(list);
    const items: T[] = [];
    for await (const item of list) items.push(item);
    return { items };
  }
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
