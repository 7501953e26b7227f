import { listen } from '../../../src/http/node-server.ts';
import type { JsonObject } from '../../../src/json.ts';

export interface Heard {
  readonly method: string;
  readonly headers: Headers;
  /** The message of a POST. */
  readonly message: JsonObject;
  readonly signal: AbortSignal;
}

export interface Scripted extends AsyncDisposable {
  readonly url: string;
  /** All requests, in order. */
  readonly heard: readonly Heard[];
  /** As `initialize`, `tools/list`, `GET`, `DELETE`. */
  readonly names: readonly string[];
}

export const INITIALIZED: JsonObject = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: 'scripted', version: '1' },
};

const nameOf = ({ method, message }: Heard): string =>
  method === 'POST' ? String(message['method'] ?? 'answer') : method;

/**
 * An HTTP server that a test scripts; it handles the handshake and refuses everything that is not
 * scripted.
 */
export async function scriptedHttp(
  script: (heard: Heard, name: string) => Response | undefined | Promise<Response | undefined>,
): Promise<Scripted> {
  const heard: Heard[] = [];
  const listening = await listen(async (request) => {
    const message = request.method === 'POST' ? ((await request.json()) as JsonObject) : {};
    const { method, headers, signal } = request;
    const one = { method, headers, message, signal };
    heard.push(one);
    return (await script(one, nameOf(one))) ?? usual(one);
  });
  return {
    url: `${listening.url}/mcp`,
    heard,
    get names() {
      return heard.map(nameOf);
    },
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  };
}

function usual(heard: Heard): Response {
  if (nameOf(heard) === 'server/discover')
    return new Response('Bad Request: not initialized', { status: 400 });
  if (nameOf(heard) === 'initialize')
    return json(answer(heard, INITIALIZED), { 'mcp-session-id': 'session-1' });
  if (heard.method === 'POST')
    return heard.message['id'] === undefined
      ? new Response(null, { status: 202 })
      : json(answer(heard, {}));
  return new Response(null, { status: heard.method === 'DELETE' ? 200 : 405 });
}

export const answer = ({ message }: Heard, result: JsonObject): JsonObject => ({
  jsonrpc: '2.0',
  id: message['id'],
  result,
});

export const json = (body: JsonObject, headers: Record<string, string> = {}): Response =>
  Response.json(body, { headers });

/** A stream of these texts, word for word; `hold` keeps it open until the client leaves. */
export function events(texts: readonly string[], hold?: AbortSignal): Response {
  const encoder = new TextEncoder();
  const left = [...texts];
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const text = left.shift();
      if (text !== undefined) return controller.enqueue(encoder.encode(text));
      if (hold && !hold.aborted) await new Promise((done) => hold.addEventListener('abort', done));
      controller.close();
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

export const event = (message: JsonObject, head = ''): string =>
  `${head}data: ${JSON.stringify(message)}\n\n`;
