import type { JsonObject } from '../json.ts';

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
  readonly id: RpcId | null;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}

export const RPC = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
} as const;

const isId = (value: unknown): value is RpcId =>
  typeof value === 'string' || typeof value === 'number';

export const isRequest = (message: JsonObject): message is RpcRequest =>
  typeof message['method'] === 'string' && isId(message['id']);

export const isNotification = (message: JsonObject): message is RpcNotification =>
  typeof message['method'] === 'string' && message['id'] === undefined;

/** Only an object with `result` or `error` and no `method` answers anything, whatever its id. */
export const isResponse = (message: JsonObject): message is RpcSuccess | RpcError =>
  message['method'] === undefined && ('result' in message || 'error' in message);

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
