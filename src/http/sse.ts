import { encodeSse, type SseEvent } from '../wire/sse.ts';
import { passFor } from './light.ts';

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
 * room, and its `finally` runs when the client leaves. Items that come together as a list are
 * written together.
 */
export const sseResponse = (items: AsyncIterable<SseItem | readonly SseItem[]>): Response =>
  new StreamedResponse(new Encoded(items), HEADERS) as unknown as Response;

/** The same for any text in chunks. */
export const streamResponse = (
  texts: AsyncIterable<string>,
  headers: Readonly<Record<string, string>>,
): Response => new StreamedResponse(texts, headers) as unknown as Response;

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
  /** A chunk was taken. */
  chunk(): void;
  /** All of it, or the client has left. */
  end(): void;
}

/** Whether the response is streamed, so that `watch` will hear of it. The stream waits for nobody. */
export function watchStream(response: Response, watch: StreamWatch): boolean {
  const stream = streamed(response);
  stream?.watch(watch);
  return stream !== undefined;
}

/** A web Response for everybody who looks; a stream and a table of headers only for who uses them. */
class StreamedResponse implements StreamSource {
  readonly status = 200;
  readonly ok = true;
  #texts: AsyncIterable<string>;
  readonly #given: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #whole: Response | undefined;

  constructor(texts: AsyncIterable<string>, headers: Readonly<Record<string, string>>) {
    this.#texts = texts;
    this.#given = headers;
  }

  get texts(): AsyncIterable<string> {
    return this.#texts;
  }

  get fields(): Readonly<Record<string, string>> {
    return this.#headers ? Object.fromEntries(this.#headers) : this.#given;
  }

  get headers(): Headers {
    return (this.#headers ??= new Headers(this.#given));
  }

  get whole(): Response {
    return (this.#whole ??= new Response(toStream(this.#texts), { headers: this.headers }));
  }

  watch(watch: StreamWatch): void {
    this.#texts = new Watched(this.#texts, watch);
  }
}

passFor<Response>(StreamedResponse, Response);

class Watched implements AsyncIterableIterator<string> {
  readonly #texts: AsyncIterator<string>;
  readonly #watch: StreamWatch;
  #over = false;

  constructor(texts: AsyncIterable<string>, watch: StreamWatch) {
    this.#texts = texts[Symbol.asyncIterator]();
    this.#watch = watch;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    try {
      const result = await this.#texts.next();
      if (result.done) this.#end();
      else this.#watch.chunk();
      return result;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  async return(): Promise<IteratorResult<string>> {
    this.#end();
    await this.#texts.return?.();
    return { done: true, value: undefined };
  }

  #end(): void {
    if (!this.#over) this.#watch.end();
    this.#over = true;
  }
}

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

/** By hand: a generator would cost a promise more for every item, and stand in the way of `return`. */
class Encoded implements AsyncIterableIterator<string> {
  readonly #items: AsyncIterable<SseItem | readonly SseItem[]>;
  #iterator: AsyncIterator<SseItem | readonly SseItem[]> | undefined;

  constructor(items: AsyncIterable<SseItem | readonly SseItem[]>) {
    this.#items = items;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    const result = await this.#source().next();
    if (result.done) return { done: true, value: undefined };
    const { value } = result;
    const text = isList(value) ? value.map(encodeItem).join('') : encodeItem(value);
    return { done: false, value: text };
  }

  async return(): Promise<IteratorResult<string>> {
    await this.#source().return?.();
    return { done: true, value: undefined };
  }

  #source(): AsyncIterator<SseItem | readonly SseItem[]> {
    return (this.#iterator ??= this.#items[Symbol.asyncIterator]());
  }
}

const isList = (value: SseItem | readonly SseItem[]): value is readonly SseItem[] =>
  Array.isArray(value);

function encodeItem(item: SseItem): string {
  if (item === 'heartbeat') return COMMENT;
  return 'data' in item ? encodeSse(item) : `retry: ${item.retry}\n\n`;
}
