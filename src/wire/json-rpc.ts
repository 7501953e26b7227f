import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';

/** The id of a request. `0` and `''` are valid: compare with `undefined`, not by truthiness. */
export type RpcId = string | number;

export interface RpcRequest extends JsonObject {
  readonly jsonrpc: '2.0';
  readonly id: RpcId;
  readonly method: string;
  readonly params?: JsonObject;
}
export interface RpcNotification extends JsonObject {
  readonly jsonrpc: '2.0';
  readonly method: string;
  readonly params?: JsonObject;
}
export interface RpcSuccess extends JsonObject {
  readonly jsonrpc: '2.0';
  readonly id: RpcId;
  readonly result: unknown;
}
export interface RpcError extends JsonObject {
  readonly jsonrpc: '2.0';
  /** Null if the id of the request could not be read. */
  readonly id: RpcId | null;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}
export type RpcMessage = RpcRequest | RpcNotification | RpcSuccess | RpcError;

/** The error codes of JSON-RPC 2.0. */
export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
} as const;

export const isRpcId = (value: unknown): value is RpcId =>
  typeof value === 'string' || typeof value === 'number';

export const isRpcRequest = (message: JsonObject): message is RpcRequest =>
  typeof message['method'] === 'string' && isRpcId(message['id']);

/**
 * Whether the message has a method and no member `id`. A message with a null id is an invalid
 * request, not a notification.
 */
export const isNotification = (message: JsonObject): message is RpcNotification =>
  typeof message['method'] === 'string' && message['id'] === undefined;

/** Whether the message is a response: an object with `result` or `error` and without `method`. */
export const isResponse = (message: JsonObject): message is RpcSuccess | RpcError =>
  message['method'] === undefined && ('result' in message || 'error' in message);

/**
 * Reads any JSON value as a message, or returns the error response for it: a batch, another
 * version, a null id, `params` that are not an object, a response with both a result and an error.
 * The error has the id of the message if there is one, so that the peer knows which of its requests
 * was invalid.
 */
export function readRpc(value: unknown): RpcMessage | { readonly refuse: RpcError } {
  if (Array.isArray(value))
    return refuse(null, 'batches are not supported; send one message at a time');
  if (!isObject(value)) return refuse(null, 'invalid message: expected a JSON object');
  const id = isRpcId(value['id']) ? value['id'] : null;
  if (value['jsonrpc'] !== '2.0') return refuse(id, 'invalid message: expected "jsonrpc": "2.0"');
  if (isResponse(value)) {
    const one = 'result' in value ? !('error' in value) : isErrorObject(value['error']);
    return one
      ? value
      : refuse(id, 'invalid response: expected a result, or an error with code and message');
  }
  if (typeof value['method'] !== 'string')
    return refuse(id, 'invalid message: expected a method or a result');
  if (value['id'] !== undefined && id === null) {
    return refuse(null, 'invalid id of a request: expected a string or a number');
  }
  if (value['params'] !== undefined && !isObject(value['params'])) {
    return refuse(id, 'invalid params: expected an object', RPC.invalidParams);
  }
  return value as RpcRequest | RpcNotification;
}

const refuse = (
  id: RpcId | null,
  message: string,
  code: number = RPC.invalidRequest,
): { readonly refuse: RpcError } => ({ refuse: rpcError(id, code, message) });

const isErrorObject = (error: unknown): boolean =>
  isObject(error) && typeof error['code'] === 'number' && typeof error['message'] === 'string';

export const rpcResult = (id: RpcId, result: unknown): RpcSuccess => ({
  jsonrpc: '2.0',
  id,
  result,
});

export const rpcError = (
  id: RpcId | null,
  code: number,
  message: string,
  data?: unknown,
): RpcError => ({
  jsonrpc: '2.0',
  id,
  error: { code, message, ...(data !== undefined && { data }) },
});

/** The error response that replaces a response which JSON cannot represent. */
export const unwritable = (id: RpcId | null): RpcError =>
  rpcError(
    id,
    RPC.internalError,
    'internal error: the response cannot be encoded as JSON; it has a BigInt or a cycle, or is too deep or too long',
  );

/**
 * Encodes a message as JSON text. A tool may return a value that JSON cannot represent; the
 * response then becomes an error response to the same request, because a client that gets no
 * response waits forever. Any other message that cannot be encoded throws `invalid`.
 */
export function encodeRpc(message: JsonObject): string {
  try {
    return JSON.stringify(message);
  } catch (cause) {
    const { id } = message;
    if (isResponse(message) && isRpcId(id)) return JSON.stringify(unwritable(id));
    throw new DuolaneError('invalid', 'cannot encode a JSON-RPC message: it has no JSON form', {
      cause,
    });
  }
}
