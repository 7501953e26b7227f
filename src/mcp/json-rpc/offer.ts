import type { Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import {
  isNotification,
  isRequest,
  isResponse,
  RPC,
  rpcError,
  type RpcId,
  type RpcNotification,
  type RpcRequest,
  rpcResult,
} from '../../wire/json-rpc.ts';
import { toRpcError } from '../../wire/rpc-errors.ts';
import type {
  MessageEnd,
  OfferMessagesOptions,
  ReceiveOptions,
  SourceChange,
  ToolSource,
} from '../types.ts';
import { type ClientState, type Methods, methodsOf, type RequestContext } from './methods.ts';
import { Outbox } from './outbox.ts';
import { Requests } from './requests.ts';
import { Seal } from './seal.ts';
import { complete, isStateless, readClient, SESSION_ONLY, STATELESS_ONLY } from './stateless.ts';

const PAGE_SIZE = 1_000;

/** Requests of one client at the same time; more are refused, not queued. */
const MAX_RUNNING = 1_024;

/**
 * The JSON-RPC face of a source, for one connection: make one per session. The source is shared
 * and not closed. Any number of requests run at once; equal ids are safe, since each answer
 * belongs to its `receive`. Disposing aborts what runs and waits for it.
 */
export function offerMessages(source: ToolSource, options: OfferMessagesOptions = {}): MessageEnd {
  return new Offer(source, options);
}

class Offer implements MessageEnd {
  readonly #source: ToolSource;
  readonly #methods: Methods;
  readonly #ask: Ask | undefined;
  readonly #outbox = new Outbox();
  readonly #requests = new Requests({ send: (message) => this.#sendRequest(message) });
  readonly #seal: Seal;
  readonly #client: ClientState = {
    stateless: false,
    capabilities: {},
    logLevel: 'debug',
    subscriptions: new Set(),
  };
  readonly #running = new Map<RpcId, Set<AbortController>>();
  readonly #work = new Set<Promise<unknown>>();
  readonly #scope = new AbortController();
  #listening = false;

  constructor(source: ToolSource, { ask, pageSize = PAGE_SIZE, secret }: OfferMessagesOptions) {
    this.#source = source;
    this.#ask = ask;
    this.#seal = new Seal(secret);
    this.#methods = methodsOf(source, pageSize, this.#seal);
  }

  get outgoing(): AsyncIterable<JsonObject> {
    return this.#outbox;
  }

  async receive(
    message: JsonObject,
    options: ReceiveOptions = {},
  ): Promise<JsonObject | undefined> {
    if (isRequest(message)) return this.#owned(this.#serve(message, options));
    if (isResponse(message)) this.#requests.settle(message);
    else if (isNotification(message)) this.#take(message);
    else return rpcError(null, RPC.invalidRequest, 'Invalid request: no method, result or error');
    return undefined;
  }

  request(method: string, params?: JsonObject, options?: Abortable): Promise<JsonObject> {
    return this.#requests.send(method, params, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new DuolaneError('closed', 'this end of the tool server is closed');
    this.#scope.abort(closed);
    this.#requests.fail(closed);
    for (const controllers of this.#running.values())
      for (const controller of controllers) controller.abort(closed);
    this.#outbox.close();
    await Promise.allSettled(this.#work);
    await this.#methods[Symbol.asyncDispose]();
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
    if (this.#work.size > MAX_RUNNING)
      return toRpcError(id, new DuolaneError('overloaded', 'Too many requests at once; try later'));
    const controller = this.#begin(id);
    const onAbort = (): void => controller.abort(options.signal?.reason);
    options.signal?.addEventListener('abort', onAbort, { once: true });
    if (options.signal?.aborted) onAbort();
    try {
      const client = stateless ? readClient(params) : this.#client;
      const context = this.#context(id, client, controller.signal, options.related);
      const result = await handler(params, context);
      await context.flushed();
      if (controller.signal.aborted) return undefined;
      return rpcResult(id, stateless ? complete(method, result, this.#source.info) : result);
    } catch (error) {
      return controller.signal.aborted ? undefined : toRpcError(id, error);
    } finally {
      options.signal?.removeEventListener('abort', onAbort);
      this.#end(id, controller);
    }
  }

  #context(
    id: RpcId,
    client: ClientState,
    signal: AbortSignal,
    related: ReceiveOptions['related'],
  ): RequestContext & { flushed(): Promise<void> } {
    let spoke = false;
    const notify = async (method: string, params: JsonObject): Promise<void> => {
      const message = { jsonrpc: '2.0', method, params };
      if (related) return related(message);
      spoke = true;
      await this.#outbox.push(message);
    };
    return {
      id,
      signal,
      client,
      ask: this.#ask,
      seal: this.#seal,
      notify,
      log: async (entry) => {
        if (client.logLevel !== undefined && rank(entry.level) >= rank(client.logLevel))
          await notify('notifications/message', entry);
      },
      request: (method, params, options) =>
        this.#requests.send(method, params, { ...options, ...(related && { via: related }) }),
      // A quiet request owes its answer nothing, so it does not wait for others' messages.
      flushed: async () => (spoke ? this.#outbox.flushed() : undefined),
    };
  }

  #take({ method, params = {} }: RpcNotification): void {
    if (method === 'notifications/initialized') this.#listen();
    if (method !== 'notifications/cancelled') return;
    const { requestId, reason } = params;
    const error = new DuolaneError(
      'canceled',
      `the client cancelled: ${typeof reason === 'string' ? reason : 'no reason given'}`,
    );
    for (const controller of this.#running.get(requestId as RpcId) ?? []) controller.abort(error);
  }

  #begin(id: RpcId): AbortController {
    const controller = new AbortController();
    const same = this.#running.get(id);
    if (same) same.add(controller);
    else this.#running.set(id, new Set([controller]));
    return controller;
  }

  #end(id: RpcId, controller: AbortController): void {
    const same = this.#running.get(id);
    same?.delete(controller);
    if (same?.size === 0) this.#running.delete(id);
  }

  #owned<T>(work: Promise<T>): Promise<T> {
    const owned = work.finally(() => this.#work.delete(owned));
    this.#work.add(owned);
    return owned;
  }

  async #sendRequest(message: JsonObject): Promise<void> {
    if (!this.#outbox.offer(message))
      throw new DuolaneError('closed', 'nobody reads what the server sends');
  }

  #listen(): void {
    if (this.#listening || !this.#source.listen || this.#scope.signal.aborted) return;
    this.#listening = true;
    // The end of a source shows in its calls; here there is only nothing more to tell.
    void this.#owned(
      this.#relay(this.#source.listen({ signal: this.#scope.signal })).catch(() => {}),
    );
  }

  async #relay(changes: AsyncIterable<SourceChange>): Promise<void> {
    for await (const { type, uri } of changes) {
      if (type === 'listening') continue;
      if (type !== 'resource') await this.#notifyAll(`notifications/${type}/list_changed`);
      else if (uri !== undefined && this.#client.subscriptions.has(uri))
        await this.#notifyAll('notifications/resources/updated', { uri });
    }
  }

  async #notifyAll(method: string, params?: JsonObject): Promise<void> {
    await this.#outbox.push({ jsonrpc: '2.0', method, ...(params && { params }) });
  }
}

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** An unknown level is shown rather than hidden. */
const rank = (level: string): number => {
  const place = LEVELS.indexOf(level);
  return place < 0 ? LEVELS.length : place;
};
