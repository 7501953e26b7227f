import type { LightResponse } from '../../../../http/light-fetch.ts';
import { DuolaneError, malformed } from '../../../../errors.ts';
import { asArray, asObject, isObject, type JsonObject } from '../../../../json.ts';
import { settledWithin, sleep } from '../../../../stream/abort.ts';
import { Channel } from '../../../../stream/channel.ts';
import {
  isRpcRequest,
  isResponse,
  type RpcId,
  type RpcRequest,
} from '../../../../wire/json-rpc.ts';
import type { MessageTransport, MessageSendOptions } from '../../../types.ts';
import { VERSION_ERRORS, rpcCodeOf } from '../../protocol-versions.ts';
import { answerIn, jsonMessages, mediaType } from '../message-body.ts';
import {
  type Authorizer,
  type Exchange,
  HttpConnection,
  type HttpOptions,
} from './http-exchange.ts';
import { type Break, followEvents } from './follow-events.ts';
import { requestHeaders } from '../routing-headers.ts';
import { ParamHeaders } from '../param-headers.ts';
import {
  bodyError,
  httpError,
  lostResponse,
  lostSession,
  notDelivered,
  readErrorBody,
  SAFE,
} from './http-errors.ts';

/**
 * How long the delivery of a notification may take: a cancellation must not wait for an
 * unresponsive server.
 */
const NOTIFY_MS = 5_000;
/** How long `initialized` waits until the stream of the server's own messages is open. */
const STREAM_MS = 1_000;
const CLOSE_MS = 1_000;
/** How many list pages are searched for a tool whose parameter headers are unknown. */
const LEARN_PAGES = 100;
const RESUME_TRIES = 5;

interface Session {
  readonly id: string | undefined;
  readonly opening: RpcRequest;
  result: JsonObject;
}

/**
 * The client side of Streamable HTTP. Every message is a POST; a response arrives as JSON or as a
 * stream, which is resumed by `Last-Event-ID` when it breaks. In a session, the stream of the
 * server's own messages is opened before `initialized` is sent, so that no message at the start is
 * lost. When that stream had to be reopened, or the server had lost the session, the lists count as
 * changed.
 */
export class HttpTransport implements MessageTransport {
  readonly mayWait: boolean;
  readonly #connection: HttpConnection;
  readonly #incoming = new Channel<JsonObject>({ capacity: 64 });
  readonly #params = new ParamHeaders();
  /** The resources that the session has subscribed. */
  readonly #watched = new Set<string>();
  readonly #origins = new WeakMap<JsonObject, RpcId>();
  #session: Session | undefined;
  #renewing: Promise<void> | undefined;
  #listening: AbortController | undefined;
  #stateless = false;

  constructor(options: HttpOptions, authorizer?: Authorizer) {
    this.mayWait = authorizer !== undefined;
    this.#connection = new HttpConnection(options, authorizer);
  }

  get incoming(): AsyncIterable<JsonObject> {
    return this.#incoming;
  }

  get isLoggingIn(): boolean {
    return this.#connection.isLoggingIn;
  }

  get cancelsByClosing(): boolean {
    return this.#stateless;
  }

  requestOf(message: JsonObject): RpcId | undefined {
    return this.#origins.get(message);
  }

  async send(message: JsonObject, options: MessageSendOptions = {}): Promise<void> {
    if (isRpcRequest(message)) return this.#request(message, options);
    if (message['method'] === 'notifications/initialized') await this.#listen();
    await this.#notify(message);
  }

  async close(): Promise<void> {
    if (this.#incoming.ended) return;
    this.#incoming.close();
    this.#listening?.abort(closed());
    // a server that cannot be reached ends the session by its own timeout
    await this.#endSession().catch(() => {});
    this.#connection.close(closed());
  }

  async #notify(message: JsonObject): Promise<void> {
    using exchange = this.#connection.open(AbortSignal.timeout(NOTIFY_MS));
    const response = await this.#post(exchange, message).catch(notDelivered(NOTIFY_MS));
    if (!response.ok) throw await httpError(response, 'a message');
    await readErrorBody(response);
  }

