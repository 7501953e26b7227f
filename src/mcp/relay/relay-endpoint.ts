import { DuolaneError, unsupported } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import {
  isNotification,
  isResponse,
  isRpcRequest,
  RPC,
  rpcError,
  type RpcId,
  type RpcRequest,
} from '../../wire/json-rpc.ts';
import { isWithheld, toRpcError } from '../../wire/json-rpc-errors.ts';
import { PendingRequests } from '../json-rpc/pending-requests.ts';
import { META, metaOf } from '../json-rpc/protocol-versions.ts';
import type { MessageEndpoint, ReceiveOptions } from '../types.ts';
import { Outbox } from './outbox.ts';
import { RelayConnection } from './relay-connection.ts';
import { RequestLoads } from './request-loads.ts';
import { sendOutgoing } from './serve-endpoint.ts';
import type { ExchangeOptions, Upstream } from './upstream.ts';

/** The wait before a lost connection is opened again; doubled with every failure. */
const REOPEN_MS = 1_000;
const MAX_REOPEN_MS = 30_000;
/** A connection that lived this long was not a failure. */
const STABLE_MS = 10_000;

/** How an endpoint handles what it cannot pass on. */
export interface RelayOptions {
  /**
   * Creates the endpoint that translates for clients of another kind of protocol than the server
   * supports. Without it such a client gets the error of the server.
   */
  readonly translate?: (() => MessageEndpoint) | undefined;
  /**
   * Whether several clients share this endpoint, as without sessions. Then only single requests are
   * passed on, each on a stream of its own.
   */
  readonly shared?: boolean;
  readonly maxSubscriptions?: number | undefined;
  /** Receives errors whose text the client does not get, and lost connections. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

const CANCELLED = 'notifications/cancelled';

/** Whether a `subscriptions/listen` request names tasks. */
const watchesTasks = (params: JsonObject | undefined): boolean =>
  asObject(params?.['notifications'])['taskIds'] !== undefined;

const UNREADABLE = rpcError(
  null,
  RPC.invalidRequest,
  'invalid request: expected a method, a result or an error',
);

/** What `initialize` agreed on, to open the same connection again. */
interface Opening {
  readonly message: RpcRequest;
  /** The lists that the server has. */
  readonly kinds: readonly string[];
}

const LISTS = ['tools', 'resources', 'prompts'];

/** A longer `initialize` is not kept, so that a client cannot fill the memory with it. */
const MAX_OPENING_CHARS = 65_536;

/**
 * Passes the messages of one client on to its own connection to the server, unchanged. The first
 * request of the session protocol opens that connection. Requests of the stateless protocol are
 * passed on one by one.
 */
export class RelayEndpoint implements MessageEndpoint {
  readonly #upstream: Upstream;
  readonly #options: RelayOptions;
  readonly #onError: (error: unknown) => void;
  readonly #outbox = new Outbox();
  readonly #loads: RequestLoads;
  /** Our own requests to the client; the ids of the server's requests are not ours. */
  readonly #requests = new PendingRequests({ send: (message) => this.#push(message) }, 'duolane-');
  readonly #scope = new AbortController();
  /** The stateless requests that run, by id; several may have the same one. */
  readonly #exchanges = new Map<RpcId, Set<Cancellation>>();
  #connection: Promise<RelayConnection> | undefined;
  #opening: Opening | undefined;
  /** Whether `initialize` has succeeded. */
  #isOpen = false;
  #translator: MessageEndpoint | undefined;
  #translating: Promise<void> | undefined;
  #openedAt = 0;
  #failures = 0;
  #opened = 0;

  constructor(upstream: Upstream, options: RelayOptions = {}) {
    this.#upstream = upstream;
    this.#options = options;
    this.#onError = options.onError ?? reportUnexpected;
    this.#loads = new RequestLoads(options.maxSubscriptions);
  }

  get outgoing(): AsyncIterable<JsonObject> {
    return this.#outbox;
  }

  readonly request: MessageEndpoint['request'] = (method, params, options) =>
    this.#requests.send(method, params, options);

