import { encodeSse, type SseEvent } from '../wire/sse.ts';
import { DONE } from '../stream/queue-reader.ts';
import { inheritWebMembers } from './lazy-web-object.ts';

const HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // nginx and its kin hold a stream back unless told not to.
  'x-accel-buffering': 'no',
};

const COMMENT = ': \n\n';

/** An event; a comment line that keeps a silent stream from being cut; when a client should come back. */
export type SseItem = SseEvent | 'heartbeat' | { readonly retry: number };

/**
 * A response whose body is pulled: the source is asked for the next event only when the socket has
 * room. When the client leaves, `return` of the source is called at once. A generator runs its
 * `finally` then if it is at a `yield`; one that awaits something else runs it when that settles, so
 * give what it awaits the `signal` of the request. Items that come together as a list are written
 * together.
 */
export const sseResponse = (items: AsyncIterable<SseItem | readonly SseItem[]>): Response =>
  new StreamedResponse(
    new TextIterator(items, encodeItems, countEvents),
    HEADERS,
  ) as unknown as Response;

/** The same for any text in chunks. Each chunk counts as one event, unless it is blank. */
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

/** What a server that writes text itself needs of a streamed response, in place of a web stream. */
export interface StreamSource {
  readonly status: number;
  /** By their names in lower case. */
  readonly fields: Readonly<Record<string, string>>;
  readonly texts: AsyncIterable<string>;
}

export const streamSource = (response: Response): StreamSource | undefined => streamed(response);

const streamed = (response: Response): StreamedResponse | undefined =>
  (response as unknown) instanceof StreamedResponse
    ? (response as unknown as StreamedResponse)
    : undefined;

/** Told about a streamed response while node:http writes it. */
export interface StreamWatch {
  /** So many events were taken in one write; heartbeats do not count. */
  events(count: number): void;
  /** All of it, or the client has left. */
  end(): void;
}

interface WatchedTexts extends AsyncIterable<string> {
  watch(watch: StreamWatch): void;
}

/** Whether the response is streamed, so that `watch` will hear of it. The stream waits for nobody. */
export function watchStream(response: Response, watch: StreamWatch): boolean {
  const stream = streamed(response);
  stream?.texts.watch(watch);
  return stream !== undefined;
}

/** A web Response for everybody who looks; a stream and a table of headers only for who uses them. */
class StreamedResponse implements StreamSource {
  readonly status = 200;
  readonly ok = true;
  readonly texts: WatchedTexts;
  readonly #given: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #whole: Response | undefined;

  constructor(texts: WatchedTexts, headers: Readonly<Record<string, string>>) {
    this.texts = texts;
    this.#given = headers;
  }

  get fields(): Readonly<Record<string, string>> {
    return this.#headers ? Object.fromEntries(this.#headers) : this.#given;
  }

  get headers(): Headers {
    return (this.#headers ??= new Headers(this.#given));
  }

  get target(): Response {
    return (this.#whole ??= new Response(toStream(this.texts), { headers: this.headers }));
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
 * What a response is made of, as text, and whoever watches it. By hand: a generator would cost a promise more for
 * every item, and stand in the way of `return`; and each further layer costs as much again.
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
      // Whoever reads does not return what has thrown, and an item that cannot be written leaves its source open.
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