  async #request(message: RpcRequest, { signal, onMessage }: MessageSendOptions): Promise<void> {
    await this.#renewing?.catch(() => {}); // the caller that started the renewal gets its error
    const session = this.#session;
    this.#stateless = requestHeaders(message)['mcp-protocol-version'] !== undefined;
    const exchange = this.#connection.open(signal);
    let streamed = false;
    try {
      streamed = await this.#exchange(exchange, message, session, onMessage);
    } finally {
      if (streamed) exchange.finish();
      else exchange[Symbol.dispose]();
    }
  }

  /**
   * Sends a request and reads its response. Returns whether it arrived on a stream, which may not
   * have ended.
   */
  async #exchange(
    exchange: Exchange,
    message: RpcRequest,
    session: Session | undefined,
    onMessage: MessageSendOptions['onMessage'],
  ): Promise<boolean> {
    let response = await this.#post(exchange, message);
    if (response.status === 404 && session?.id !== undefined) {
      await this.#renew(session);
      if (!SAFE.test(message.method)) throw lostSession(message.method);
      response = await this.#post(exchange, message);
    }
    if (!response.ok) {
      const refused = await httpError(response, message.method);
      if (!(await this.#learnHeaders(exchange, message, refused))) throw refused;
      response = await this.#post(exchange, message);
      if (!response.ok) throw await httpError(response, message.method);
    }
    if (message.method === 'initialize') this.#begin(message, response);
    await this.#read(exchange, response, message, onMessage);
    const { method, params } = message;
    if (method === 'resources/subscribe') this.#watched.add(String(params?.['uri']));
    if (method === 'resources/unsubscribe') this.#watched.delete(String(params?.['uri']));
    return isStream(response);
  }

  /** Delivers the messages of a response, up to the response to the request. */
  async #read(
    exchange: Exchange,
    response: LightResponse,
    request: RpcRequest,
    onMessage: MessageSendOptions['onMessage'] = (message) => this.#deliver(message),
  ): Promise<void> {
    const take = async (message: JsonObject): Promise<boolean> => {
      const answers = isResponse(message) && message.id === request.id;
      if (answers && request === this.#session?.opening && isObject(message['result']))
        this.#session.result = message['result'];
      if (!answers) this.#origins.set(message, request.id);
      const listed = answers && this.#stateless && request.method === 'tools/list';
      await onMessage(listed ? this.#admit(message) : message);
      return answers;
    };
    switch (mediaType(response)) {
      case 'application/json': {
        const messages = await jsonMessages(response).catch((error: unknown) => {
          throw bodyError(error, request.method, exchange.signal);
        });
        const answered = await Promise.all(messages.map(take));
        if (!answered.includes(true))
          throw lostResponse(request.method, 'the body has another message');
        return;
      }
      case 'text/event-stream':
        return followEvents(response, {
          take,
          reopen: (at) => this.#resume(exchange, request, at),
          signal: exchange.signal,
        });
      default:
        throw malformed(
          `the tool server sent ${mediaType(response) || 'no content type'} in response to ${request.method}: expected JSON or an event stream; check its address at ${this.#connection.url.origin}`,
        );
    }
  }

  /**
   * Looks for the parameter headers that a call lacked: its tool had not been listed here. Returns
   * whether they are known now.
   */
  async #learnHeaders(
    exchange: Exchange,
    call: RpcRequest,
    refused: DuolaneError,
  ): Promise<boolean> {
    if (call.method !== 'tools/call' || rpcCodeOf(refused) !== VERSION_ERRORS.headerMismatch)
      return false;
    const { name, arguments: args, _meta } = call.params ?? {};
    let cursor: unknown;
    for (let page = 0; page < LEARN_PAGES && cursor !== null; page += 1) {
      const id = `learn-${page}`;
      const params = { _meta, ...(typeof cursor === 'string' && { cursor }) };
      const asked = { jsonrpc: '2.0', id, method: 'tools/list', params };
      const { result } = await answerIn(await this.#post(exchange, asked), id);
      const { tools, nextCursor } = asObject(result);
      this.#params.admit(asArray(tools));
      if (Object.keys(this.#params.of(name, args)).length > 0) return true;
      cursor = typeof nextCursor === 'string' ? nextCursor : null;
    }
    return false;
  }

  /**
   * Removes tools with invalid header declarations from a list: they cannot be called over HTTP.
   */
  #admit(message: JsonObject): JsonObject {
    const { result } = message;
    if (!isObject(result) || !Array.isArray(result['tools'])) return message;
    const tools = this.#params.admit(result['tools'], (name, why) =>
      process.emitWarning(
        `tool "${name}" of ${this.#connection.url.origin} is omitted: ${why}`,
        'Duolane',
      ),
    );
    return { ...message, result: { ...result, tools } };
  }

  /**
   * Reopens the stream of a response that broke. Throws `response_lost` if that is not possible.
   */
  async #resume(
    exchange: Exchange,
    request: RpcRequest,
    at: Break,
  ): Promise<LightResponse | undefined> {
    if (at.lastEventId === '' || at.tries > RESUME_TRIES)
      throw lostResponse(request.method, 'the connection broke');
    await sleep(at.waitMs, exchange.signal);
    const response = await this.#get(exchange, at.lastEventId);
    if (response?.ok === false && response.status < 500)
      throw lostResponse(
        request.method,
        `the server does not resume the stream (HTTP ${response.status})`,
      );
    return response?.ok ? response : undefined;
  }

  #begin(opening: RpcRequest, { headers }: LightResponse): void {
    this.#session = { id: headers.get('mcp-session-id') ?? undefined, opening, result: {} };
  }

  /** Opens a new session after the server lost the old one, once for all callers that notice it. */
  async #renew(lost: Session): Promise<void> {
    if (!this.#renewing && this.#session !== lost) return;
    this.#renewing ??= this.#reopenSession(lost).finally(() => (this.#renewing = undefined));
    await this.#renewing;
  }

  async #reopenSession(lost: Session): Promise<void> {
    const { opening, result } = lost;
    using exchange = this.#connection.open();
    try {
      this.#session = undefined;
      const response = await this.#post(exchange, opening);
      if (!response.ok) throw await httpError(response, 'a new session');
      this.#begin(opening, response);
      // No request waits for this response, so delivering it settles nothing.
      await this.#read(exchange, response, opening);
    } catch (error) {
      this.#session = lost; // so that the next request tries again
      throw error;
    }
    await this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    await this.#changed(result);
    await this.#watchAgain(exchange);
  }

  /** Subscribes the resources again in a new session. */
  async #watchAgain(exchange: Exchange): Promise<void> {
    for (const uri of this.#watched) {
      const [id, params] = [`again-${uri}`, { uri }];
      const asked = { jsonrpc: '2.0', id, method: 'resources/subscribe', params };
      const response = await this.#post(exchange, asked);
      if (response.ok) await answerIn(response, id);
      await this.#deliver({ jsonrpc: '2.0', method: 'notifications/resources/updated', params });
    }
  }

  /** Reports a change of every list, because changes may have been missed. */
  async #changed({ capabilities }: JsonObject): Promise<void> {
    if (!isObject(capabilities)) return;
    for (const kind of ['tools', 'resources', 'prompts'])
      if (capabilities[kind] !== undefined)
        await this.#deliver({ jsonrpc: '2.0', method: `notifications/${kind}/list_changed` });
  }

  /**
   * Opens the stream of the server's own messages. Resolves when it is open, when the server has
   * none, or after a timeout.
   */
  async #listen(): Promise<void> {
    this.#listening?.abort(closed());
    const controller = new AbortController();
    this.#listening = controller;
    const exchange = this.#connection.open(controller.signal);
    const opened = this.#get(exchange);
    opened
      .then((response) => this.#readOwnStream(exchange, response))
      .finally(() => exchange[Symbol.dispose]())
      // The calls report what is wrong with the server; without this stream there are no changes.
      .catch(() => {});
    await settledWithin(opened, STREAM_MS);
  }

  async #readOwnStream(exchange: Exchange, first: LightResponse | undefined): Promise<void> {
    if (first && !isStream(first)) return;
    await followEvents(first, {
      take: async (message) => {
        await this.#deliver(message);
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

  async #endSession(): Promise<void> {
    if (this.#session?.id === undefined) return;
    using exchange = this.#connection.open(AbortSignal.timeout(CLOSE_MS));
    await exchange.ask(this.#connection.url, { method: 'DELETE', headers: this.#headers() });
  }

  #post(exchange: Exchange, body: JsonObject): Promise<LightResponse> {
    const headers = {
      ...this.#headers(),
      ...requestHeaders(body),
      ...(this.#stateless && paramsOf(body, this.#params)),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    return exchange.ask(this.#connection.url, { method: 'POST', headers, body });
  }

  /** Returns `undefined` if the server cannot be reached now. */
  async #get(exchange: Exchange, lastEventId = ''): Promise<LightResponse | undefined> {
    const headers = {
      ...this.#headers(),
      accept: 'text/event-stream',
      'last-event-id': lastEventId || undefined,
    };
    try {
      return await exchange.ask(this.#connection.url, { method: 'GET', headers });
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

  async #deliver(message: JsonObject): Promise<void> {
    // the reader has gone, because the transport is closing
    await this.#incoming.push(message).catch(() => {});
  }
}

const paramsOf = ({ method, params }: JsonObject, known: ParamHeaders): Record<string, string> =>
  method === 'tools/call' && isObject(params) ? known.of(params['name'], params['arguments']) : {};

const isStream = (response: LightResponse): boolean =>
  response.ok && mediaType(response) === 'text/event-stream';

const closed = (): DuolaneError =>
  new DuolaneError('closed', 'the connection to the tool server is closed');
