import { randomUUID } from 'node:crypto';
import type { Ask } from '../../../ask.ts';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
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
import { toRpcError } from '../../../wire/json-rpc-errors.ts';
import type {
  MessageEndpoint,
  OfferMessagesOptions,
  ReceiveOptions,
  SourceChange,
  ToolSource,
} from '../../types.ts';
import { CALLER, callerName } from '../../caller.ts';
import { metaOf } from '../protocol-versions.ts';
import { type ClientState, type Methods, methodHandlers, type RequestContext } from './methods.ts';
import { Outbox } from './outbox.ts';
import { PendingRequests } from '../pending-requests.ts';
import { TokenSigner } from './signed-token.ts';
import { ResourceWatch } from './resource-watch.ts';
import {
  complete,
  isStateless,
  readClient,
  SESSION_ONLY,
  STATELESS_ONLY,
} from './stateless-requests.ts';

const PAGE_SIZE = 1_000;

/** Requests of one endpoint and owner at the same time; more are refused, not queued. */
const MAX_RUNNING = 1_024;
/** The same for `subscriptions/listen`, which stays open and does nothing most of the time. */
const MAX_SUBSCRIPTIONS = 10_000;
/** How long disposing waits for what it has cancelled; a tool of a registry takes a second at most. */
const CLOSE_MS = 2_000;
const LISTEN = 'subscriptions/listen';

/**
 * The JSON-RPC face of a source, for one connection: make one per session. The source is shared
 * and not closed. Any number of requests run at once; equal ids are safe, since each answer
 * belongs to its `receive`. Disposing aborts what runs and waits for
 * it, at most two seconds: a source that ignores its signal is left behind with a warning.
 */
export function offerMessages(
  source: ToolSource,
  options: OfferMessagesOptions = {},
): MessageEndpoint {
  return new Offer(source, options);
}

const UNREADABLE = rpcError(
  null,
  RPC.invalidRequest,
  'Invalid request: no method, result or error',
);

/** A request that is being served; several may have one id. */
class Running extends Cancellation {
  readonly id: RpcId;
  /** Whether it only waits for changes; these are counted apart from the other requests. */
  readonly subscription: boolean;
  /** Whose limits it counts for: requests without a session share one endpoint, whoever sends them. */
  readonly load: Load;

  constructor(id: RpcId, subscription: boolean, load: Load) {
    super();
    this.id = id;
    this.subscription = subscription;
    this.load = load;
  }
}

/** What one owner has under way. */
interface Load {
  requests: number;
  subscriptions: number;
}

class Offer implements MessageEndpoint {
  readonly #id = randomUUID();
  readonly #source: ToolSource;
  readonly #methods: Methods;
  readonly #ask: Ask | undefined;
  readonly #outbox = new Outbox();
  readonly #requests = new PendingRequests({ send: (message) => this.#sendRequest(message) });
  readonly #seal: TokenSigner;
  readonly #client: ClientState & { readonly watch: ResourceWatch };
  readonly #running = new ReleasingMap<number, Running>();
  #served = 0;
  readonly #loads = new Map<string | undefined, Load>();
  readonly #maxSubscriptions: number;
  readonly #onError: (error: unknown) => void;
  readonly #scope = new AbortController();
  #relaying: Promise<void> | undefined;
  #onIdle = (): void => {};

  constructor(source: ToolSource, options: OfferMessagesOptions) {
    const { ask, pageSize = PAGE_SIZE, secret, maxSubscriptions = MAX_SUBSCRIPTIONS } = options;
    this.#maxSubscriptions = maxSubscriptions;
    this.#onError = options.onError ?? reportUnexpected;
    this.#source = source;
    this.#ask = ask;
    this.#seal = new TokenSigner(secret);
    this.#methods = methodHandlers(source, pageSize, this.#seal);
    const watch = new ResourceWatch(source, (uri) =>
      this.#notifyAll('notifications/resources/updated', { uri }),
    );
    this.#client = { stateless: false, capabilities: {}, logLevel: 'debug', watch };
  }

  get outgoing(): AsyncIterable<JsonObject> {
    return this.#outbox;
  }

  /** Takes any JSON value: a peer may send what is not a message. Never throws. */
  receive(message: JsonObject, options: ReceiveOptions = {}): Promise<JsonObject | undefined> {
    if (!isObject(message)) return Promise.resolve(UNREADABLE);
    if (isRpcRequest(message)) return this.#serve(message, options);
    if (isResponse(message)) this.#requests.settle(message);
    else if (isNotification(message)) this.#take(message);
    else if (this.#requests.refuse(message)) return Promise.resolve(undefined);
    else return Promise.resolve(UNREADABLE);
    return Promise.resolve(undefined);
  }

  readonly request: MessageEndpoint['request'] = (method, params, options) =>
    this.#requests.send(method, params, options);

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'this end of the tool server is closed');
    this.#scope.abort(closed);
    this.#requests.fail(closed);
    for (const running of this.#running.values()) running.abort(closed);
    this.#outbox.close();
    const idle = this.#running.size > 0 && new Promise<void>((resolve) => (this.#onIdle = resolve));
    const watching = this.#client.watch[Symbol.asyncDispose]();
    await this.#atMost(Promise.all([idle, this.#relaying, watching]));
    await this.#atMost(Promise.resolve(this.#methods[Symbol.asyncDispose]()));
  }

