import { DuolaneError, type ErrorCode, type PeerCause, toPublicFailure } from '../errors.ts';
import { asObject } from '../json.ts';
import { RPC, rpcError, type RpcError, type RpcId } from './json-rpc.ts';

/** The JSON-RPC error code of each `ErrorCode`. Codes from -32000 on are those of the MCP SDKs. */
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

/**
 * The error object that a peer sent, unchanged, so that a program between two peers can forward it.
 */
class PeerError extends Error implements PeerCause {
  override readonly name = 'PeerError';
  readonly isFromPeer = true;
  readonly error: RpcError['error'];

  constructor(error: RpcError['error']) {
    super(error.message);
    this.error = error;
  }
}

/** Whether a failure must be reported here, because its message is withheld from the peer. */
export const isWithheld = (reason: unknown): boolean => toPublicFailure(reason, 'peer').withheld;

/**
 * Converts any failure to an error response. The error of another peer is forwarded unchanged. The
 * caller reports what `isWithheld` names.
 */
export function toRpcError(id: RpcId | null, reason: unknown): RpcError {
  const error = DuolaneError.from(reason);
  if (error.cause instanceof PeerError) return { jsonrpc: '2.0', id, error: error.cause.error };
  const { failure } = toPublicFailure(error, 'peer');
  return rpcError(id, RPC_CODE[failure.code], failure.message);
}

/**
 * Converts the `error` member of a response to the error to throw: `server` for an unknown code.
 */
export function fromRpcError(error: unknown): DuolaneError {
  const { code, message } = asObject(error);
  if (typeof code !== 'number' || typeof message !== 'string') {
    return new DuolaneError(
      'malformed',
      'the peer sent an error without code or message: expected both',
    );
  }
  const cause = new PeerError(error as RpcError['error']);
  return new DuolaneError(CODES.get(code) ?? 'server', message, { cause });
}
