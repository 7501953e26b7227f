import { randomUUID } from 'node:crypto';
import type { Ask } from '../../../ask.ts';
import { DuolaneError } from '../../../errors.ts';
import { asObject, asString, isObject, type JsonObject } from '../../../json.ts';
import { settledWithin } from '../../../stream/abort.ts';
import { Cancellation } from '../../../stream/cancellation.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import { ReleasingMap } from '../../../stream/releasing-map.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import type { Abortable } from '../../../stream/types.ts';
import {
  isNotification,
  isRpcRequest,
  isResponse,
  RPC,
  rpcError,
  type RpcId,
  type RpcNotification,
  type RpcRequest,
  rpcResult,
} from '../../../wire/json-rpc.ts';
import { isWithheld, toRpcError } from '../../../wire/json-rpc-errors.ts';
import type {
  MessageEndpoint,
  OfferMessagesOptions,
  ReceiveOptions,
  ToolSource,
} from '../../types.ts';
import { CALLER } from '../../sources/caller-key.ts';
import { callerName } from '../../sources/caller-names.ts';
import { metaOf } from '../protocol-versions.ts';
import { type ClientState, type Methods, methodHandlers, type RequestContext } from './methods.ts';
import { Outbox } from '../../relay/outbox.ts';
import { RelayEndpoint } from '../../relay/relay-endpoint.ts';
import { RequestLoads } from '../../relay/request-loads.ts';
import { canTranslate, upstreamOf } from '../../relay/upstream.ts';
import { PendingRequests } from '../pending-requests.ts';
import { TokenSigner } from '../../sources/signed-token.ts';
import { ResourceWatch } from './resource-watch.ts';
import { SessionTasks, TASK_NOTIFICATION } from './task-methods.ts';
import {
  complete,
  isStateless,
  readClient,
  SESSION_ONLY,
  STATELESS_ONLY,
} from './stateless-requests.ts';

const PAGE_SIZE = 1_000;

/**
 * How long disposing waits for the requests that it cancelled; a tool of a registry takes at most a
 * second.
 */
const CLOSE_MS = 2_000;

/**
 * Serves a source as JSON-RPC for one connection: create one per session. The source is shared and
 * stays open. Any number of requests run at the same time; equal ids are harmless, since each
 * response belongs to its `receive`. Disposing aborts running requests and waits at most two
 * seconds for them: a source that ignores its signal is abandoned with a warning.
 */
export const offerMessages = (
  source: ToolSource,
  options: OfferMessagesOptions = {},
): MessageEndpoint => endpointOf(source, options, false);

/**
 * Serves a source to several clients whose requests arrive without a session. Each request then
 * needs `related` and `signal`.
 */
export const offerStateless = (
  source: ToolSource,
  options: OfferMessagesOptions,
): MessageEndpoint => endpointOf(source, options, true);

/**
 * Passes messages on unchanged if the source is a connection to one server. Answers of the
 * program's own and its own list pages are only possible with a translation.
 */
function endpointOf(
  source: ToolSource,
  options: OfferMessagesOptions,
  shared: boolean,
): MessageEndpoint {
  const { ask, pageSize, maxSubscriptions, onError } = options;
  const upstream = ask || pageSize !== undefined ? undefined : upstreamOf(source);
  const serve = (): MessageEndpoint => new MessageServer(source, options, shared);
  if (!upstream) return serve();
  const translate = canTranslate(source) ? serve : undefined;
  return new RelayEndpoint(upstream, { translate, shared, maxSubscriptions, onError });
}

const UNREADABLE = rpcError(
  null,
  RPC.invalidRequest,
  'invalid request: expected a method, a result or an error',
);

/** A running request; several may have the same id. */
class RunningRequest extends Cancellation {
  readonly id: RpcId;

  constructor(id: RpcId) {
    super();
    this.id = id;
  }
}

