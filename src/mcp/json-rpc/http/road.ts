import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { settledWithin, sleep } from '../../../stream/abort.ts';
import { Channel } from '../../../stream/channel.ts';
import type { Abortable } from '../../../stream/types.ts';
import { isRequest, isResponse, type RpcRequest } from '../../../wire/json-rpc.ts';
import type { MessageTransport } from '../../types.ts';
import { jsonMessages, mediaType } from './body.ts';
import { type Exchange, Fetcher, type HttpOptions } from './fetcher.ts';
import { type Break, follow } from './follow.ts';
import { requestHeaders } from './headers.ts';
import { refusal } from './status.ts';

/** A notification that is not taken by then is given up: a cancel must not wait for a dead server. */
const TELL_MS = 5_000;
/** How long `initialized` waits for the stream of the server's own messages to stand. */
const STREAM_MS = 1_000;
const CLOSE_MS = 1_000;
/** Attempts to get at the rest of a broken answer. */
const RESUME_TRIES = 5;

/** Requests that may be made twice: they only read. */
const SAFE = /\/list$|^resources\/read$|^prompts\/get$|^completion\/complete$|^ping$/;

interface Session {
  readonly id: string | undefined;
  readonly opening: RpcRequest;
  result: JsonObject;
}

/**
 * The client's side of Streamable HTTP. Every message is a POST; an answer comes as JSON or as a
 * stream, which is resumed by `Last-Event-ID` when it breaks. With a session, the stream of the
 * server's own messages is opened before `initialized` is sent, so that nothing the server says at
 * its start is lost; whenever that stream had to be opened again, or the server had forgotten the
 * session, the lists count as changed.
 */
export class HttpRoad implements MessageTransport {
  readonly #fetcher: Fetcher;
  readonly #incoming = new Channel<JsonObject>({ capacity: 64 });
  #session: Session | undefined;
  #renewing: Promise<void> | undefined;
  #listening: AbortController | undefined;
  #stateless = false;

  constructor(options: HttpOptions) {
    this.#fetcher = new Fetcher(options);
  }

  get incoming(): AsyncIterable<JsonObject> {
    return this.#incoming;
  }

  get cancelsByClosing(): boolean {
    return this.#stateless;
  }

  async send(message: JsonObject, { signal }: Abortable = {}): Promise<void> {
    if (isRequest(message)) return this.#request(message, signal);
    if (message['method'] === 'notifications/initialized') await this.#listen();
    await this.#tell(message);
  }

  async close(): Promise<void> {
    if (this.#incoming.ended) return;
    this.#incoming.close();
    this.#listening?.abort(closed());
    await this.#leave().catch(() => {}); // a server that cannot be told forgets by itself
    this.#fetcher.close(closed());
  }

  async #tell(message: JsonObject): Promise<void> {
    using exchange = this.#fetcher.open(AbortSignal.timeout(TELL_MS));
    const response = await this.#post(exchange, message);
    if (!response.ok) throw await refusal(response, 'a message');
  }

