import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
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
import type { MessageTransport } from '../types.ts';

export interface RpcRequestOptions extends Abortable {
  /** Called once, in the moment in which the request is over, before any further message is taken. */
  readonly onSettled?: () => void;
  /** Instead of the usual road, such as the stream of the request that it belongs to. */
  readonly via?: (message: JsonObject) => Promise<void>;
}

interface Pending {
  readonly resolve: (result: JsonObject) => void;
  readonly reject: (reason: unknown) => void;
  readonly onSettled: (() => void) | undefined;
}

/**
 * Our own requests to the other side, by id. Each is settled exactly once: by its answer, by its
 * signal (then the other side is told with `notifications/cancelled`, and a late answer is
 * nobody's), or by `fail`, after which every new one fails the same way.
 */
export class PendingRequests {
  readonly #road: Pick<MessageTransport, 'send' | 'cancelsByClosing'>;
  readonly #pending = new ReleasingMap<RpcId, Pending>();
  #next = 0;
  #failure: { readonly reason: unknown } | undefined;

  constructor(road: Pick<MessageTransport, 'send' | 'cancelsByClosing'>) {
    this.#road = road;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** The id that the next request will have: also a fine progress token. */
  get nextId(): number {
    return this.#next;
  }

  async send(
    method: string,
    params: JsonObject | undefined,
    { signal, onSettled, via }: RpcRequestOptions = {},
  ): Promise<JsonObject> {
    signal?.throwIfAborted();
    if (this.#failure) throw this.#failure.reason;
    const id = this.#next;
    this.#next += 1;
    const answer = new Promise<JsonObject>((resolve, reject) =>
      this.#pending.set(id, { resolve, reject, onSettled }),
    );
    const unlisten = onAbort(signal, (reason) => this.#pending.get(id)?.reject(reason));
    try {
      // Both at once: an answer, a failure or an abort need not wait for a send that is stuck.
      const request = { jsonrpc: '2.0', id, method, ...(params && { params }) };
      const sent = via ? via(request) : this.#road.send(request, signal && { signal });
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

  /** Takes an answer; false if no request of ours waits for it. */
  settle(message: RpcSuccess | RpcError): boolean {
    const pending = message.id === null ? undefined : this.#pending.get(message.id);
    if (!pending) return false;
    this.#forget(message.id as RpcId);
    if ('error' in message) pending.reject(fromRpcError(message['error']));
    else if (isObject(message.result)) pending.resolve(message.result);
    else pending.reject(new DuolaneError('malformed', 'the peer answered without a result object'));
    return true;
  }

  /**
   * Takes a message that has the id of one of our requests and neither method, result nor error:
   * the request fails with `malformed`, or its caller would wait for ever. False for all others.
   */
  refuse(message: JsonObject): boolean {
    const { id, method } = message;
    if (!isRpcId(id) || method !== undefined || isResponse(message)) return false;
    return this.settle({ jsonrpc: '2.0', id, result: undefined });
  }

  /** The other side is gone: settles all that wait and all that come. */
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

  /** A peer that can no longer be told needs no telling. */
  async #cancel(requestId: RpcId, signal: AbortSignal): Promise<void> {
    const reason = signal.reason instanceof Error ? signal.reason.message : String(signal.reason);
    const params = { requestId, reason };
    const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
    // A peer that cannot be reached needs no cancel.
    if (!this.#road.cancelsByClosing) await this.#road.send(message).catch(() => {});
  }
}
