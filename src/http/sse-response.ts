import { encodeSse, type SseEvent } from '../wire/sse.ts';
import { DONE } from '../stream/queue-reader.ts';
import { inheritWebMembers } from './lazy-web-object.ts';

const HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // nginx and similar proxies buffer a stream without this header.
  'x-accel-buffering': 'no',
};

const COMMENT = ': \n\n';

/**
 * An event, a comment line that keeps a silent stream open, or the delay after which a client
 * reconnects.
 */
export type SseItem = SseEvent | 'heartbeat' | { readonly retry: number };

/**
 * Creates a response whose body is pulled: the next event is requested only when the socket accepts
 * more. When the client disconnects, `return` of the source is called immediately. A generator that
 * is at a `yield` then runs its `finally`; one that awaits something else runs it when that
 * settles, so pass the `signal` of the request to what it awaits. Items in one list are written
 * together.
 *
 * @example
 * ```ts
 * const ticks = async function* () {
 *   for (let n = 0; n < 3; n++) yield { id: String(n), data: 'tick' };
 * };
 * const response = sseResponse(ticks());
 * ```
 */
export const sseResponse = (items: AsyncIterable<SseItem | readonly SseItem[]>): Response =>
  new StreamedResponse(
    new TextIterator(items, encodeItems, countEvents),
    HEADERS,
  ) as unknown as Response;

/**
 * Same as `sseResponse`, for text in chunks. Each chunk counts as one event, unless it is blank.
 */
export const streamResponse = (
  texts: AsyncIterable<string>,
  headers: Readonly<Record<string, string>>,
): Response =>
  new StreamedResponse(
    new TextIterator(
      texts,
      (text) => text,
      (text) => (text === '\n' ? 0 : 1),
    ),
    headers,
  ) as unknown as Response;

/** A streamed response as text, for a server that writes text itself and needs no web stream. */
export interface StreamSource {
  readonly status: number;
  /** The headers by their names in lower case. */
  readonly fields: Readonly<Record<string, string>>;
  readonly texts: AsyncIterable<string>;
}

export const streamSource = (response: Response): StreamSource | undefined => streamed(response);

const streamed = (response: Response): StreamedResponse | undefined =>
  (response as unknown) instanceof StreamedResponse
    ? (response as unknown as StreamedResponse)
    : undefined;

/** Listener for a streamed response while node:http writes it. */
export interface StreamWatch {
  /** `count` events were taken in one write; heartbeats do not count. */
  events(count: number): void;
  /** The stream has ended, or the client disconnected. */
  end(): void;
}

interface WatchedTexts extends AsyncIterable<string> {
  watch(watch: StreamWatch): void;
}

/**
 * Adds a listener to a streamed response. Returns false if the response is not streamed. The stream
 * does not wait for the listener.
 */
export function watchStream(response: Response, watch: StreamWatch): boolean {
  const stream = streamed(response);
  stream?.texts.watch(watch);
  return stream !== undefined;
}

/** Behaves like a web `Response`. The body stream and the `Headers` are created on first use. */
class StreamedResponse implements StreamSource {
  readonly status = 200;
  readonly ok = true;
  readonly texts: WatchedTexts;
  readonly #fields: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #target: Response | undefined;

  constructor(texts: WatchedTexts, headers: Readonly<Record<string, string>>) {
    this.texts = texts;
    this.#fields = headers;
  }

  get fields(): Readonly<Record<string, string>> {
    return this.#headers ? Object.fromEntries(this.#headers) : this.#fields;
  }

  get headers(): Headers {
    return (this.#headers ??= new Headers(this.#fields));
  }

  get target(): Response {
    return (this.#target ??= new Response(toStream(this.texts), { headers: this.headers }));
  }
}

inheritWebMembers<Response>(StreamedResponse, Response);

function toStream(source: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const texts = source[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await texts.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      async cancel() {
        await texts.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * The texts of a response, with an optional listener. It is not a generator: that would cost one
 * more promise per item and delay `return`.
 */
class TextIterator<T> implements WatchedTexts, AsyncIterableIterator<string> {
  readonly #items: AsyncIterable<T>;
  readonly #encode: (item: T) => string;
  readonly #count: (item: T) => number;
  #iterator: AsyncIterator<T> | undefined;
  #watch: StreamWatch | undefined;

  constructor(items: AsyncIterable<T>, encode: (item: T) => string, count: (item: T) => number) {
    this.#items = items;
    this.#encode = encode;
    this.#count = count;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  watch(watch: StreamWatch): void {
    this.#watch = watch;
  }

  async next(): Promise<IteratorResult<string>> {
    try {
      const { done, value } = await this.#source().next();
      if (done) return this.#end();
      const text = this.#encode(value);
      if (this.#watch) {
        const count = this.#count(value);
        if (count > 0) this.#watch.events(count);
      }
      return { done: false, value: text };
    } catch (error) {
      // A loop does not call `return` after an error, and the source of an item that cannot be
      // encoded is still open.
      await this.return().catch(() => {});
      throw error;
    }
  }

  async return(): Promise<IteratorResult<string>> {
    this.#end();
    await this.#source().return?.();
    return DONE;
  }

  #source(): AsyncIterator<T> {
    return (this.#iterator ??= this.#items[Symbol.asyncIterator]());
  }

  #end(): IteratorResult<string> {
    this.#watch?.end();
    this.#watch = undefined;
    return DONE;
  }
}

const encodeItems = (item: SseItem | readonly SseItem[]): string =>
  isList(item) ? item.map(encodeItem).join('') : encodeItem(item);

const countEvents = (item: SseItem | readonly SseItem[]): number =>
  isList(item) ? item.filter(isEvent).length : Number(isEvent(item));

const isEvent = (item: SseItem): boolean => item !== 'heartbeat' && 'data' in item;

const isList = (value: SseItem | readonly SseItem[]): value is readonly SseItem[] =>
  Array.isArray(value);

function encodeItem(item: SseItem): string {
  if (item === 'heartbeat') return COMMENT;
  return 'data' in item ? encodeSse(item) : `retry: ${item.retry}\n\n`;
}
