import { DuolaneError, type ErrorCode } from '../errors.ts';
import { isObject } from '../json.ts';
import { RPC, rpcError, type RpcError, type RpcId } from './json-rpc.ts';

/** The number of each of our codes on the wire; those from -32000 as the MCP SDKs use them. */
export const RPC_CODE: Readonly<Record<ErrorCode, number>> = {
  canceled: -32000,
  timeout: -32001,
  suspended: RPC.internalError,
  fenced: RPC.internalError,
  conflict: RPC.internalError,
  closed: -32000,
  interrupted: RPC.internalError,
  not_found: RPC.invalidParams,
  invalid: RPC.invalidParams,
  unsupported: RPC.methodNotFound,
  unauthorized: RPC.invalidRequest,
  too_large: RPC.invalidRequest,
  peer_exited: -32000,
  response_lost: RPC.internalError,
  malformed: RPC.invalidRequest,
  network: -32000,
  rate_limited: RPC.internalError,
  overloaded: RPC.internalError,
  server: RPC.internalError,
  content_filter: RPC.internalError,
  max_steps: RPC.internalError,
  tool: RPC.internalError,
  internal: RPC.internalError,
};

const CODES: ReadonlyMap<unknown, ErrorCode> = new Map([
  [RPC.parseError, 'malformed'],
  [RPC.invalidRequest, 'malformed'],
  [RPC.methodNotFound, 'unsupported'],
  [RPC.invalidParams, 'invalid'],
  [-32000, 'closed'],
  [-32001, 'timeout'],
  [-32002, 'not_found'],
]);

/** What a peer said, word for word, so that whoever stands between two peers can pass it on. */
class PeerError extends Error {
  override readonly name = 'PeerError';
  readonly error: RpcError['error'];

  constructor(error: RpcError['error']) {
    super(error.message);
    this.error = error;
  }
}

/**
 * Any failure as the answer to a request. The error of another peer passes on unchanged; of what
 * went wrong inside (`internal`) only that it did leaves the process.
 */
export function toRpcError(id: RpcId | null, reason: unknown): RpcError {
  const error = DuolaneError.from(reason);
  if (error.cause instanceof PeerError) return { jsonrpc: '2.0', id, error: error.cause.error };
  const message = error.code === 'internal' ? 'internal error' : error.message;
  return rpcError(id, RPC_CODE[error.code], message);
}

/** The `error` member of an answer as what we throw: `server` for a number that we do not know. */
export function fromRpcError(error: unknown): DuolaneError {
  const { code, message } = isObject(error) ? error : {};
  if (typeof code !== 'number' || typeof message !== 'string') {
    return new DuolaneError('malformed', 'the peer sent an error without code or message');
  }
  const cause = new PeerError(error as RpcError['error']);
  return new DuolaneError(CODES.get(code) ?? 'server', message, { cause });
}
