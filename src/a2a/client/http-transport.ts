import { DuolaneError } from '../../errors.ts';
import type { Fetch } from '../../http/light-fetch.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { InvalidLine } from '../../wire/jsonl.ts';
import { SseDecoder } from '../../wire/sse.ts';
import { httpFailure, readResponse } from './read-response.ts';
import type { ClientDialect } from './client-dialects.ts';
import { errorFromResponse, restRequest, encodeRpcRequest, type Target } from './encode-request.ts';
import type { A2ATransport, Received } from './a2a-transport.ts';
import type { Operation } from '../protocol/dialect.ts';

export interface HttpWireOptions extends Target {
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  /** Those that the caller speaks; the server learns of them with every request. */
  readonly extensions: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  /** A stream without a single byte for so long is dead. */
  readonly silenceMs: number;
}

/** JSON-RPC and REST over fetch, which keeps the connections. */
export class A2AHttpTransport implements A2ATransport {
  readonly #options: HttpWireOptions;
  #nextId = 1;
  retryMs: number | undefined;

  constructor(options: HttpWireOptions) {
    this.#options = options;
  }

  get dialect(): ClientDialect {
    return this.#options.dialect;
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async call(operation: Operation, params: JsonObject, signal?: AbortSignal): Promise<unknown> {
    try {
      const response = await this.#send(operation, params, { signal });
      const text = await readResponse(response);
      return this.#unwrap(text === '' ? {} : parse(text, response), response);
    } catch (error) {
      signal?.throwIfAborted();
      throw lost(error);
    }
  }

  async *stream(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId?: string },
  ): AsyncGenerator<Received, void, undefined> {
    const silent = new AbortController();
    const unlisten = onAbort(signal, (reason) => silent.abort(reason));
    const { silenceMs, dialect } = this.#options;
    const timer = setTimeout(
      () => silent.abort(new DuolaneError('network', `the stream was silent for ${silenceMs} ms`)),
      silenceMs,
    );
    try {
      const response = await this.#send(operation, params, { signal: silent.signal, lastEventId });
      if (!/^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '')) {
        const whole = await readResponse(response);
        this.#unwrap(parse(whole, response), response);
        const message = 'the server answered a streaming call with no stream';
        yield { malformed: new DuolaneError('malformed', message) };
        yield this.#read(whole, '', response, dialect);
        return;
      }
      const decoder = new SseDecoder();
      for await (const chunk of bytesOf(response)) {
        timer.refresh();
        const messages = decoder.decode(chunk);
        this.retryMs = decoder.retryMs;
        for (const message of messages) {
          if (message instanceof InvalidLine) yield { malformed: message.error };
          else yield this.#read(message.data, message.lastEventId, response, dialect);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      throw silent.signal.aborted ? silent.signal.reason : error;
    } finally {
      clearTimeout(timer);
      unlisten();
      silent.abort();
    }
  }

  #read(data: string, id: string, response: Response, dialect: ClientDialect): Received {
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch (cause) {
      return { malformed: new DuolaneError('malformed', 'an event is not JSON', { cause }) };
    }
    if (!isObject(value))
      return { malformed: new DuolaneError('malformed', 'an event is no JSON object') };
    const inner = this.#unwrap(value, response);
    try {
      return { id, ...dialect.decodeEvent(inner) };
    } catch (error) {
      return { malformed: DuolaneError.from(error, 'malformed') };
    }
  }

  async #send(
    operation: Operation,
    params: JsonObject,
    { signal, lastEventId }: { signal?: AbortSignal | undefined; lastEventId?: string | undefined },
  ): Promise<Response> {
    const { headers, dialect, fetch, binding, extensions } = this.#options;
    const { url, method, body } =
      binding === 'JSONRPC'
        ? encodeRpcRequest(this.#options, this.#nextId++, operation, params)
        : restRequest(this.#options, operation, params);
    const spoken = extensions.join(', ');
    const init: RequestInit = {
      method,
      redirect: 'error',
      headers: {
        accept: 'application/json, application/a2a+json, text/event-stream',
        'a2a-version': dialect.version,
        // 0.3 spelled it with an X, and some of its servers look for nothing else.
        [dialect.version === '0.3' ? 'x-a2a-extensions' : 'a2a-extensions']: spoken,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
        ...headers,
      },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    };
    return await fetch(url, init).catch((error: unknown) => {
      throw lost(error);
    });
  }

  /** What is inside a JSON-RPC answer, or a REST answer as it is. Throws a refusal. */
  #unwrap(value: unknown, response: Response): unknown {
    if (!isObject(value)) throw new DuolaneError('malformed', 'the server answered no JSON object');
    const { error } = value;
    if (isObject(error)) throw errorFromResponse(error, response);
    if (!response.ok) throw errorFromResponse(value, response);
    return this.#options.binding === 'JSONRPC' ? value['result'] : value;
  }
}

async function* bytesOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of response.body ?? []) yield chunk;
  } catch (error) {
    throw lost(error);
  }
}

function parse(text: string, response: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // A proxy, or a server that is starting or going.
    if (!response.ok)
      throw httpFailure(response, `the server answered ${response.status}: ${text.slice(0, 200)}`);
    throw new DuolaneError('malformed', 'the server answered something that is not JSON', {
      cause,
    });
  }
}

const lost = (error: unknown): DuolaneError =>
  error instanceof DuolaneError
    ? error
    : new DuolaneError('network', 'the connection to the agent broke', { cause: error });
