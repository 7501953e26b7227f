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
  new StreamedResponse(encoded(items), HEADERS) as unknown as Response;

/** The same for any text in chunks. */
export const streamResponse = (
  texts: AsyncIterable<string>,
  headers: Readonly<Record<string, string>>,
): Response => new StreamedResponse(texts[Symbol.asyncIterator](), headers) as unknown as Response;

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
  #texts: AsyncIterator<string>;
  readonly #given: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #whole: Response | undefined;

  constructor(texts: AsyncIterator<string>, headers: Readonly<Record<string, string>>) {
    this.#texts = texts;
    this.#given = headers;
  }

  get texts(): AsyncIterable<string> {
    return { [Symbol.asyncIterator]: () => this.#texts };
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
    this.#texts = watched(this.#texts, watch);
  }
}

passFor<Response>(StreamedResponse, Response);

function watched(texts: AsyncIterator<string>, watch: StreamWatch): AsyncIterator<string> {
  let over = false;
  const end = (): void => {
    if (!over) watch.end();
    over = true;
  };
  return {
    next() {
      const taken = texts.next();
      taken.then(({ done }) => (done ? end() : watch.chunk()), end);
      return taken;
    },
    async return() {
      end();
      await texts.return?.();
      return { done: true, value: undefined };
    },
  };
}

function toStream(texts: AsyncIterator<string>): ReadableStream<Uint8Array> {
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
function encoded(items: AsyncIterable<SseItem | readonly SseItem[]>): AsyncIterator<string> {
  let iterator: AsyncIterator<SseItem | readonly SseItem[]> | undefined;
  const source = (): AsyncIterator<SseItem | readonly SseItem[]> =>
    (iterator ??= items[Symbol.asyncIterator]());
  return {
    async next() {
      const result = await source().next();
      if (result.done) return { done: true, value: undefined };
      const { value } = result;
      return {
        done: false,
        value: isList(value) ? value.map(encodeItem).join('') : encodeItem(value),
      };
    },
    async return() {
      await source().return?.();
      return { done: true, value: undefined };
    },
  };
}

const isList = (value: SseItem | readonly SseItem[]): value is readonly SseItem[] =>
  Array.isArray(value);

function encodeItem(item: SseItem): string {
  if (item === 'heartbeat') return COMMENT;
  return 'data' in item ? encodeSse(item) : `retry: ${item.retry}\n\n`;
}
