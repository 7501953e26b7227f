import { errorMessage, malformed } from '../../errors.ts';
import { isObject, type JsonObject, omitUndefined } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Abortable } from '../../stream/types.ts';
import {
  isResponse,
  isRpcId,
  type RpcError,
  type RpcId,
  type RpcSuccess,
} from '../../wire/json-rpc.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';
import type { MessageSendOptions, MessageTransport } from '../types.ts';

/** The options of one request. */
export interface RpcRequestOptions extends Abortable {
  /** Called once, when the request is settled, before any further message is handled. */
  readonly onSettled?: () => void;
  /**
   * Sends the request instead of the transport, for example on the stream of the request that it
   * belongs to.
   */
  readonly via?: (message: JsonObject) => Promise<void>;
  /** Receives what arrives on the own stream of the request, if the transport has one. */
  readonly onMessage?: MessageSendOptions['onMessage'];
}

interface Pending {
  readonly resolve: (result: JsonObject) => void;
  readonly reject: (reason: unknown) => void;
  readonly onSettled: (() => void) | undefined;
}

/**
 * Our requests to the peer, by id. Each is settled exactly once: by its response, by its signal, or
 * by `fail`, after which every new request fails the same way. After an abort the peer gets
 * `notifications/cancelled`, and a late response is ignored.
 */
export class PendingRequests {
  readonly #transport: Pick<MessageTransport, 'send' | 'cancelsByClosing'>;
  readonly #pending = new ReleasingMap<RpcId, Pending>();
  readonly #prefix: string | undefined;
  #next = 0;
  #failure: { readonly reason: unknown } | undefined;

  /** With a prefix, ids are texts that begin with it, so that they differ from those of others. */
  constructor(transport: Pick<MessageTransport, 'send' | 'cancelsByClosing'>, prefix?: string) {
    this.#transport = transport;
    this.#prefix = prefix;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** The id of the next request, which also serves as its progress token. */
  get nextId(): number {
    return this.#next;
  }

  async send(
    method: string,
    params: JsonObject | undefined,
    { signal, onSettled, via, onMessage }: RpcRequestOptions = {},
  ): Promise<JsonObject> {
    signal?.throwIfAborted();
    if (this.#failure) throw this.#failure.reason;
    const id = this.#prefix === undefined ? this.#next : `${this.#prefix}${this.#next}`;
    this.#next += 1;
    const answer = new Promise<JsonObject>((resolve, reject) =>
      this.#pending.set(id, { resolve, reject, onSettled }),
    );
    const unlisten = onAbort(signal, (reason) => this.#pending.get(id)?.reject(reason));
    try {
      // Wait for both at the same time: a response, a failure or an abort need not wait for a send
      // that does not complete.
      const request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
      const options = omitUndefined<MessageSendOptions>({ signal, onMessage });
      const sent = via ? via(request) : this.#transport.send(request, options);
      const [result] = await Promise.all([answer, sent]);
      return result;
    } catch (error) {
      if (signal?.aborted && this.#forget(id) && !this.#failure) await this.#cancel(id, signal);
      throw error;
    } finally {
      this.#forget(id);
      unlisten();
    }
  }

  /** Settles the request of a response. Returns false if no request waits for it. */
  settle(message: RpcSuccess | RpcError): boolean {
    const pending = message.id === null ? undefined : this.#pending.get(message.id);
    if (!pending) return false;
    this.#forget(message.id as RpcId);
    if ('error' in message) pending.reject(fromRpcError(message['error']));
    else if (isObject(message.result)) pending.resolve(message.result);
    else pending.reject(malformed('the peer sent a response without a result: expected an object'));
    return true;
  }

  /**
   * Fails a request with `malformed` if a message has its id, but neither a method, a result nor an
   * error; its caller would wait forever otherwise. Returns false for all other messages.
   */
  refuse(message: JsonObject): boolean {
    const { id, method } = message;
    if (!isRpcId(id) || method !== undefined || isResponse(message)) return false;
    return this.settle({ jsonrpc: '2.0', id, result: undefined });
  }

  /** Fails all pending and future requests, because the peer has disconnected. */
  fail(reason: unknown): void {
    this.#failure ??= { reason };
    for (const id of this.#pending.keys()) {
      this.#pending.get(id)?.reject(reason);
      this.#forget(id);
    }
  }

  #forget(id: RpcId): boolean {
    const pending = this.#pending.take(id);
    pending?.onSettled?.();
    return pending !== undefined;
  }

  /**
   * Sends the cancellation of a request, unless the transport cancels by closing the stream of the
   * request.
   */
  async #cancel(requestId: RpcId, signal: AbortSignal): Promise<void> {
    const params = { requestId, reason: errorMessage(signal.reason) };
    const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
    // A peer that cannot be reached needs no cancellation.
    if (!this.#transport.cancelsByClosing) await this.#transport.send(message).catch(() => {});
  }
}
