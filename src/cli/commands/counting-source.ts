import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { PagedItems } from '../../mcp/sources/streaming-adapter.ts';
import type { ToolSource } from '../../mcp/index.ts';
import type { Items, ListOptions } from '../../stream/types.ts';

/** The counters of a bridge. */
export interface Counts {
  lists: number;
  items: number;
  calls: number;
  /** Progress, partial and log lines. */
  events: number;
  /** Lists and calls that run now. */
  open: number;
  canceled: number;
  failed: number;
}

/** Wraps a dialled source and counts its lists and calls. */
export class CountingSource {
  readonly counts: Counts = {
    lists: 0,
    items: 0,
    calls: 0,
    events: 0,
    open: 0,
    canceled: 0,
    failed: 0,
  };
  readonly source: ToolSource;
  readonly #changed: () => void;

  /** `changed` is called after each change. */
  constructor(source: ToolSource, changed: () => void) {
    this.#changed = changed;
    this.source = {
      ...source,
      listTools: this.#list((options) => source.listTools(options)),
      callTool: (call, options) => this.#call(source.callTool(call, options)),
      ...(source.listResources && {
        listResources: this.#list((options) => source.listResources!(options)),
      }),
      ...(source.listResourceTemplates && {
        listResourceTemplates: this.#list((options) => source.listResourceTemplates!(options)),
      }),
      ...(source.listPrompts && {
        listPrompts: this.#list((options) => source.listPrompts!(options)),
      }),
    };
  }

  #count(key: keyof Counts, by = 1): void {
    this.counts[key] += by;
    this.#changed();
  }

  #list<T extends JsonObject>(
    open: (options?: ListOptions) => Items<T>,
  ): (options?: ListOptions) => Items<T> {
    return (options) => {
      const items = open(options);
      this.#count('lists');
      const { pages } = items as Partial<PagedItems<T>>;
      return {
        get checkpoint() {
          return items.checkpoint;
        },
        [Symbol.asyncIterator]: () => this.#watch(items, () => this.#item(1)),
        // The offering side sends page by page if the source has pages.
        ...(pages && {
          pages: () => this.#watch(pages.call(items), (page) => this.#item(page.items.length)),
        }),
      };
    };
  }

  #item(count: number): boolean {
    this.#count('items', count);
    return false;
  }

  #call(events: ReturnType<ToolSource['callTool']>): ReturnType<ToolSource['callTool']> {
    this.#count('calls');
    return this.#watch(events, (event) => {
      const last = event.type === 'result' || event.type === 'input' || event.type === 'task';
      if (!last) this.#count('events');
      if (event.type === 'result' && event.result.isError) this.#count('failed');
      return last;
    });
  }

  /** `each` returns whether the reader may stop after this item without counting as canceled. */
  async *#watch<T>(
    items: AsyncIterable<T>,
    each: (item: T) => boolean,
  ): AsyncGenerator<T, void, undefined> {
    let over = false;
    this.#count('open');
    try {
      for await (const item of items) {
        over = each(item);
        yield item;
      }
      over = true;
    } catch (error) {
      over = true;
      this.#count(DuolaneError.from(error).code === 'canceled' ? 'canceled' : 'failed');
      throw error;
    } finally {
      if (!over) this.#count('canceled');
      this.#count('open', -1);
    }
  }
}
