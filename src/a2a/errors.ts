import { DuolaneError, type ErrorCode } from '../errors.ts';
import type { JsonObject } from '../json.ts';

interface Meaning {
  readonly code: ErrorCode;
  readonly rpc: number;
  readonly http: number;
  /** The canonical status that the REST binding names beside its HTTP status. */
  readonly status: string;
}

const meaning = (code: ErrorCode, rpc: number, http: number, status: string): Meaning => ({
  code,
  rpc,
  http,
  status,
});

const refusedHere = (code: ErrorCode, rpc: number): Meaning =>
  meaning(code, rpc, 400, 'FAILED_PRECONDITION');

/** By the names that 1.0 gives them; the last two are ours. */
export type Reason =
  | 'PARSE_ERROR'
  | 'INVALID_REQUEST'
  | 'METHOD_NOT_FOUND'
  | 'INVALID_PARAMS'
  | 'INTERNAL_ERROR'
  | 'TASK_NOT_FOUND'
  | 'TASK_NOT_CANCELABLE'
  | 'PUSH_NOTIFICATION_NOT_SUPPORTED'
  | 'UNSUPPORTED_OPERATION'
  | 'CONTENT_TYPE_NOT_SUPPORTED'
  | 'INVALID_AGENT_RESPONSE'
  | 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'
  | 'EXTENSION_SUPPORT_REQUIRED'
  | 'VERSION_NOT_SUPPORTED'
  | 'CONTENT_TOO_LARGE'
  | 'TOO_MANY_STREAMS';

/** Every way this protocol says no, in our code, JSON-RPC, HTTP and gRPC. */
export const REASONS: Readonly<Record<Reason, Meaning>> = {
  PARSE_ERROR: meaning('malformed', -32700, 400, 'INVALID_ARGUMENT'),
  INVALID_REQUEST: meaning('invalid', -32600, 400, 'INVALID_ARGUMENT'),
  METHOD_NOT_FOUND: meaning('unsupported', -32601, 404, 'UNIMPLEMENTED'),
  INVALID_PARAMS: meaning('invalid', -32602, 400, 'INVALID_ARGUMENT'),
  INTERNAL_ERROR: meaning('internal', -32603, 500, 'INTERNAL'),
  TASK_NOT_FOUND: meaning('not_found', -32001, 404, 'NOT_FOUND'),
  TASK_NOT_CANCELABLE: refusedHere('closed', -32002),
  PUSH_NOTIFICATION_NOT_SUPPORTED: refusedHere('unsupported', -32003),
  UNSUPPORTED_OPERATION: refusedHere('unsupported', -32004),
  CONTENT_TYPE_NOT_SUPPORTED: meaning('unsupported', -32005, 400, 'INVALID_ARGUMENT'),
  INVALID_AGENT_RESPONSE: meaning('malformed', -32006, 500, 'INTERNAL'),
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: refusedHere('unsupported', -32007),
  EXTENSION_SUPPORT_REQUIRED: refusedHere('unsupported', -32008),
  VERSION_NOT_SUPPORTED: refusedHere('unsupported', -32009),
  CONTENT_TOO_LARGE: meaning('too_large', -32600, 413, 'INVALID_ARGUMENT'),
  TOO_MANY_STREAMS: meaning('rate_limited', -32000, 429, 'RESOURCE_EXHAUSTED'),
};

/** A DuolaneError that also knows what this protocol calls it. */
export class Refusal extends DuolaneError {
  override readonly name = 'Refusal';
  readonly reason: Reason;

  constructor(reason: Reason, message: string, options?: ErrorOptions) {
    super(REASONS[reason].code, message, options);
    this.reason = reason;
  }

  /** Whatever was thrown, in this protocol's words; the text of what is our own fault stays here. */
  static of(error: unknown): Refusal {
    if (error instanceof Refusal) return error;
    const { code, message } = DuolaneError.from(error);
    const reason = REASON_OF[code] ?? 'INTERNAL_ERROR';
    const text = reason === 'INTERNAL_ERROR' ? 'The server failed; its log says why.' : message;
    return new Refusal(reason, text, { cause: error });
  }

  /** What 1.0 puts beside code and message, so that programs need not read the text. */
  get info(): JsonObject {
    return {
      '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
      reason: this.reason,
      domain: 'a2a-protocol.org',
    };
  }
}

const REASON_OF: Partial<Record<ErrorCode, Reason>> = {
  not_found: 'TASK_NOT_FOUND',
  closed: 'UNSUPPORTED_OPERATION',
  invalid: 'INVALID_PARAMS',
  malformed: 'INVALID_REQUEST',
  unsupported: 'UNSUPPORTED_OPERATION',
  too_large: 'CONTENT_TOO_LARGE',
};
