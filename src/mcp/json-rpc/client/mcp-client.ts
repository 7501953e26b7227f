import { DuolaneError, invalid, unsupported } from '../../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type { Abortable } from '../../../stream/types.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
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
import { Callers } from '../../sources/caller-names.ts';
import { ChangeFeed } from '../../sources/change-feed.ts';
import { toLogLine, toProgress } from '../../sources/notification-events.ts';
import { type KnownLimits, limitsOf, withinLimits } from '../../sources/request-timer.ts';
import type {
  DialMessagesOptions,
  MessageTransport,
  SourceChange,
  TimeLimits,
} from '../../types.ts';
import type { CallEvents } from './call-events.ts';
import { META, metaOf } from '../protocol-versions.ts';
import { WaitingCalls } from './waiting-calls.ts';
import { CAPABILITY } from '../../sources/input-codec.ts';
import { PARTIAL_METHOD, toPartial } from '../partial-results.ts';
import type { AnswerServer } from './server-questions.ts';
import { type RpcRequestOptions, PendingRequests } from '../pending-requests.ts';

/** How many requests of the server are handled at the same time. */
const MAX_SERVING = 256;
/**
 * How many requests of the server wait for their response to be sent, refused ones included. Each
 * response over HTTP is a connection, so a server that asks without end and reads nothing would use
 * up all connections of this process.
 */
const MAX_UNANSWERED = 512;

const CHANGED: ReadonlyMap<string, SourceChange['type']> = new Map([
  ['notifications/tools/list_changed', 'tools'],
  ['notifications/resources/list_changed', 'resources'],
  ['notifications/prompts/list_changed', 'prompts'],
  ['notifications/resources/updated', 'resource'],
]);

/** Requests without the time limit of a request. */
const UNTIMED: ReadonlySet<string> = new Set(['tools/call', 'subscriptions/listen']);

type McpClientOptions = TimeLimits & Pick<DialMessagesOptions, 'onRequest' | 'singleUser'>;

/**
 * The client side of one connection. It reads as long as the connection lives and handles each
 * message in order of arrival without waiting, so progress always precedes its result.
 */
export class McpClient implements AsyncDisposable {
  readonly requests: PendingRequests;
  readonly changes: ChangeFeed = new ChangeFeed();
  readonly callers: Callers;
  readonly limits: KnownLimits;
  /** The calls in flight, by progress token and by the id of their current request. */
  readonly calls: Map<RpcId, CallEvents> = new Map();
  /** The handlers of questions of the server, by the id of the request that the server asks for. */
  readonly askers: Map<RpcId, AnswerServer> = new Map();
  readonly waitingCalls: WaitingCalls = new WaitingCalls();
  /** The client information in the `_meta` of every request; set for the stateless protocol. */
  envelope: JsonObject | undefined;
  /** The callbacks for acknowledged subscriptions, by the id of the request. */
  readonly acknowledged: Map<RpcId, () => void> = new Map();
  readonly #taskListeners = new Map<string, Set<(task: JsonObject) => void>>();
  readonly #transport: MessageTransport;
  readonly #onRequest: DialMessagesOptions['onRequest'];
  readonly #serving = new Map<RpcId, AbortController>();
  readonly #incoming: AsyncIterator<JsonObject>;
  readonly #reading: Promise<void>;
  #unanswered = 0;
  #reported = false;

  constructor(transport: MessageTransport, options: McpClientOptions = {}) {
    const { onRequest, singleUser = false } = options;
    this.limits = limitsOf(options);
    this.#transport = transport;
    this.#onRequest = onRequest;
    this.callers = new Callers(singleUser);
    this.requests = new PendingRequests(transport);
    this.#incoming = transport.incoming[Symbol.asyncIterator]();
    this.#reading = this.#read();
  }

  request(
    method: string,
    params: JsonObject | undefined,
    options?: RpcRequestOptions,
  ): Promise<JsonObject> {
    const own = metaOf(params);
    const withMeta = this.envelope
      ? { ...params, _meta: { ...own, ...this.envelope, ...pick(own, META.capabilities) } }
      : params;
    // A call has a timer of its own, and a subscription has no end.
    if (UNTIMED.has(method)) return this.requests.send(method, withMeta, options);
    const timer = { what: method, isOurTurn: this.isOurTurn };
    return withinLimits(this.#requestLimits, timer, options?.signal, (signal) =>
      this.requests.send(method, withMeta, { ...options, signal }),
    );
  }