  /** Handles any JSON value: a peer may send what is not a message. Never throws. */
  async receive(
    message: JsonObject,
    options: ReceiveOptions = {},
  ): Promise<JsonObject | undefined> {
    if (!isObject(message)) return UNREADABLE;
    if (this.#translator) return this.#translate(message, options);
    if (isRpcRequest(message)) return this.#serve(message, options);
    if (isResponse(message) && this.#requests.settle(message)) return undefined;
    if (!isResponse(message) && !isNotification(message)) return UNREADABLE;
    await this.#pass(message);
    return undefined;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    const closed = new DuolaneError('closed', 'the tool server is closed');
    this.#scope.abort(closed);
    this.#requests.fail(closed);
    this.#outbox.close();
    for (const running of this.#exchanges.values()) for (const each of running) each.abort(closed);
    const connection = await this.#connection?.catch(() => undefined); // it was never open
    await connection?.[Symbol.asyncDispose]();
    await this.#translator?.[Symbol.asyncDispose]();
    await this.#translating;
  });

  async #serve(message: RpcRequest, options: ReceiveOptions): Promise<JsonObject | undefined> {
    const { id, method, params } = message;
    if (this.#scope.signal.aborted) return toRpcError(id, this.#scope.signal.reason);
    const stateless = metaOf(params)[META.version] !== undefined || method === 'server/discover';
    const hasOwner = options.owner !== undefined;
    if (!this.#canRelay(stateless, method, hasOwner)) return this.#translate(message, options);
    // The server knows only the bridge, so it would give the tasks of one owner to another.
    if (hasOwner && (method.startsWith('tasks/') || watchesTasks(params)))
      return toRpcError(id, unsupported('tasks of callers with an owner cannot be relayed'));
    const load = this.#loads.take(options.owner, method);
    if (load instanceof DuolaneError) return toRpcError(id, load);
    try {
      const hasExchange = this.#upstream.exchange !== undefined;
      const isAlone = this.#options.shared || (stateless && hasExchange);
      if (isAlone) return await this.#exchange(message, options);
      return await this.#inConnection(message, options);
    } catch (error) {
      if (this.#scope.signal.aborted) return undefined;
      if (isWithheld(error)) this.#onError(error);
      return toRpcError(id, error);
    } finally {
      load[Symbol.dispose]();
    }
  }

  /**
   * Whether the server is known to support what the client uses, or nothing else is possible. The
   * requests of callers with an owner are translated: only that keeps their tasks apart.
   */
  #canRelay(stateless: boolean, method: string, hasOwner: boolean): boolean {
    const { translate, shared = false } = this.#options;
    if (!translate) return true;
    if (hasOwner) return false;
    const upstream = this.#upstream;
    if (stateless) return upstream.protocol !== 'session' && (!shared || 'exchange' in upstream);
    // Only `initialize` starts a session that can be passed on.
    return !shared && (method === 'initialize' || this.#isOpen);
  }

  /** Passes one stateless request on. */
  async #exchange(message: RpcRequest, options: ReceiveOptions): Promise<JsonObject | undefined> {
    const { id } = message;
    const running = new Cancellation();
    const unfollow = running.follow(options);
    const same = this.#exchanges.get(id) ?? new Set();
    this.#exchanges.set(id, same.add(running));
    let spoke = false;
    const push = async (related: JsonObject): Promise<void> => {
      spoke = true;
      await this.#push(related);
    };
    try {
      const { signal } = running;
      const onMessage = options.related ?? push;
      const response = this.#upstream.exchange
        ? await this.#upstream.exchange(message, { signal, onMessage })
        : await this.#exchangeAlone(message, { signal, onMessage });
      if (spoke) await this.#outbox.flushed();
      return running.aborted ? undefined : response;
    } catch (error) {
      if (running.aborted) return undefined;
      throw error;
    } finally {
      unfollow();
      same.delete(running);
      if (same.size === 0) this.#exchanges.delete(id);
    }
  }

  /**
   * Passes a request on over a connection of its own: requests of several clients have equal ids,
   * so the messages of the server would not show which client they are for.
   */
  async #exchangeAlone(
    message: RpcRequest,
    { signal, onMessage }: ExchangeOptions,
  ): Promise<JsonObject> {
    const transport = await this.#upstream.open({ ...(signal && { signal }) });
    // A lost connection fails the request.
    const options = { deliver: onMessage, onEnd: (): void => {} };
    await using connection = new RelayConnection(transport, options);
    const response = await connection.request(message, { ...(signal && { signal }) }, onMessage);
    if (response) return response;
    throw new DuolaneError('canceled', 'the request was cancelled');
  }

  /** Passes a request on over the connection of this client, which `initialize` opens. */
  async #inConnection(
    message: RpcRequest,
    options: ReceiveOptions,
  ): Promise<JsonObject | undefined> {
    const isOpening = message.method === 'initialize' && !this.#isOpen;
    const connection = await this.#connected(isOpening);
    const response = await connection.request(message, options, options.related);
    await this.#outbox.flushed();
    if (isOpening && response) {
      const result = asObject(response)['result'];
      if (isObject(result)) this.#keep(message, asObject(result['capabilities']));
      else if (this.#options.translate && this.#upstream.protocol === 'stateless') {
        // A server of the stateless protocol only: this client needs a translation.
        this.#connection = undefined;
        await connection[Symbol.asyncDispose]();
        return this.#translate(message, options);
      }
    }
    return response;
  }

  #keep(message: RpcRequest, capabilities: JsonObject): void {
    this.#isOpen = true;
    const kinds = LISTS.filter((kind) => capabilities[kind] !== undefined);
    if (JSON.stringify(message).length <= MAX_OPENING_CHARS) this.#opening = { message, kinds };
  }

