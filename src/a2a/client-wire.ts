import { DuolaneError, type ErrorCode } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import { onAbort } from '../stream/abort.ts';
import { Noise } from '../wire/jsonl.ts';
import { SseDecoder } from '../wire/sse.ts';
import { RESUME_EXTENSION } from './card.ts';
import type { ClientDialect, Decoded } from './client-dialect.ts';
import type { Operation } from './dialect.ts';
import { REASONS, Refusal, type Reason } from './errors.ts';
import { METHODS } from './json-rpc.ts';

export type Fetch = typeof globalThis.fetch;

export interface WireOptions {
  readonly url: string;
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  readonly dialect: ClientDialect;
  readonly tenant?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  /** A stream without a single byte for so long is dead. */
  readonly silenceMs: number;
}

/** What came on a stream: an event, or something that is none. */
export type Received = (Decoded & { readonly id: string }) | { readonly malformed: DuolaneError };

/** One server, in one version and binding: requests out, results and events in the spelling of 1.0. */
export class ClientWire {
  readonly #options: WireOptions;
  #nextId = 1;
  /** How long the server wants a client to wait before it comes back. */
  retryMs: number | undefined;

  constructor(options: WireOptions) {
    this.#options = options;
  }

  get dialect(): ClientDialect {
    return this.#options.dialect;
  }

  /** The result of a call. Throws what the server refused with, `network` when it cannot be reached. */
  async call(operation: Operation, params: JsonObject, signal?: AbortSignal): Promise<unknown> {
    const response = await this.#send(operation, params, { signal });
    const text = await response.text().catch((error: unknown) => {
      throw lost(error);
    });
    return this.#unwrap(text === '' ? {} : parse(text, response), response);
  }

  /** The events of a stream. Ends when the server closes it, throws `network` when it breaks. */
  async *stream(
    operation: Operation,
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
        this.#unwrap(parse(await response.text(), response), response);
        throw new DuolaneError('malformed', 'the server answered a streaming call with no stream');
      }
      const decoder = new SseDecoder();
      for await (const chunk of bytesOf(response)) {
        timer.refresh();
        const messages = decoder.decode(chunk);
        this.retryMs = decoder.retryMs;
        for (const message of messages) {
          if (message instanceof Noise) yield { malformed: message.error };
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
    const { headers, dialect, fetch, binding } = this.#options;
    const { path, method, body } =
      binding === 'JSONRPC' ? this.#rpc(operation, params) : this.#rest(operation, params);
    const init: RequestInit = {
      method,
      redirect: 'error',
      headers: {
        accept: 'application/json, application/a2a+json, text/event-stream',
        'a2a-version': dialect.version,
        'a2a-extensions': RESUME_EXTENSION,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
        ...headers,
      },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    };
    return await fetch(path, init).catch((error: unknown) => {
      throw lost(error);
    });
  }

  #rpc(operation: Operation, params: JsonObject): Prepared {
    const { url, dialect, tenant } = this.#options;
    const method = METHODS[dialect.version][operation];
    if (method === undefined)
      throw new DuolaneError('unsupported', `A2A ${dialect.version} cannot ${operation}`);
    const given =
      dialect.version === '1.0' && tenant !== undefined ? { tenant, ...params } : params;
    const request = { jsonrpc: '2.0', id: this.#nextId++, method };
    const body = JSON.stringify({ ...request, params: dialect.encode(operation, given) });
    return { path: url, method: 'POST', body };
  }

  #rest(operation: Operation, params: JsonObject): Prepared {
    const { url, dialect, tenant } = this.#options;
    const prefix = dialect.version === '0.3' ? '/v1' : tenant === undefined ? '' : `/${tenant}`;
    const base = `${url.replace(/\/$/, '')}${prefix}`;
    const { id = '', historyLength, ...more } = params;
    const task = `${base}/tasks/${encodeURIComponent(String(id as string))}`;
    const body = (): string => JSON.stringify(dialect.encode(operation, params));
    switch (operation) {
      case 'send':
      case 'stream':
        return { path: `${base}/message:${operation}`, method: 'POST', body: body() };
      case 'get':
        return { path: `${task}${query({ historyLength })}`, method: 'GET' };
      case 'list':
        return { path: `${base}/tasks${query({ historyLength, ...more })}`, method: 'GET' };
      case 'cancel':
        return { path: `${task}:cancel`, method: 'POST', body: '{}' };
      case 'subscribe':
        return { path: `${task}:subscribe`, method: 'GET' };
      default:
        throw new DuolaneError(
          'unsupported',
          `${operation} goes over JSON-RPC only in this client`,
        );
    }
  }

  /** What is inside a JSON-RPC answer, or a REST answer as it is. Throws a refusal. */
  #unwrap(value: unknown, response: Response): unknown {
    if (!isObject(value)) throw new DuolaneError('malformed', 'the server answered no JSON object');
    const { error } = value;
    if (isObject(error)) throw refused(error, response.status);
    if (!response.ok) throw refused(value, response.status);
    return this.#options.binding === 'JSONRPC' ? value['result'] : value;
  }
}

interface Prepared {
  readonly path: string;
  readonly method: 'GET' | 'POST';
  readonly body?: string;
}

/** What both kinds of error object say: by the reason that 1.0 names, else by number. */
function refused({ message, code, data, details }: JsonObject, status: number): DuolaneError {
  const infos = [data, details].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  const named = infos.map((info) => (isObject(info) ? info['reason'] : undefined));
  const known = Object.keys(REASONS) as Reason[];
  const reason =
    known.find((each) => named.includes(each)) ?? known.find((each) => REASONS[each].rpc === code);
  const text = typeof message === 'string' ? message : `the server refused with ${status}`;
  if (reason !== undefined) return new Refusal(reason, text);
  const byStatus: Record<number, ErrorCode> = { 401: 'unauthorized', 403: 'unauthorized' };
  return new DuolaneError(byStatus[status] ?? 'server', text, { status });
}

function query(params: JsonObject): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    if (value !== undefined)
      search.set(name, typeof value === 'string' ? value : JSON.stringify(value));
  return search.size === 0 ? '' : `?${search.toString()}`;
}

async function* bytesOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of response.body ?? []) yield chunk;
  } catch (error) {
    throw lost(error);
  }
}

function parse(text: string, { status }: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // A proxy, or a server that is starting or going: worth another try.
    if (status === 429 || status >= 500)
      throw new DuolaneError('server', `the server answered ${status}`, { status, cause });
    if (status === 401 || status === 403)
      throw new DuolaneError(
        'unauthorized',
        `the server answered ${status}: ${text.slice(0, 200)}`,
      );
    throw new DuolaneError('malformed', 'the server answered something that is not JSON', {
      cause,
    });
  }
}

const lost = (error: unknown): DuolaneError =>
  error instanceof DuolaneError
    ? error
    : new DuolaneError('network', 'the connection to the agent broke', { cause: error });