  async #request(message: RpcRequest, signal?: AbortSignal): Promise<void> {
    await this.#renewing?.catch(() => {}); // who asked for it hears of its failure
    const session = this.#session;
    this.#stateless = requestHeaders(message)['mcp-protocol-version'] !== undefined;
    using exchange = this.#fetcher.open(signal);
    let response = await this.#post(exchange, message);
    if (response.status === 404 && session?.id !== undefined) {
      await this.#renew(session);
      if (!SAFE.test(message.method)) throw interrupted(message.method);
      response = await this.#post(exchange, message);
    }
    if (!response.ok) throw await refusal(response, message.method);
    if (message.method === 'initialize') this.#begin(message, response);
    await this.#read(exchange, response, message);
  }

  /** Hands over what the response has, until the answer to the request is among it. */
  async #read(exchange: Exchange, response: Response, request: RpcRequest): Promise<void> {
    const take = async (message: JsonObject): Promise<boolean> => {
      const answers = isResponse(message) && message.id === request.id;
      if (answers && request === this.#session?.opening && isObject(message['result']))
        this.#session.result = message['result'];
      await this.#hand(message);
      return answers;
    };
    switch (mediaType(response)) {
      case 'application/json': {
        const answered = await Promise.all((await jsonMessages(response)).map(take));
        if (!answered.includes(true)) throw lost(request.method, 'its body is another message');
        return;
      }
      case 'text/event-stream':
        return follow(response, {
          take,
          reopen: (at) => this.#resume(exchange, request, at),
          signal: exchange.signal,
        });
      default:
        throw new DuolaneError(
          'malformed',
          `the tool server answered ${request.method} with ${mediaType(response) || 'no content type'}, which is no message: is ${this.#fetcher.url.href} its MCP endpoint?`,
        );
    }
  }

  async #resume(exchange: Exchange, request: RpcRequest, at: Break): Promise<Response | undefined> {
    if (at.lastEventId === '' || at.tries > RESUME_TRIES)
      throw lost(request.method, 'the connection broke');
    await sleep(at.waitMs, exchange.signal);
    const response = await this.#get(exchange, at.lastEventId);
    if (response?.ok === false && response.status < 500)
      throw lost(request.method, `the server does not resume it (HTTP ${response.status})`);
    return response?.ok ? response : undefined;
  }

  #begin(opening: RpcRequest, response: Response): void {
    const id = response.headers.get('mcp-session-id') ?? undefined;
    this.#session = { id, opening, result: {} };
  }

  /** The server has forgotten us: introduces us anew, once for all who notice. */
  async #renew(lost: Session): Promise<void> {
    if (!this.#renewing && this.#session !== lost) return;
    this.#renewing ??= this.#introduce(lost).finally(() => (this.#renewing = undefined));
    await this.#renewing;
  }

  async #introduce(lost: Session): Promise<void> {
    const { opening, result } = lost;
    using exchange = this.#fetcher.open();
    try {
      this.#session = undefined;
      const response = await this.#post(exchange, opening);
      if (!response.ok) throw await refusal(response, 'a new session');
      this.#begin(opening, response);
      // Nobody waits for this answer any more, so it settles nothing when it is handed over.
      await this.#read(exchange, response, opening);
    } catch (error) {
      this.#session = lost; // so that the next who comes tries again
      throw error;
    }
    await this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    await this.#changed(result);
  }

  async #changed({ capabilities }: JsonObject): Promise<void> {
    if (!isObject(capabilities)) return;
    for (const kind of ['tools', 'resources', 'prompts'])
      if (capabilities[kind] !== undefined)
        await this.#hand({ jsonrpc: '2.0', method: `notifications/${kind}/list_changed` });
  }

  /** Resolves when the stream stands, when there is none, or after a while. */
  async #listen(): Promise<void> {
    this.#listening?.abort(closed());
    const controller = new AbortController();
    this.#listening = controller;
    const exchange = this.#fetcher.open(controller.signal);
    const opened = this.#get(exchange);
    const listening = opened
      .then((response) => this.#hear(exchange, response))
      // The calls show what is wrong with the server; here there is only nothing to hear.
      .catch(() => {})
      .finally(() => exchange[Symbol.dispose]());
    void listening;
    await settledWithin(opened, STREAM_MS);
  }

  async #hear(exchange: Exchange, first: Response | undefined): Promise<void> {
    if (first && !isStream(first)) return;
    await follow(first, {
      take: async (message) => {
        await this.#hand(message);
        return false;
      },
      reopen: async ({ lastEventId, waitMs }) => {
        await sleep(waitMs, exchange.signal);
        const session = this.#session;
        const response = await this.#get(exchange, lastEventId);
        if (response?.status === 404 && session?.id !== undefined) await this.#renew(session);
        if (!response || response.status >= 500) return undefined;
        if (!isStream(response)) throw closed();
        await this.#changed(session?.result ?? {});
        return response;
      },
      signal: exchange.signal,
    });
  }

  async #leave(): Promise<void> {
    if (this.#session?.id === undefined) return;
    using exchange = this.#fetcher.open(AbortSignal.timeout(CLOSE_MS));
    await exchange.ask(this.#fetcher.url, { method: 'DELETE', headers: this.#headers() });
  }

  #post(exchange: Exchange, body: JsonObject): Promise<Response> {
    const headers = {
      ...this.#headers(),
      ...requestHeaders(body),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    return exchange.ask(this.#fetcher.url, { method: 'POST', headers, body });
  }

  /** Undefined if the server cannot be reached now. */
  async #get(exchange: Exchange, lastEventId = ''): Promise<Response | undefined> {
    const headers = {
      ...this.#headers(),
      accept: 'text/event-stream',
      'last-event-id': lastEventId || undefined,
    };
    try {
      return await exchange.ask(this.#fetcher.url, { method: 'GET', headers });
    } catch (error) {
      exchange.signal.throwIfAborted();
      return DuolaneError.from(error).code === 'network' ? undefined : Promise.reject(error);
    }
  }

  #headers(): Record<string, string | undefined> {
    const version = this.#session?.result['protocolVersion'];
    return {
      'mcp-session-id': this.#session?.id,
      'mcp-protocol-version': typeof version === 'string' ? version : undefined,
    };
  }

  async #hand(message: JsonObject): Promise<void> {
    await this.#incoming.push(message).catch(() => {}); // nobody reads any more: it is being closed
  }
}

const isStream = (response: Response): boolean =>
  response.ok && mediaType(response) === 'text/event-stream';

const closed = (): DuolaneError =>
  new DuolaneError('closed', 'the connection to the tool server was closed');

const lost = (method: string, why: string): DuolaneError =>
  new DuolaneError('response_lost', `the answer to ${method} is lost: ${why}`);

const interrupted = (method: string): DuolaneError =>
  new DuolaneError(
    'interrupted',
    `the tool server had forgotten the session, so ${method} was not made; a new session is open: try again`,
  );