  /** Passes on a notification, or the response to a request of the server. */
  async #pass(message: JsonObject): Promise<void> {
    try {
      if (!this.#connection && !isResponse(message) && metaOf(message['params'])[META.version]) {
        // Without a session, closing the stream of a request cancels it: an id may be of another.
        if (message['method'] !== CANCELLED) await this.#upstream.notify?.(message);
      } else if (message['method'] === CANCELLED && !this.#options.shared) {
        const { requestId, reason } = asObject(message['params']);
        const canceled = new DuolaneError('canceled', asString(reason, 'no reason given'));
        for (const running of this.#exchanges.get(requestId as RpcId) ?? [])
          running.abort(canceled);
        await (await this.#connection)?.cancel(message);
      } else await (await this.#connection)?.send(message);
    } catch (error) {
      // The client learns of a lost connection by its requests and by the end of its own.
      if (isWithheld(error)) this.#onError(error);
    }
  }

  /** The connection of this client; a lost one is opened again. */
  #connected(isOpening: boolean): Promise<RelayConnection> {
    if (this.#connection) return this.#connection;
    if (this.#isOpen && !this.#opening) return Promise.reject(notReopened());
    const opening = this.#opening && !isOpening ? this.#reopen(this.#opening) : this.#open();
    this.#connection = opening;
    opening.catch(() => {
      // The caller has the error; the next request tries again.
      if (this.#connection === opening) this.#connection = undefined;
    });
    return opening;
  }

  async #open(): Promise<RelayConnection> {
    const { signal } = this.#scope;
    const transport = await this.#upstream.open({ signal });
    if (signal.aborted) {
      await transport.close?.();
      throw signal.reason;
    }
    this.#openedAt = performance.now();
    return new RelayConnection(transport, {
      deliver: (message) => this.#push(message),
      onEnd: (reason) => this.#lost(reason),
    });
  }

  /** Opens a lost connection again, with the client's own `initialize`. */
  async #reopen({ message, kinds }: Opening): Promise<RelayConnection> {
    const waited = performance.now() - this.#openedAt;
    const wait = Math.min(MAX_REOPEN_MS, REOPEN_MS * 2 ** (this.#failures - 1));
    if (this.#failures > 0 && waited < wait)
      throw new DuolaneError(
        'peer_exited',
        `the tool server is started again in ${Math.ceil(wait - waited)} ms; try again then`,
      );
    this.#failures += 1;
    const connection = await this.#open();
    const id = `duolane-open-${(this.#opened += 1)}`;
    const response = await connection.request({ ...message, id }, this.#scope);
    if (!isObject(response?.['result'])) {
      await connection[Symbol.asyncDispose]();
      throw new DuolaneError(
        'peer_exited',
        'the tool server was started again, but refused initialize',
      );
    }
    await connection.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    for (const kind of kinds)
      await this.#push({ jsonrpc: '2.0', method: `notifications/${kind}/list_changed` });
    return connection;
  }

  /** The server has closed the connection: it is opened again on use, or the client's ends too. */
  #lost(reason: DuolaneError): void {
    this.#connection = undefined;
    if (this.#scope.signal.aborted) return;
    if (!this.#upstream.reopens || !this.#opening) {
      this.#outbox.close();
      return;
    }
    if (performance.now() - this.#openedAt >= STABLE_MS) this.#failures = 0;
    this.#onError(reason);
  }

  async #push(message: JsonObject): Promise<void> {
    await this.#outbox.push(message);
  }

  /** Serves the client by a translation from here on. */
  async #translate(message: JsonObject, options: ReceiveOptions): Promise<JsonObject | undefined> {
    if (!this.#translator) {
      const translator = this.#options.translate!();
      this.#translator = translator;
      this.#translating = sendOutgoing(translator, (sent) => this.#push(sent)).catch(
        reportUnexpected,
      );
    }
    const response = await this.#translator.receive(message, options);
    await this.#outbox.flushed();
    return response;
  }
}

const notReopened = (): DuolaneError =>
  new DuolaneError('closed', 'the connection to the tool server was lost; start with initialize');
