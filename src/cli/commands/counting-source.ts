import { DuolaneError } from '../../errors.ts';
import { asObject, type JsonObject, omitUndefined } from '../../json.ts';
import type { PagedItems } from '../../mcp/sources/streaming-adapter.ts';
import {
  type ExchangeOptions,
  type Upstream,
  upstreamOf,
  withUpstream,
} from '../../mcp/relay/upstream.ts';
import type { MessageTransport, ToolSource } from '../../mcp/index.ts';
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
    const upstream = upstreamOf(source);
    if (upstream) withUpstream(this.source, this.#upstream(upstream));
  }

  /** Counts the messages that are passed on. */
  #upstream(upstream: Upstream): Upstream {
    const exchange = upstream.exchange?.bind(upstream);
    return omitUndefined<Upstream>({
      protocol: upstream.protocol,
      reopens: upstream.reopens,
      open: async (options) => this.#transport(await upstream.open(options)),
      exchange:
        exchange &&
        (async (message, { signal, onMessage }) => {
          const counter = new MessageCounter((key, by) => this.#count(key, by));
          counter.sent(message);
          const received = async (each: JsonObject): Promise<void> => {
            counter.received(each);
            await onMessage(each);
          };
          try {
            const options = omitUndefined<ExchangeOptions>({ signal, onMessage: received });
            const response = await exchange(message, options);
            counter.received(response);
            return response;
          } finally {
            counter.end();
          }
        }),
      notify: upstream.notify?.bind(upstream),
    });
  }

  #transport(transport: MessageTransport): MessageTransport {
    const counter = new MessageCounter((key, by) => this.#count(key, by));
    const incoming = async function* (): AsyncGenerator<JsonObject, void, undefined> {
      try {
        for await (const message of transport.incoming) {
          counter.received(message);
          yield message;
        }
      } finally {
        counter.end();
      }
    };
    return {
      incoming: incoming(),
      requestOf: transport.requestOf && ((message) => transport.requestOf?.(message)),
      send: (message, options = {}) => {
        const { onMessage } = options;
        counter.sent(message);
        const received = async (each: JsonObject): Promise<void> => {
          counter.received(each);
          await onMessage?.(each);
        };
        return transport.send(message, { ...options, ...(onMessage && { onMessage: received }) });
      },
      close: async () => {
        counter.end();
        await transport.close?.();
      },
    } as MessageTransport;
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

/** Counts the lists and calls of one connection by their messages. */
class MessageCounter {
  readonly #count: (key: keyof Counts, by?: number) => void;
  /** The requests that are counted and run; limited like those of the connection. */
  readonly #open = new Map<unknown, string>();

  constructor(count: (key: keyof Counts, by?: number) => void) {
    this.#count = count;
  }

  sent({ id, method, params }: JsonObject): void {
    if (method === 'notifications/cancelled')
      this.#close(asObject(params)['requestId'], 'canceled');
    if (id === undefined || typeof method !== 'string') return;
    if (method !== 'tools/call' && !method.endsWith('/list')) return;
    this.#open.set(id, method);
    this.#count(method === 'tools/call' ? 'calls' : 'lists');
    this.#count('open');
  }

  received(message: JsonObject): void {
    const { id, method, result } = message;
    if (method === 'notifications/progress' || method === 'notifications/message')
      this.#count('events');
    if (method !== undefined || !this.#open.has(id)) return;
    const { isError } = asObject(result);
    for (const items of Object.values(asObject(result)))
      if (Array.isArray(items) && this.#open.get(id) !== 'tools/call')
        this.#count('items', items.length);
    this.#close(id, message['error'] !== undefined || isError === true ? 'failed' : undefined);
  }

  /** Counts the requests that still run as canceled. */
  end(): void {
    for (const id of this.#open.keys()) this.#close(id, 'canceled');
  }

  #close(id: unknown, outcome: 'canceled' | 'failed' | undefined): void {
    if (!this.#open.delete(id)) return;
    if (outcome) this.#count(outcome);
    this.#count('open', -1);
  }
}
