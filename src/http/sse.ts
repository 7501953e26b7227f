import { encodeSse, type SseEvent } from '../wire/sse.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // nginx and its kin hold a stream back unless told not to.
  'x-accel-buffering': 'no',
};

const COMMENT = ': \n\n';

/** An event; a comment line that keeps a silent stream from being cut; when a client should come back. */
export type SseItem = SseEvent | 'heartbeat' | { readonly retry: number };

const sources = new WeakMap<Response, AsyncIterable<string>>();

/**
 * A response whose body is pulled: the source is asked for the next event only when the socket has
 * room, and its `finally` runs when the client leaves.
 */
export function sseResponse(items: AsyncIterable<SseItem>): Response {
  const texts = encode(items);
  const iterator = texts[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      async cancel() {
        await iterator.return?.(undefined);
      },
    },
    { highWaterMark: 0 },
  );
  const response = new Response(body, { headers: HEADERS });
  sources.set(response, texts);
  return response;
}

/** The text chunks behind an SSE response, for a server that can write them without a web stream. */
export const textsOf = (response: Response): AsyncIterable<string> | undefined =>
  sources.get(response);

async function* encode(items: AsyncIterable<SseItem>): AsyncGenerator<string, void, undefined> {
  for await (const item of items) yield encodeItem(item);
}

function encodeItem(item: SseItem): string {
  if (item === 'heartbeat') return COMMENT;
  return 'data' in item ? encodeSse(item) : `retry: ${item.retry}\n\n`;
}