class MessageServer implements MessageEndpoint {
  readonly #id = randomUUID();
  readonly #source: ToolSource;
  readonly #shared: boolean;
  readonly #methods: Methods;
  readonly #ask: Ask | undefined;
  readonly #outbox = new Outbox();
  readonly #requests = new PendingRequests({ send: (message) => this.#sendRequest(message) });
  readonly #signer: TokenSigner;
  readonly #client: ClientState & { readonly watch: ResourceWatch; readonly tasks: SessionTasks };
  readonly #running = new ReleasingMap<number, RunningRequest>();
  #served = 0;
  readonly #loads: RequestLoads;
  readonly #onError: (error: unknown) => void;
  readonly #scope = new AbortController();
  #relaying: Promise<void> | undefined;
  #onIdle = (): void => {};

  constructor(source: ToolSource, options: OfferMessagesOptions, shared: boolean) {
    const { ask, pageSize = PAGE_SIZE, secret, maxSubscriptions } = options;
    this.#loads = new RequestLoads(maxSubscriptions);
    this.#onError = options.onError ?? reportUnexpected;
    this.#source = source;
    this.#shared = shared;
    this.#ask = ask;
    this.#signer = new TokenSigner(secret);
    this.#methods = methodHandlers(source, pageSize, this.#signer);
    const watch = new ResourceWatch(source, (uri) =>
      this.#notifyAll('notifications/resources/updated', { uri }),
    );
    const tasks = new SessionTasks(source, (task) => this.#notifyAll(TASK_NOTIFICATION, task));
    this.#client = { stateless: false, capabilities: {}, logLevel: 'debug', watch, tasks };
  }

  get outgoing(): AsyncIterable<JsonObject> {
    return this.#outbox;
  }

  /** Handles any JSON value: a peer may send what is not a message. Never throws. */
  receive(message: JsonObject, options: ReceiveOptions = {}): Promise<JsonObject | undefined> {
    if (!isObject(message)) return Promise.resolve(UNREADABLE);
    if (isRpcRequest(message)) return this.#serve(message, options);
    // Several clients use equal ids, so a message that names one could concern the request of
    // another client. Without a session none is needed: closing a stream cancels its request.
    const isIgnored = this.#shared && (isResponse(message) || isNotification(message));
    if (isIgnored) return Promise.resolve(undefined);
    if (isResponse(message)) this.#requests.settle(message);
    else if (isNotification(message)) this.#take(message);
    else if (!this.#requests.refuse(message)) return Promise.resolve(UNREADABLE);
    return Promise.resolve(undefined);
  }

  readonly request: MessageEndpoint['request'] = (method, params, options) =>
    this.#requests.send(method, params, options);

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'the tool server is closed');
    this.#scope.abort(closed);
    this.#requests.fail(closed);
    for (const running of this.#running.values()) running.abort(closed);
    this.#outbox.close();
    const idle = this.#running.size > 0 && new Promise<void>((resolve) => (this.#onIdle = resolve));
    const watching = [this.#client.watch, this.#client.tasks].map((each) =>
      each[Symbol.asyncDispose](),
    );
    await this.#atMost(Promise.all([idle, this.#relaying, ...watching]));
    await this.#atMost(Promise.resolve(this.#methods[Symbol.asyncDispose]()));
  }

  /**
   * Waits for the end of cancelled work. A source that ignores its cancellation must not keep the
   * server from closing.
   */
  async #atMost(closing: Promise<unknown>): Promise<void> {
    if (await settledWithin(closing, CLOSE_MS)) await closing;
    else
      this.#onError(
        new DuolaneError(
          'timeout',
          `closing timed out after ${CLOSE_MS} ms: tool source "${this.#source.info.name}" ignores its cancellation and is abandoned`,
        ),
      );
  }

  async #serve(message: RpcRequest, options: ReceiveOptions): Promise<JsonObject | undefined> {
    const { id, method, params = {} } = message;
    if (this.#scope.signal.aborted) return toRpcError(id, this.#scope.signal.reason);
    const stateless = isStateless(method, params);
    const handler = (stateless ? SESSION_ONLY : STATELESS_ONLY).has(method)
      ? undefined
      : this.#methods.table.get(method);
    if (!stateless) this.#listen();
    if (!handler) return rpcError(id, RPC.methodNotFound, `unknown method "${method}"`);
    if (!isObject(params))
      return rpcError(id, RPC.invalidParams, 'invalid params: expected an object');
    const { owner } = options;
    const load = this.#loads.take(owner, method);
    if (load instanceof DuolaneError) return toRpcError(id, load);
    const running = new RunningRequest(id);
    const number = ++this.#served;
    this.#running.set(number, running);
    const unfollow = running.follow(options);
    try {
      // Not every source checks a signal that aborted before the call.
      if (running.aborted) return undefined;
      const client = stateless ? readClient(params) : this.#client;
      const named = callerName(metaOf(params)[CALLER]);
      // In a session, the caller is the client, or the one of its own clients that it names.
      const caller = stateless ? this.#sender(named, owner, number) : `${this.#id}/${named ?? ''}`;
      const context = this.#context(running, client, caller, options);
      const result = await handler(params, context);
      if (context.spoke) await this.#outbox.flushed();
      if (running.aborted) return undefined;
      return rpcResult(id, stateless ? complete(method, result, this.#source.info) : result);
    } catch (error) {
      if (running.aborted) return undefined;
      if (isWithheld(error)) this.#onError(error);
      return toRpcError(id, error);
    } finally {
      unfollow();
      this.#running.take(number);
      load[Symbol.dispose]();
      if (this.#running.size === 0) this.#onIdle();
    }
  }

  /**
   * The caller of a stateless request. Without a session and a login, nothing shows that two
   * requests have the same client, so each gets its own name. A caller name in the request counts:
   * it cannot be guessed, and servers do not pass it on. No such name is one of ours.
   */
  #sender(named: string | undefined, owner: string | undefined, number: number): string {
    const own = owner === undefined ? `#${number}` : '';
    const name = named === undefined ? own : `=${named}`;
    return `${this.#id}/${JSON.stringify(owner ?? null)}/${name}`;
  }

  #context(
    running: RunningRequest,
    client: ClientState,
    caller: string,
    { related, owner }: ReceiveOptions,
  ): RequestContext & { spoke: boolean } {
    const context = {
      id: running.id,
      cancellation: running,
      client,
      ask: this.#ask,
      signer: this.#signer,
      owner,
      caller,
      // A request that sent no message need not wait until messages of others are written.
      spoke: false,
      notify: async (method: string, params: JsonObject): Promise<void> => {
        const message = { jsonrpc: '2.0', method, params };
        if (related) return related(message);
        context.spoke = true;
        await this.#outbox.push(message);
      },
      log: async (entry: { readonly level: string; readonly data: unknown }): Promise<void> => {
        if (client.logLevel !== undefined && rank(entry.level) >= rank(client.logLevel))
          await context.notify('notifications/message', entry);
      },
      request: related
        ? (method: string, params?: JsonObject, options?: Abortable) =>
            this.#requests.send(method, params, { ...options, via: related })
        : this.request,
    };
    return context;
  }

  #take({ method, params }: RpcNotification): void {
    if (method === 'notifications/initialized') this.#listen();
    if (method !== 'notifications/cancelled') return;
    const { requestId, reason } = asObject(params);
    const error = new DuolaneError(
      'canceled',
      `the client cancelled the request: ${asString(reason, 'no reason given')}`,
    );
    for (const running of this.#running.values())
      if (running.id === requestId) running.abort(error);
  }

  async #sendRequest(message: JsonObject): Promise<void> {
    if (!this.#outbox.offer(message))
      throw new DuolaneError(
        'closed',
        'cannot send a request to the client: nothing reads the outgoing messages',
      );
  }

  #listen(): void {
    if (this.#relaying || this.#scope.signal.aborted) return;
    // The calls report the end of a source; here it only means that there are no more changes.
    this.#relaying = this.#relay(this.#scope.signal).catch(() => {});
  }

  async #relay(signal: AbortSignal): Promise<void> {
    for await (const { type } of this.#source.listen?.({ signal }) ?? [])
      if (type !== 'listening' && type !== 'resource')
        await this.#notifyAll(`notifications/${type}/list_changed`);
  }

  async #notifyAll(method: string, params?: JsonObject): Promise<void> {
    await this.#outbox.push({ jsonrpc: '2.0', method, ...(params && { params }) });
  }
}

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** The rank of a level. An unknown level ranks highest, so that it is shown rather than hidden. */
const rank = (level: string): number => {
  const index = LEVELS.indexOf(level);
  return index < 0 ? LEVELS.length : index;
};
