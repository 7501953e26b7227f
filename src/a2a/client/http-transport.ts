import { DuolaneError } from '../../errors.ts';
import { isObject, tryParse, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { InvalidLine } from '../../wire/invalid-line.ts';
import { SseDecoder } from '../../wire/sse.ts';
import {
  bytesOf,
  httpFailure,
  readResponse,
  refusedRedirect,
  toNetworkError,
} from './read-response.ts';
import type { ClientDialect } from '../protocol/client-dialect.ts';
import { errorFromResponse, restRequest, encodeRpcRequest, type Target } from './encode-request.ts';
import type { A2ATransport, ClientFetch, Received } from './a2a-transport.ts';
import type { Operation } from '../protocol/dialect.ts';

export interface HttpTransportOptions extends Target {
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  /** The extensions that the client supports, sent with every request. */
  readonly extensions: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: ClientFetch;
  /** A stream that sends no byte for this time fails with `network`. */
  readonly silenceMs: number;
}

/** JSON-RPC and REST over `fetch`, which owns the connections. */
export class A2AHttpTransport implements A2ATransport {
  readonly #options: HttpTransportOptions;
  #nextId = 1;
  retryMs: number | undefined;

  constructor(options: HttpTransportOptions) {
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
      throw toNetworkError(error);
    }
  }

  async *stream(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId?: string },
  ): AsyncGenerator<Received, void, undefined> {
    const idle = new AbortController();
    const unlisten = onAbort(signal, (reason) => idle.abort(reason));
    const { silenceMs } = this.#options;
    // Only a wait for the server counts: the caller may take any time for an event.
    const unlessSilent = async <T>(work: Promise<T>): Promise<T> => {
      const timer = setTimeout(
        () => idle.abort(new DuolaneError('network', `no byte within silenceMs (${silenceMs} ms)`)),
        silenceMs,
      );
      return work.finally(() => clearTimeout(timer));
    };
    try {
      const sending = this.#send(operation, params, { signal: idle.signal, lastEventId });
      const response = await unlessSilent(sending);
      if (!/^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '')) {
        const text = await unlessSilent(readResponse(response));
        this.#unwrap(parse(text, response), response);
        const message = 'the server sent a single response: expected text/event-stream';
        yield { malformed: new DuolaneError('malformed', message) };
        yield this.#read(text, '', response);
        return;
      }
      const decoder = new SseDecoder();
      for await (const chunk of bytesOf(response, unlessSilent)) {
        const messages = decoder.decode(chunk);
        this.retryMs = decoder.retryMs;
        for (const message of messages) {
          if (message instanceof InvalidLine) yield { malformed: message.error };
          else if (message.event === 'error') throw errorOf(message.data, response);
          else yield this.#read(message.data, message.lastEventId, response);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      throw idle.signal.aborted ? idle.signal.reason : error;
    } finally {
      unlisten();
      idle.abort();
    }
  }

  #read(data: string, id: string, response: Response): Received {
    const value = tryParse(data);
    if (!isObject(value)) return { malformed: notAnObject('an event') };
    const inner = this.#unwrap(value, response);
    try {
      return { id, ...this.dialect.decodeEvent(inner) };
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
    const init: RequestInit = {
      method,
      // Not `error`: workers do not support that, and it is indistinguishable from a lost
      // connection, which is retried.
      redirect: 'manual',
      headers: {
        accept: 'application/json, application/a2a+json, text/event-stream',
        'a2a-version': dialect.version,
        [dialect.extensionHeader]: extensions.join(', '),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
        ...headers,
      },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    };
    const response = await fetch(url, init).catch((error: unknown) => {
      throw toNetworkError(error);
    });
    const { status, type } = response;
    if (type !== 'opaqueredirect' && (status < 300 || status >= 400)) return response;
    // The connection may be lost already.
    response.body?.cancel().catch(() => {});
    throw refusedRedirect(url, response.headers.get('location'));
  }

  /**
   * The result of a JSON-RPC response, or the body of a REST response. Throws the server's error.
   */
  #unwrap(value: unknown, response: Response): unknown {
    if (!isObject(value)) throw notAnObject('a response');
    const { error } = value;
    if (isObject(error)) throw errorFromResponse(error, response);
    if (!response.ok) throw errorFromResponse(value, response);
    return this.#options.binding === 'JSONRPC' ? value['result'] : value;
  }
}

function parse(text: string, response: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The response of a proxy, or of a server that starts or shuts down.
    if (!response.ok)
      throw httpFailure(
        response,
        `the server returned HTTP ${response.status}: ${text.slice(0, 200)}`,
      );
    throw new DuolaneError('malformed', 'the server sent text: expected JSON', {
      cause,
    });
  }
}

/** The error that ended a stream. The REST binding of 0.3 has no member around it. */
function errorOf(data: string, response: Response): DuolaneError {
  const value = tryParse(data);
  if (!isObject(value)) return notAnObject('an error');
  const { error } = value;
  return errorFromResponse(isObject(error) ? error : value, response);
}

const notAnObject = (what: string): DuolaneError =>
  new DuolaneError('malformed', `the server sent ${what} of another form: expected a JSON object`);
