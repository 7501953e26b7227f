import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';

/** `0` and `''` are legal: compare with `undefined`, never by truth. */
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
  /** Null where the request could not be read so far. */
  readonly id: RpcId | null;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}
export type RpcMessage = RpcRequest | RpcNotification | RpcSuccess | RpcError;

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

/** Without the member `id`: a null id is a request that cannot be answered, not a notification. */
export const isNotification = (message: JsonObject): message is RpcNotification =>
  typeof message['method'] === 'string' && message['id'] === undefined;

/** Only an object with `result` or `error` and no `method` answers anything, whatever its id. */
export const isResponse = (message: JsonObject): message is RpcSuccess | RpcError =>
  message['method'] === undefined && ('result' in message || 'error' in message);

/**
 * Any JSON value as a message, or as the error to answer it with: a batch, another version, a null
 * id, `params` that are not an object, an answer with both a result and an error. The answer bears
 * the id if there is one, so that a peer learns which of its requests was bad.
 */
export function readRpc(value: unknown): RpcMessage | { readonly refuse: RpcError } {
  if (Array.isArray(value)) return refuse(null, 'batches are not supported; send one by one');
  if (!isObject(value)) return refuse(null, 'a message is a JSON object');
  const id = isRpcId(value['id']) ? value['id'] : null;
  if (value['jsonrpc'] !== '2.0') return refuse(id, 'a message has "jsonrpc": "2.0"');
  if (isResponse(value)) {
    const one = 'result' in value ? !('error' in value) : isErrorObject(value['error']);
    return one ? value : refuse(id, 'an answer has a result, or an error with code and message');
  }
  if (typeof value['method'] !== 'string') return refuse(id, 'a message has a method or a result');
  if (value['id'] !== undefined && id === null) {
    return refuse(null, 'the id of a request is a string or a number');
  }
  if (value['params'] !== undefined && !isObject(value['params'])) {
    return refuse(id, 'params are an object', RPC.invalidParams);
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

export const rpcRequest = (id: RpcId, method: string, params?: JsonObject): RpcRequest => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params !== undefined && { params }),
});

export const rpcNotification = (method: string, params?: JsonObject): RpcNotification => ({
  jsonrpc: '2.0',
  method,
  ...(params !== undefined && { params }),
});

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

/** The error response in place of one that JSON cannot hold. */
export const unwritable = (id: RpcId | null): RpcError =>
  rpcError(
    id,
    RPC.internalError,
    'Internal error: the response cannot be written as JSON (a BigInt, a cycle, too deep or too long)',
  );

/**
 * A message as JSON text. A tool may return what JSON cannot hold; such a response becomes the error
 * response to the same request, because a client that gets nothing waits for ever. Any other message
 * that cannot be written throws `invalid`.
 */
export function encodeRpc(message: JsonObject): string {
  try {
    return JSON.stringify(message);
  } catch (cause) {
    const { id } = message;
    if (isResponse(message) && isRpcId(id)) return JSON.stringify(unwritable(id));
    throw new DuolaneError('invalid', 'a JSON-RPC message cannot be written as JSON', { cause });
  }
}