  /** A source that ignores its cancel is left behind: it must not keep the server from closing. */
  async #atMost(closing: Promise<unknown>): Promise<void> {
    if (await settledWithin(closing, CLOSE_MS)) await closing;
    else
      this.#onError(
        new DuolaneError(
          'timeout',
          `the tool source ${this.#source.info.name} went on for ${CLOSE_MS} ms after its cancel and is left behind`,
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
    if (!handler) return rpcError(id, RPC.methodNotFound, `Unknown method: ${method}`);
    if (!isObject(params)) return rpcError(id, RPC.invalidParams, 'Invalid params: not an object');
    const { owner } = options;
    const load = this.#loads.get(owner) ?? { requests: 0, subscriptions: 0 };
    const running = new Running(id, method === LISTEN, load);
    const full = this.#fullFor(running);
    if (full) return toRpcError(id, full);
    this.#loads.set(owner, load);
    const number = ++this.#served;
    this.#running.set(number, running);
    load[running.subscription ? 'subscriptions' : 'requests'] += 1;
    const unfollow = running.follow(options);
    try {
      // Not every source looks at a signal that has aborted before it was given.
      if (running.aborted) return undefined;
      const client = stateless ? readClient(params) : this.#client;
      const named = callerName(metaOf(params)[CALLER]);
      const caller = stateless ? this.#sender(named, owner, number) : this.#inSession(named);
      const context = this.#context(running, client, caller, options);
      const result = await handler(params, context);
      if (context.spoke) await this.#outbox.flushed();
      if (running.aborted) return undefined;
      return rpcResult(id, stateless ? complete(method, result, this.#source.info) : result);
    } catch (error) {
      if (running.aborted) return undefined;
      const answer = toRpcError(id, error);
      if (answer.error.code === RPC.internalError && isInternal(error)) this.#onError(error);
      return answer;
    } finally {
      unfollow();
      this.#running.take(number);
      load[running.subscription ? 'subscriptions' : 'requests'] -= 1;
      if (load.requests + load.subscriptions === 0) this.#loads.delete(owner);
      if (this.#running.size === 0) this.#onIdle();
    }
  }

  /** The client of this connection, or the one of its own clients that it names. */
  #inSession(named: string | undefined): string {
    return `${this.#id}/${named ?? ''}`;
  }

  /**
   * Without a session and a login nothing says that two requests have one client. A name does: it
   * cannot be guessed, and servers do not pass it on.
   */
  #sender(named: string | undefined, owner: string | undefined, number: number): string {
    const name = owner === undefined ? (named ?? `#${number}`) : (named ?? '');
    return `${this.#id}/${JSON.stringify(owner ?? null)}/${name}`;
  }

  #fullFor({ subscription, load }: Running): DuolaneError | undefined {
    if (subscription)
      return load.subscriptions < this.#maxSubscriptions
        ? undefined
        : new DuolaneError(
            'overloaded',
            `too many subscriptions: the limit maxSubscriptions is ${this.#maxSubscriptions}; try again later`,
          );
    return load.requests < MAX_RUNNING
      ? undefined
      : new DuolaneError('overloaded', 'Too many requests at once; try later');
  }

  #context(
    running: Running,
    client: ClientState,
    caller: string,
    { related, owner }: ReceiveOptions,
  ): RequestContext & { spoke: boolean } {
    const context = {
      id: running.id,
      cancellation: running,
      client,
      ask: this.#ask,
      seal: this.#seal,
      owner,
      caller,
      // A quiet request owes its answer nothing, so it does not wait for others' messages.
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
    const { requestId, reason }: JsonObject = isObject(params) ? params : {};
    const error = new DuolaneError(
      'canceled',
      `the client cancelled: ${typeof reason === 'string' ? reason : 'no reason given'}`,
    );
    for (const running of this.#running.values())
      if (running.id === requestId) running.abort(error);
  }

  async #sendRequest(message: JsonObject): Promise<void> {
    if (!this.#outbox.offer(message))
      throw new DuolaneError('closed', 'nobody reads what the server sends');
  }

  #listen(): void {
    if (this.#relaying || this.#scope.signal.aborted) return;
    // The end of a source shows in its calls; here there is only nothing more to tell.
    this.#relaying = this.#relay(this.#scope.signal).catch(() => {});
  }

  async #relay(signal: AbortSignal): Promise<void> {
    const changes: AsyncIterable<SourceChange> | undefined = this.#source.listen?.({ signal });
    if (!changes) return;
    for await (const { type } of changes)
      if (type !== 'listening' && type !== 'resource')
        await this.#notifyAll(`notifications/${type}/list_changed`);
  }

  async #notifyAll(method: string, params?: JsonObject): Promise<void> {
    await this.#outbox.push({ jsonrpc: '2.0', method, ...(params && { params }) });
  }
}

/** Whether an error was kept from the client. */
const isInternal = (error: unknown): boolean => DuolaneError.from(error).code === 'internal';

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** An unknown level is shown rather than hidden. */
const rank = (level: string): number => {
  const place = LEVELS.indexOf(level);
  return place < 0 ? LEVELS.length : place;
};
