import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isObject, type JsonObject } from '../../src/json.ts';
import { gemini } from './gemini-wire.ts';
import { anthropic, errorType, openai, type ModelWire } from './model-wire.ts';

/** A reply of the model, independent of the provider; each API encodes it in its own format. */
export interface ModelReply {
  readonly thinking?: string | readonly string[];
  /** A list is one delta per item; a string becomes one delta per word. */
  readonly text?: string | readonly string[];
  readonly tools?: readonly {
    readonly id?: string;
    readonly name: string;
    readonly input?: JsonObject;
  }[];
  /** In the format of the API; the default depends on whether tools are called. */
  readonly stopReason?: string;
  readonly usage?: { readonly input?: number; readonly output?: number };
  /** The member in which chat completions stream `thinking`. */
  readonly reasoningField?: 'reasoning_content' | 'reasoning';
  /** An error response instead of the reply. */
  readonly status?: number;
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Delay before the first byte, and between two deltas of the stream. */
  readonly delayMs?: number;
  readonly pieceDelayMs?: number;
  /** After this many deltas: drop the connection, send an error, or send nothing more. */
  readonly fail?: { readonly after: number; readonly how: 'cut' | 'error' | 'hang' };
}

export interface ModelRequest {
  readonly method: string;
  readonly path: string;
  readonly api: 'anthropic' | 'openai' | 'gemini' | 'other';
  readonly headers: IncomingHttpHeaders;
  /** Parsed; `{}` without a JSON object. */
  readonly body: JsonObject;
  /**
   * Resolves at the end of the response: `dropped` if the client or a `fail` closed the connection.
   */
  readonly closed: Promise<'complete' | 'dropped'>;
}

/** One reply per model call, in order, or a function that decides. */
export type ModelScript =
  | readonly ModelReply[]
  | ((request: ModelRequest, index: number) => ModelReply | Promise<ModelReply>);

export interface ModelServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`: the base URL for the Messages API; chat completions add `/v1`. */
  readonly url: string;
  /** Every request so far, also those that consume no reply of the script. */
  readonly requests: readonly ModelRequest[];
  /** The model calls: requests that consumed a reply. */
  readonly calls: readonly ModelRequest[];
}

/**
 * A scripted model behind real HTTP on loopback: `POST /v1/messages`, `POST …/chat/completions` and
 * `POST …:generateContent`, streamed or not. Counting tokens, listing models and the one-token
 * probe of a CLI for a model name consume no reply of the script. After its end the response is a
 * 400 that says so. Disposing drops every connection.
 */
export async function startModelServer(script: ModelScript): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const calls: ModelRequest[] = [];

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming, response);
    requests.push(request);
    const { api, path, body } = request;
    if (path.endsWith('/count_tokens')) return json(response, 200, { input_tokens: 42 });
    if (path.endsWith('/models')) return json(response, 200, { data: [{ id: 'scripted' }] });
    if (api === 'other') return json(response, 404, anthropic.error('not_found_error', path));
    const wire = WIRES[api];
    const isProbe = api === 'anthropic' && body['max_tokens'] === 1 && body['stream'] !== true;
    if (isProbe) return answer(response, wire, { text: 'ok' }, request);
    const index = calls.push(request) - 1;
    await answer(response, wire, await replyTo(request, index), request);
  }

  async function replyTo(request: ModelRequest, index: number): Promise<ModelReply> {
    if (typeof script === 'function') return script(request, index);
    return script[index] ?? { status: 400, message: `the script has no reply ${index + 1}` };
  }

  const server = createServer((incoming, response) => {
    serve(incoming, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    calls,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function readRequest(
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<ModelRequest> {
  const closed = new Promise<'complete' | 'dropped'>((resolve) => {
    response.once('close', () => resolve(response.writableFinished ? 'complete' : 'dropped'));
  });
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const path = new URL(incoming.url ?? '/', 'http://localhost').pathname;
  const isPost = incoming.method === 'POST';
  const api = isPost ? apiOf(path) : 'other';
  const body = parse(Buffer.concat(chunks).toString());
  return { method: incoming.method ?? '', path, api, headers: incoming.headers, body, closed };
}

const WIRES = { anthropic, openai, gemini };

function apiOf(path: string): ModelRequest['api'] {
  if (path.startsWith('/v1/messages')) return 'anthropic';
  if (path.endsWith('/chat/completions')) return 'openai';
  return /:(stream)?generateContent$/i.test(path) ? 'gemini' : 'other';
}

function parse(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

async function answer(
  response: ServerResponse,
  wire: ModelWire,
  reply: ModelReply,
  { body, path }: ModelRequest,
): Promise<void> {
  const { status, message = 'scripted', headers = {}, delayMs = 0 } = reply;
  const model = typeof body['model'] === 'string' ? body['model'] : 'scripted';
  if (delayMs > 0) await sleep(delayMs);
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  if (status !== undefined) json(response, status, wire.error(errorType(status), message));
  else if (body['stream'] === true || path.endsWith(':streamGenerateContent'))
    await stream(response, wire, reply, model);
  else if (reply.fail?.how === 'cut') response.destroy();
  else if (reply.fail?.how !== 'hang') json(response, 200, wire.whole(reply, model));
}

async function stream(
  response: ServerResponse,
  wire: ModelWire,
  reply: ModelReply,
  model: string,
): Promise<void> {
  const { fail, pieceDelayMs = 0, message = 'scripted' } = reply;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.flushHeaders();
  const all = wire.stream(reply, model);
  for (const piece of fail ? all.slice(0, fail.after) : all) {
    if (response.destroyed) return;
    if (pieceDelayMs > 0) await sleep(pieceDelayMs);
    // Each delta is flushed, so that a dropped connection loses nothing that was sent before.
    await new Promise<void>((resolve) => response.write(piece, () => resolve()));
  }
  if (fail?.how === 'hang') return;
  if (fail?.how === 'cut') response.destroy();
  else response.end(fail ? wire.streamError(errorType(529), message) : undefined);
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
