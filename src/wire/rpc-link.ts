import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { onAbort } from '../stream/abort.ts';
import { Cancellation } from '../stream/cancellation.ts';
import { ReleasingMap } from '../stream/releasing-map.ts';
import type { Abortable } from '../stream/types.ts';
import {
  isResponse,
  isRpcId,
  isRpcRequest,
  readRpc,
  RPC,
  rpcError,
  type RpcError,
  type RpcId,
  type RpcRequest,
  rpcResult,
  type RpcSuccess,
} from './json-rpc.ts';
import { fromRpcError, toRpcError } from './json-rpc-errors.ts';

/** A request of the peer while its handler runs. It aborts when the peer withdraws it. */
export class RpcCall extends Cancellation {
  readonly id: RpcId;

  constructor(id: RpcId) {
    super();
    this.id = id;
  }
}

export interface RpcLinkOptions {
  /** Sends one message. Messages are sent in the order of the calls. */
  readonly send: (message: JsonObject) => void;
  /** Handles a request of the peer. What it throws becomes an error response. */
  readonly handle: (method: string, params: JsonObject, call: RpcCall) => Promise<unknown>;
  readonly onNotification: (method: string, params: JsonObject) => void;
  /** Gets messages that are not valid, and responses to no open request. */
  readonly onIgnored?: (why: string) => void;
  /** Makes the error response for what a handler threw; `toRpcError` by default. */
  readonly toError?: (id: RpcId, reason: unknown) => RpcError;
  /** How many requests of the peer may be handled at the same time; 1000 by default. */
  readonly maxRequests?: number;
}

interface PendingRpc {
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

const MAX_REQUESTS = 1000;
const CANCEL = '$/cancel_request';

/**
 * One side of a JSON-RPC connection on which both sides send requests, as in the Agent Client
 * Protocol. It does no I/O: pass it each message, and give it a function that sends one. Every
 * request is settled once: by its response, by its signal, or by `fail`.
 */
export class RpcLink {
  readonly #options: RpcLinkOptions;
  readonly #pending = new ReleasingMap<RpcId, PendingRpc>();
  readonly #calls = new ReleasingMap<RpcId, RpcCall>();
  #next = 0;
  #failure: { readonly reason: unknown } | undefined;

  constructor(options: RpcLinkOptions) {
    this.#options = options;
  }

  /** Sends a request. An abort of the signal ends the wait; a late response is ignored. */
  request(method: string, params: JsonObject, { signal }: Abortable = {}): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#failure) return Promise.reject(this.#failure.reason);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const unlisten = onAbort(signal, (reason) => this.#pending.take(id)?.reject(reason));
      this.#pending.set(id, {
        resolve: (result) => {
          unlisten();
          resolve(result);
        },
        reject: (reason) => {
          unlisten();
          reject(reason);
        },
      });
      try {
        this.#options.send({ jsonrpc: '2.0', id, method, params });
      } catch (error) {
        this.#pending.take(id)?.reject(error);
      }
    });
  }

  notify(method: string, params: JsonObject): void {
    this.#options.send({ jsonrpc: '2.0', method, params });
  }

  /** Takes one message of the peer: any JSON value. */
  receive(value: unknown): void {
    const message = readRpc(value);
    if ('refuse' in message) return this.#refuse(message.refuse as RpcError, value);
    if (isResponse(message)) this.#settle(message);
    else if (isRpcRequest(message)) this.#answer(message);
    else if (message['method'] === CANCEL) this.#cancel(message['params']);
    else this.#options.onNotification(message['method'], message['params'] ?? {});
  }

  /** The connection has ended: fails all requests, and aborts the handlers of the peer's. */
  fail(reason: unknown): void {
    this.#failure ??= { reason };
    for (const id of this.#pending.keys()) this.#pending.take(id)?.reject(reason);
    for (const id of this.#calls.keys()) this.#calls.take(id)?.abort(reason);
  }

  #settle(message: RpcSuccess | RpcError): void {
    const pending = message.id === null ? undefined : this.#pending.take(message.id);
    if (!pending)
      return this.#options.onIgnored?.(`a response to an unknown request "${String(message.id)}"`);
    if ('error' in message) pending.reject(fromRpcError(message['error']));
    else pending.resolve(message['result']);
  }

  /** A message that is not valid. An invalid response settles its request, which waits for it. */
  #refuse(response: RpcError, value: unknown): void {
    const { id, error } = response;
    const isAnswer =
      id !== null && typeof value === 'object' && value !== null && !('method' in value);
    const pending = isAnswer ? this.#pending.take(id) : undefined;
    if (pending)
      return pending.reject(new DuolaneError('malformed', `the peer sent an ${error.message}`));
    this.#options.onIgnored?.(error.message);
    this.#options.send(response);
  }

  #answer({ id, method, params = {} }: RpcRequest): void {
    const { send, handle, toError = toRpcError, maxRequests = MAX_REQUESTS } = this.#options;
    if (this.#calls.has(id)) {
      const why = `the id ${JSON.stringify(id)} is in use by another request`;
      return send(rpcError(id, RPC.invalidRequest, why));
    }
    if (this.#calls.size >= maxRequests) {
      const why = `the open requests exceed ${maxRequests}; wait for a response first`;
      return send(rpcError(id, RPC.internalError, why));
    }
    const call = new RpcCall(id);
    this.#calls.set(id, call);
    const respond = (response: JsonObject): void => {
      // After `fail` no peer is left to read it.
      if (this.#calls.take(id) !== undefined) send(response);
    };
    // An async function, because a handler may throw before it returns its promise.
    (async () => handle(method, params, call))()
      .then(
        (result) => respond(rpcResult(id, result ?? {})),
        (reason: unknown) => respond(toError(id, reason)),
      )
      .catch((error: unknown) =>
        this.#options.onIgnored?.(`a response that could not be sent: ${String(error)}`),
      );
  }

  #cancel(params: JsonObject | undefined): void {
    const id = params?.['requestId'];
    if (!isRpcId(id)) return;
    this.#calls.get(id)?.abort(new DuolaneError('canceled', 'the peer canceled its request'));
  }
}
