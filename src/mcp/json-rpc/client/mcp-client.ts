import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
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
import { toRpcError } from '../../../wire/json-rpc-errors.ts';
import { Callers } from '../../caller.ts';
import { ChangeFeed } from '../../sources/change-feed.ts';
import type { DialMessagesOptions, MessageTransport, SourceChange } from '../../types.ts';
import type { CallEvents } from './call-events.ts';
import { META, metaOf } from '../protocol-versions.ts';
import { WaitingCalls } from './waiting-calls.ts';
import { CAPABILITY } from '../input-codec.ts';
import { PARTIAL_METHOD, toPartial } from '../partial-results.ts';
import type { AnswerServer } from './server-questions.ts';
import { type RpcRequestOptions, PendingRequests } from '../pending-requests.ts';

/** Requests of the server that we work on at the same time. */
const MAX_SERVING = 256;

const CHANGED: Readonly<Record<string, SourceChange['type']>> = {
  'notifications/tools/list_changed': 'tools',
  'notifications/resources/list_changed': 'resources',
  'notifications/prompts/list_changed': 'prompts',
  'notifications/resources/updated': 'resource',
};

/**
 * The client's side of one connection: reads for its whole life and takes each message in the
 * order of arrival, without waiting for anyone, so progress always precedes its result.
 */
export class McpClient implements AsyncDisposable {
  readonly requests: PendingRequests;
  readonly changes: ChangeFeed = new ChangeFeed();
  readonly callers: Callers;
  /** Calls in flight, by progress token and by the id of the request that runs for them. */
  readonly calls: Map<RpcId, CallEvents> = new Map();
  /** Who answers what the server asks on behalf of a request of ours, by the id of that. */
  readonly askers: Map<RpcId, AnswerServer> = new Map();
  readonly held: WaitingCalls = new WaitingCalls();
  /** What every request says about us in its `_meta`, where there was no handshake to say it in. */
  envelope: JsonObject | undefined;
  /** Who waits for the server to say that it tells us of changes, by the id of the request. */
  readonly acknowledged: Map<RpcId, () => void> = new Map();
  readonly #transport: MessageTransport;
  readonly #onRequest: DialMessagesOptions['onRequest'];
  readonly #serving = new Map<RpcId, AbortController>();
  readonly #incoming: AsyncIterator<JsonObject>;
  readonly #reading: Promise<void>;
  #reported = false;

  constructor(
    transport: MessageTransport,
    { onRequest, singleUser = false }: Pick<DialMessagesOptions, 'onRequest' | 'singleUser'> = {},
  ) {
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
    const dressed = this.envelope
      ? { ...params, _meta: { ...metaOf(params), ...this.envelope } }
      : params;
    return this.requests.send(method, dressed, options);
  }

  /** Whether the program answers what a server asks. */
  get canAnswer(): boolean {
    return this.#onRequest !== undefined;
  }

  async notify(method: string): Promise<void> {
    await this.#transport.send({ jsonrpc: '2.0', method });
  }

