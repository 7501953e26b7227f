import type { Ask } from '../../../src/ask.ts';
import {
  asObject,
  asObjects,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../../src/json.ts';
import { ParamHeaders } from '../../../src/mcp/json-rpc/http/param-headers.ts';
import { requestHeaders } from '../../../src/mcp/json-rpc/http/routing-headers.ts';
import { withPartial } from '../../../src/mcp/json-rpc/partial-results.ts';
import { bare, META, STATELESS_VERSION } from '../../../src/mcp/json-rpc/protocol-versions.ts';
import { MAX_INPUT_ROUNDS } from '../../../src/mcp/sources/ask-rounds.ts';
import { CALLER } from '../../../src/mcp/sources/caller-key.ts';
import { fromWire, toResponse, type WireInput } from '../../../src/mcp/sources/input-codec.ts';
import { SseDecoder } from '../../../src/wire/sse.ts';
import { SignInRequired } from '../api/requests.ts';

/** A message that the page sent or received. */
export interface LoggedMessage {
  readonly number: number;
  readonly at: number;
  readonly direction: 'in' | 'out';
  readonly message: JsonObject;
}

/** What happens during a request. */
export interface RequestListener {
  /** Gets the notifications of the request: progress, log lines, partial results. */
  readonly onMessage?: (message: JsonObject) => void;
  /** Answers the questions of the server; without it, a question fails the request. */
  readonly ask?: Ask;
  readonly signal?: AbortSignal;
}

/** How many messages are kept for the list of frames. */
const MAX_LOGGED = 500;

/** What the page can do as a client of MCP. */
const CAPABILITIES = withPartial(
  {
    elicitation: { form: {} },
    sampling: {},
    extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } },
  },
  'extensions',
);

/**
 * The page as a client of one tool server, over the stateless protocol. Every request carries all
 * that the server needs, so there is nothing to open or close.
 */
export class ToolConnection {
  readonly path: string;
  /** The newest messages of both directions. */
  messages: readonly LoggedMessage[] = [];
  readonly #onLog: () => void;
  readonly #params = new ParamHeaders();
  /** The name of this tab: questions of its calls reach no other client. */
  readonly #caller = Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-');
  #count = 0;

  constructor(path: string, onLog: () => void) {
    this.path = path;
    this.#onLog = onLog;
  }

  /** Sends a request in as many rounds as the server has questions. */
  async request(
    method: string,
    params: JsonObject,
    { onMessage, ask, signal }: RequestListener = {},
  ): Promise<JsonObject> {
    let more: JsonObject = {};
    for (let round = 0; round <= MAX_INPUT_ROUNDS; round++) {
      const result = await this.#send(method, { ...params, ...more }, onMessage, signal);
      if (result['resultType'] !== 'input_required') return bare(result);
      const { inputRequests, requestState } = result;
      if (!ask) throw new Error(`${method} asks a question, which cannot be answered here.`);
      const responses: Record<string, JsonObject> = {};
      for (const [key, value] of Object.entries(asObject(inputRequests))) {
        const question = fromWire('', key, value);
        const answer = await ask({ ...question, id: key }, signal ? { signal } : {});
        responses[key] = toResponse(answer, (question.data as WireInput).method);
      }
      more = omitUndefined<JsonObject>({ inputResponses: responses, requestState });
    }
    throw new Error(`${method} asked more than ${MAX_INPUT_ROUNDS} times.`);
  }

  async #send(
    method: string,
    params: JsonObject,
    onMessage: RequestListener['onMessage'],
    signal: AbortSignal | undefined,
  ): Promise<JsonObject> {
    const id = (this.#count += 1);
    const message = {
      jsonrpc: '2.0',
      id,
      method,
      params: {
        ...params,
        _meta: {
          ...asObject(params['_meta']),
          [META.version]: STATELESS_VERSION,
          [META.client]: { name: 'duolane page', version: '0' },
          [META.capabilities]: CAPABILITIES,
          [META.logLevel]: 'debug',
          [CALLER]: this.#caller,
          progressToken: id,
        },
      },
    };
    this.#log('out', message);
    const routing = Object.entries(requestHeaders(message)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    const response = await fetch(this.path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...Object.fromEntries(routing),
        ...(method === 'tools/call' && this.#params.of(params['name'], params['arguments'])),
      },
      body: JSON.stringify(message),
      ...(signal && { signal }),
    });
    if (response.status === 401) throw new SignInRequired();
    for await (const received of messagesIn(response)) {
      this.#log('in', received);
      if (received['id'] !== id) onMessage?.(received);
      else if (isObject(received['error'])) throw new ServerError(received['error']);
      else return this.#learn(method, asObject(received['result']));
    }
    throw new Error(`The server ended ${method} without a result (status ${response.status}).`);
  }

  /** A tool may want parameters as headers, which its list declares. */
  #learn(method: string, result: JsonObject): JsonObject {
    if (method === 'tools/list') this.#params.admit(asObjects(result['tools']));
    return result;
  }

  #log(direction: LoggedMessage['direction'], message: JsonObject): void {
    const number = (this.messages.at(-1)?.number ?? 0) + 1;
    const entry = { number, at: Date.now(), direction, message };
    this.messages = [...this.messages.slice(1 - MAX_LOGGED), entry];
    this.#onLog();
  }
}

/** An error response of a tool server. */
export class ServerError extends Error {
  readonly error: JsonObject;

  constructor(error: JsonObject) {
    super(`${String(error['message'])} (${String(error['code'])})`);
    this.error = error;
  }
}

/** The messages of a response: one, or a stream of them. */
async function* messagesIn(response: Response): AsyncGenerator<JsonObject, void, undefined> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const text = await response.text();
    const message = parsed(text);
    if (message) yield message;
    else if (text !== '') throw new Error(`${text.slice(0, 500)} (status ${response.status})`);
    return;
  }
  const decoder = new SseDecoder();
  const reader = response.body?.getReader();
  try {
    for (;;) {
      const chunk = await reader?.read();
      if (!chunk?.value) return;
      for (const event of decoder.decode(chunk.value)) {
        if (!('data' in event)) throw new Error('The server sent a message that is too large.');
        const message = parsed(event.data);
        if (message) yield message;
      }
    }
  } finally {
    reader?.cancel().catch(() => {}); // the stream may have failed, which the reader has thrown
  }
}

function parsed(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // not JSON; the caller reports it
  }
}
