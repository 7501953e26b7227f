import { DuolaneError } from '../../errors.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import {
  isResponse,
  isRpcId,
  isRpcRequest,
  RPC,
  rpcError,
  type RpcId,
  type RpcRequest,
} from '../../wire/json-rpc.ts';
import type { MessageTransport } from '../types.ts';

/** Sends a message of the server to the client. */
export type Deliver = (message: JsonObject) => Promise<void>;

/** A request of the client that the server has not answered. */
class RelayedRequest extends Cancellation {
  /** Resolves with the response, or `undefined` after a cancellation. */
  readonly answered: Promise<JsonObject | undefined>;
  readonly deliver: Deliver | undefined;
  readonly progressToken: unknown;
  #resolve: (response: JsonObject | undefined) => void = () => {};
  #reject: (reason: unknown) => void = () => {};

  constructor({ params }: RpcRequest, deliver: Deliver | undefined) {
    super();
    this.deliver = deliver;
    this.progressToken = asObject(asObject(params)['_meta'])['progressToken'];
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.onAbort(() => this.#resolve(undefined));
  }

  settle(response: JsonObject): void {
    this.#resolve(response);
  }

  fail(reason: unknown): void {
    this.#reject(reason);
  }
}

/** How a client of a connection is reached. */
export interface RelayConnectionOptions {
  /** Sends the client a message that belongs to no request. */
  readonly deliver: Deliver;
  /** Called once, when the server has closed the connection. */
  readonly onEnd: (reason: DuolaneError) => void;
}

/** The connection of one client to its server. Messages and ids pass unchanged both ways. */
export class RelayConnection implements AsyncDisposable {
  readonly #transport: MessageTransport;
  readonly #options: RelayConnectionOptions;
  /** The requests that the server handles; limited by the endpoint. */
  readonly #pending = new Map<RpcId, RelayedRequest>();
  /** Ends when the messages that were sent before have arrived. */
  #order: Promise<unknown> = Promise.resolve();
  #end: DuolaneError | undefined;

  constructor(transport: MessageTransport, options: RelayConnectionOptions) {
    this.#transport = transport;
    this.#options = options;
    this.#read().catch((error: unknown) => this.#finish(DuolaneError.from(error, 'network')));
  }

  /**
   * Passes a request on and returns the response of the server; `undefined` after a cancellation.
   * `deliver` receives the messages that belong to the request. Rejects if the connection is lost.
   */
  async request(
    message: RpcRequest,
    options: Abortable,
    deliver?: Deliver,
  ): Promise<JsonObject | undefined> {
    const { id } = message;
    if (this.#end) throw this.#end;
    if (this.#pending.has(id))
      return rpcError(id, RPC.invalidRequest, `invalid request: the id ${id} is in use`);
    const request = new RelayedRequest(message, deliver);
    this.#pending.set(id, request);
    const unfollow = request.follow(options);
    try {
      await this.#order;
      if (request.aborted) return undefined;
      const { signal } = request;
      const onMessage = (received: JsonObject): Promise<void> => this.#take(received, request);
      const sent = this.#transport.send(message, { signal, onMessage });
      // The response may arrive before the send has completed, and a send may fail after it.
      const arrived = sent.catch((error: unknown) => request.fail(error));
      // Over SSE, each message is a request of HTTP, and a cancellation must not overtake its call.
      // A transport with a stream for each request has sent it when that stream has ended.
      if (!this.#transport.requestOf) this.#order = arrived;
      return await request.answered;
    } catch (error) {
      if (request.aborted) return undefined;
      throw error;
    } finally {
      unfollow();
      this.#pending.delete(id);
    }
  }

  /** Passes on a notification or a response, in the order of the calls. */
  async send(message: JsonObject): Promise<void> {
    const sent = this.#order.then(() => this.#transport.send(message));
    this.#order = sent.catch(() => {}); // the caller has the error
    await sent;
  }

  /** Passes the cancellation of a request on, with its reason, and ends the request. */
  async cancel(message: JsonObject): Promise<void> {
    const { requestId, reason } = asObject(message['params']);
    const request = isRpcId(requestId) ? this.#pending.get(requestId) : undefined;
    try {
      await this.send(message);
    } finally {
      request?.abort(
        new DuolaneError(
          'canceled',
          `the client cancelled: ${asString(reason, 'no reason given')}`,
        ),
      );
    }
  }

  /** Ends all requests without a response. */
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    const closed = new DuolaneError('closed', 'the bridge has closed the connection');
    this.#end ??= closed;
    for (const request of this.#pending.values()) request.abort(closed);
    await this.#transport.close?.();
  });

  async #read(): Promise<void> {
    for await (const message of this.#transport.incoming) await this.#take(message);
    throw new DuolaneError('peer_exited', 'the tool server closed the connection');
  }

  #finish(reason: DuolaneError): void {
    if (this.#end) return;
    this.#end = reason;
    for (const request of this.#pending.values()) request.fail(reason);
    this.#options.onEnd(reason);
  }

  /** Handles a message of the server; `request` is the one on whose stream it arrived. */
  async #take(message: JsonObject, request?: RelayedRequest): Promise<void> {
    if (isResponse(message)) {
      const { id } = message;
      const answered = request ?? (id === null ? undefined : this.#pending.get(id));
      answered?.settle(message);
      return;
    }
    const deliver = (request ?? this.#related(message))?.deliver ?? this.#options.deliver;
    await deliver(message);
  }

  /**
   * The request that a message belongs to if it arrived on no stream of a request. All requests
   * here are of one client, so this chooses only the stream on which the client gets the message.
   */
  #related(message: JsonObject): RelayedRequest | undefined {
    const named = this.#transport.requestOf?.(message);
    if (named !== undefined) return this.#pending.get(named);
    const { progressToken } = asObject(message['params']);
    if (progressToken !== undefined)
      return [...this.#pending.values()].find((each) => each.progressToken === progressToken);
    const isForCall = isRpcRequest(message) || message['method'] === 'notifications/message';
    if (!isForCall || this.#pending.size !== 1) return undefined;
    return [...this.#pending.values()][0];
  }
}