  /** What is still on its way in either direction; 0 when all is settled. */
  get open(): number {
    const { requests, calls, askers, held } = this;
    return requests.size + calls.size + askers.size + held.size + this.#serving.size;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#end(new DuolaneError('closed', 'the connection to the tool server was closed'));
    await this.#transport.close?.();
    // A road that cannot be closed may never end; its reader is told and not waited for.
    void this.#incoming.return?.().catch(() => {});
    if (this.#transport.close) await this.#reading;
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#incoming.next();
        if (done) break;
        this.#take(value);
      }
      this.#end(new DuolaneError('peer_exited', 'the tool server has ended the connection'));
    } catch (error) {
      this.#end(DuolaneError.from(error, 'network'));
    }
  }

  #end(reason: DuolaneError): void {
    this.requests.fail(reason);
    this.changes.fail(reason);
    this.held.clear();
    for (const controller of this.#serving.values()) controller.abort(reason);
  }

  #take(message: JsonObject): void {
    if (isResponse(message)) this.requests.settle(message);
    else if (this.requests.refuse(message)) return;
    else if (isNotification(message)) this.#hear(message);
    else if (isRpcRequest(message)) this.#serve(message).catch(reportUnexpected);
  }

  #hear(message: RpcNotification): void {
    const { method } = message;
    // A malformed notification must not end the connection for all who use it.
    const params: JsonObject = isObject(message.params) ? message.params : {};
    const changed = CHANGED[method];
    if (changed) {
      const uri = params['uri'];
      this.changes.tell({ type: changed, ...(typeof uri === 'string' && { uri }) });
    } else if (method === 'notifications/progress') this.#progress(params);
    else if (method === PARTIAL_METHOD) this.#partial(params);
    else if (method === 'notifications/message') this.#log(message, params);
    else if (method === 'notifications/subscriptions/acknowledged')
      this.acknowledged.get(metaOf(params)[META.subscription] as RpcId)?.();
    else if (method === 'notifications/cancelled')
      this.#serving.get(params['requestId'] as RpcId)?.abort(canceled());
  }

  /** Late ones, whose call is over, are nobody's. */
  #progress({ progressToken, progress, total, message }: JsonObject): void {
    if (typeof progress !== 'number') return;
    this.calls.get(progressToken as RpcId)?.push({
      type: 'progress',
      progress,
      ...(typeof total === 'number' && { total }),
      ...(typeof message === 'string' && { message }),
    });
  }

  #partial(params: JsonObject): void {
    const partial = toPartial(params);
    if (partial) this.calls.get(params['progressToken'] as RpcId)?.push(partial);
  }

  /** A log line names no call: it belongs to the one on whose stream it came, or to the only one. */
  #log(message: JsonObject, { level, data, logger }: JsonObject): void {
    const call = this.#related(message, this.calls);
    if (!call && this.calls.size > 0) this.#report('dropped a log line');
    call?.push({
      type: 'log',
      level: typeof level === 'string' ? level : 'info',
      data,
      ...(typeof logger === 'string' && { logger }),
    });
  }

  /**
   * What a message belongs to that names no request of ours: the request on whose stream it came,
   * else the only one there is, if nobody but its caller has ever used this connection: a server
   * may speak for a request that is over. Undefined if it cannot be known.
   */
  #related<T>(message: JsonObject, all: ReadonlyMap<RpcId, T>): T | undefined {
    const id = this.#transport.requestOf?.(message);
    if (id !== undefined) return all.get(id);
    if (this.callers.several) return undefined;
    const [only, ...others] = new Set(all.values());
    return others.length === 0 ? only : undefined;
  }

  /** Once for each connection: a server that does it does it all the time. */
  #report(what: string): void {
    if (this.#reported) return;
    this.#reported = true;
    reportUnexpected(
      new DuolaneError(
        'unsupported',
        `${what} of the tool server: it does not say which request it is for`,
      ),
    );
  }

  async #serve(message: RpcRequest): Promise<void> {
    const { id, method, params = {} } = message;
    const controller = new AbortController();
    const { signal } = controller;
    let answer: JsonObject;
    if (this.#serving.size >= MAX_SERVING || this.#serving.has(id))
      answer = rpcError(id, RPC.invalidRequest, 'Too many requests at once, or an id in use');
    else {
      this.#serving.set(id, controller);
      try {
        answer = rpcResult(id, await this.#answerer(message)(method, params, { signal }));
      } catch (error) {
        answer = toRpcError(id, error);
      } finally {
        this.#serving.delete(id);
      }
    }
    // A road that no longer takes it ends the reading too, and that is where it is told.
    if (!signal.aborted) await this.#transport.send(answer).catch(() => {});
  }

  /** Without `onRequest`, whoever made the request is asked what the server asks for its sake. */
  #answerer(message: RpcRequest): AnswerServer {
    const { method } = message;
    const answer: AnswerServer = (...asked) => this.answer(...asked);
    if (this.#onRequest || !(method in CAPABILITY) || this.askers.size === 0) return answer;
    const asker = this.#related(message, this.askers);
    if (asker) return asker;
    this.#report(`refused ${method}`);
    throw new DuolaneError(
      'unsupported',
      this.callers.several
        ? `${method} does not say which request it is for, and several clients share this connection`
        : `${method} does not say which of ${new Set(this.askers.values()).size} requests it is for`,
    );
  }

  /** What a server asks of us. */
  async answer(method: string, params: JsonObject, options: Abortable): Promise<JsonObject> {
    if (method === 'ping') return {};
    if (!this.#onRequest) throw new DuolaneError('unsupported', `Unknown method: ${method}`);
    if (!isObject(params)) throw new DuolaneError('invalid', 'Invalid params: not an object');
    return this.#onRequest(method, params, options);
  }
}

const canceled = (): DuolaneError =>
  new DuolaneError('canceled', 'the server no longer needs the answer');