  /** Whether the server waits for us: for an answer to its question, or for a login. */
  readonly isOurTurn = (): boolean =>
    this.#serving.size > 0 || this.#transport.isLoggingIn === true;

  get #requestLimits(): KnownLimits {
    return { timeoutMs: this.limits.timeoutMs, maxTotalMs: Infinity };
  }

  /**
   * Calls the listener with each notification about a task. Returns a function that stops it.
   */
  onTask(taskId: string, listener: (task: JsonObject) => void): () => void {
    const listeners = this.#taskListeners.get(taskId) ?? new Set();
    this.#taskListeners.set(taskId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#taskListeners.delete(taskId);
    };
  }

  /** Whether the program answers questions of the server (`onRequest`). */
  get canAnswer(): boolean {
    return this.#onRequest !== undefined;
  }

  async notify(method: string): Promise<void> {
    await this.#transport.send({ jsonrpc: '2.0', method });
  }

  /** How many requests are open in either direction; 0 when all are settled. */
  get open(): number {
    const { requests, calls, askers, waitingCalls } = this;
    return requests.size + calls.size + askers.size + waitingCalls.size + this.#serving.size;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#end(new DuolaneError('closed', 'the connection to the tool server is closed'));
    await this.#transport.close?.();
    // A transport that cannot be closed may never end. Its reader is cancelled without a wait.
    void this.#incoming.return?.().catch(() => {});
    if (this.#transport.close) await this.#reading;
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#incoming.next();
        if (done) break;
        this.#dispatch(value);
      }
      this.#end(new DuolaneError('peer_exited', 'the tool server closed the connection'));
    } catch (error) {
      await this.#break(error);
    }
  }

  async #break(error: unknown): Promise<void> {
    this.#end(DuolaneError.from(error, 'network'));
    // Nothing reads the messages of this server any more.
    if (this.#unanswered >= MAX_UNANSWERED) await this.#transport.close?.();
  }

  /** Handles a message on the own stream of a call, and waits until its reader has room. */
  async take(message: JsonObject, events: CallEvents): Promise<void> {
    try {
      this.#dispatch(message);
    } catch (error) {
      await this.#break(error);
      throw error;
    }
    await events.room();
  }

  #end(reason: DuolaneError): void {
    this.requests.fail(reason);
    this.changes.fail(reason);
    this.waitingCalls.clear();
    for (const controller of this.#serving.values()) controller.abort(reason);
  }

  #dispatch(message: JsonObject): void {
    if (isResponse(message)) this.requests.settle(message);
    else if (this.requests.refuse(message)) return;
    else if (isNotification(message)) this.#handleNotification(message);
    else if (isRpcRequest(message)) this.#answerRequest(message);
  }

  /** Answers a request of the server in the background. */
  #answerRequest(message: RpcRequest): void {
    if (this.#unanswered >= MAX_UNANSWERED)
      throw new DuolaneError(
        'too_large',
        `the tool server exceeds the limit of ${MAX_UNANSWERED} requests whose responses it has not read; its connection was closed`,
      );
    this.#unanswered += 1;
    this.#serve(message)
      .finally(() => (this.#unanswered -= 1))
      .catch(reportUnexpected);
  }

  #handleNotification(message: RpcNotification): void {
    const { method } = message;
    // A malformed notification must not end the connection for all its users.
    const params: JsonObject = asObject(message.params);
    const changed = CHANGED.get(method);
    if (changed) {
      const uri = params['uri'];
      this.changes.notify({ type: changed, ...(typeof uri === 'string' && { uri }) });
    } else if (method === 'notifications/progress') this.#progress(params);
    else if (method === PARTIAL_METHOD) this.#partial(params);
    else if (method === 'notifications/message') this.#log(message, params);
    else if (method === 'notifications/tasks')
      for (const listener of this.#taskListeners.get(String(params['taskId'])) ?? [])
        listener(params);
    else if (method === 'notifications/subscriptions/acknowledged')
      this.acknowledged.get(metaOf(params)[META.subscription] as RpcId)?.();
    else if (method === 'notifications/cancelled')
      this.#serving.get(params['requestId'] as RpcId)?.abort(canceled());
  }

  /** Progress of a call that has ended is dropped. */
  #progress(params: JsonObject): void {
    if (typeof params['progress'] === 'number')
      this.calls.get(params['progressToken'] as RpcId)?.push(toProgress(params));
  }

  #partial(params: JsonObject): void {
    const partial = toPartial(params);
    if (partial) this.calls.get(params['progressToken'] as RpcId)?.push(partial);
  }

  /**
   * Delivers a log line. It names no call: it belongs to the call on whose stream it arrived, or to
   * the only open one.
   */
  #log(message: JsonObject, params: JsonObject): void {
    const call = this.#related(message, this.calls);
    if (!call && this.calls.size > 0) this.#report('dropped a log line');
    call?.push(toLogLine(params));
  }

  /**
   * Finds the request that a message belongs to if it names none: the request on whose stream it
   * arrived, or else the only open one. The latter counts only if no other caller has ever used
   * this connection, because a server may send messages for a request that has ended. Returns
   * `undefined` if the request is not certain.
   */
  #related<T>(message: JsonObject, all: ReadonlyMap<RpcId, T>): T | undefined {
    const id = this.#transport.requestOf?.(message);
    if (id !== undefined) return all.get(id);
    if (this.callers.several) return undefined;
    const [only, ...others] = new Set(all.values());
    return others.length === 0 ? only : undefined;
  }

  /** Reports a problem once for each connection: a server that has it has it all the time. */
  #report(what: string): void {
    if (this.#reported) return;
    this.#reported = true;
    reportUnexpected(
      unsupported(
        `${what} of the tool server: the server does not name the request that it is for`,
      ),
    );
  }

  async #serve(message: RpcRequest): Promise<void> {
    const { id, method, params = {} } = message;
    const controller = new AbortController();
    const { signal } = controller;
    let answer: JsonObject;
    if (this.#serving.size >= MAX_SERVING || this.#serving.has(id))
      answer = rpcError(id, RPC.invalidRequest, 'Too many concurrent requests, or an id in use');
    else {
      this.#serving.set(id, controller);
      try {
        answer = rpcResult(id, await this.#answerer(message)(method, params, { signal }));
      } catch (error) {
        if (!signal.aborted && isWithheld(error)) reportUnexpected(error);
        answer = toRpcError(id, error);
      } finally {
        this.#serving.delete(id);
      }
    }
    // If the transport is closed, `#read` reports it; the error of this send is ignored.
    if (!signal.aborted) await this.#transport.send(answer).catch(() => {});
  }

  /**
   * Chooses the handler of a request of the server. Without `onRequest`, it is the `ask` of the
   * request that the server asks for.
   */
  #answerer(message: RpcRequest): AnswerServer {
    const { method } = message;
    const answer: AnswerServer = (...asked) => this.answer(...asked);
    if (this.#onRequest || !Object.hasOwn(CAPABILITY, method) || this.askers.size === 0)
      return answer;
    const asker = this.#related(message, this.askers);
    if (asker) return asker;
    this.#report(`refused ${method}`);
    throw unsupported(
      this.callers.several
        ? `${method} does not name its request, and several clients share this connection; name the request`
        : `${method} does not name its request, and ${new Set(this.askers.values()).size} requests are open; name the request`,
    );
  }

  /** Handles a request of the server, other than a question with a handler of its own. */
  async answer(method: string, params: JsonObject, options: Abortable): Promise<JsonObject> {
    if (method === 'ping') return {};
    if (!this.#onRequest) throw unsupported(`unknown method "${method}"`);
    if (!isObject(params)) throw invalid('invalid params: expected an object');
    return this.#onRequest(method, params, options);
  }
}

/** One member of an object, if it is there. */
const pick = (from: JsonObject, key: string): JsonObject =>
  from[key] === undefined ? {} : { [key]: from[key] };

const canceled = (): DuolaneError =>
  new DuolaneError('canceled', 'the server cancelled its request');
