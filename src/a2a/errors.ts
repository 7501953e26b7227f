import { DuolaneError, type ErrorCode } from '../errors.ts';

interface Meaning {
  readonly code: ErrorCode;
  readonly rpc: number;
  readonly http: number;
  readonly status: string;
}

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
  | 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'
  | 'VERSION_NOT_SUPPORTED';

/** Every way this protocol says no, by the name that 1.0 gives it. */
export const REASONS: Readonly<Record<Reason, Meaning>> = {
  PARSE_ERROR: { code: 'malformed', rpc: -32700, http: 400, status: 'INVALID_ARGUMENT' },
  INVALID_REQUEST: { code: 'invalid', rpc: -32600, http: 400, status: 'INVALID_ARGUMENT' },
  METHOD_NOT_FOUND: { code: 'unsupported', rpc: -32601, http: 404, status: 'UNIMPLEMENTED' },
  INVALID_PARAMS: { code: 'invalid', rpc: -32602, http: 400, status: 'INVALID_ARGUMENT' },
  INTERNAL_ERROR: { code: 'internal', rpc: -32603, http: 500, status: 'INTERNAL' },
  TASK_NOT_FOUND: { code: 'not_found', rpc: -32001, http: 404, status: 'NOT_FOUND' },
  TASK_NOT_CANCELABLE: { code: 'closed', rpc: -32002, http: 400, status: 'FAILED_PRECONDITION' },
  PUSH_NOTIFICATION_NOT_SUPPORTED: {
    code: 'unsupported',
    rpc: -32003,
    http: 400,
    status: 'FAILED_PRECONDITION',
  },
  UNSUPPORTED_OPERATION: {
    code: 'unsupported',
    rpc: -32004,
    http: 400,
    status: 'FAILED_PRECONDITION',
  },
  CONTENT_TYPE_NOT_SUPPORTED: {
    code: 'unsupported',
    rpc: -32005,
    http: 400,
    status: 'INVALID_ARGUMENT',
  },
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: {
    code: 'unsupported',
    rpc: -32007,
    http: 400,
    status: 'FAILED_PRECONDITION',
  },
  VERSION_NOT_SUPPORTED: {
    code: 'unsupported',
    rpc: -32009,
    http: 400,
    status: 'FAILED_PRECONDITION',
  },
};

/** A DuolaneError that also knows what this protocol calls it. */
export class Refusal extends DuolaneError {
  override readonly name = 'Refusal';
  readonly reason: Reason;

  constructor(reason: Reason, message: string, options?: ErrorOptions) {
    super(REASONS[reason].code, message, options);
    this.reason = reason;
  }

  /** Whatever was thrown, in this protocol's words; the text of `internal` stays here. */
  static of(error: unknown): Refusal {
    if (error instanceof Refusal) return error;
    const { code, message } = DuolaneError.from(error);
    const reason = REASON_OF[code] ?? 'INTERNAL_ERROR';
    const text = reason === 'INTERNAL_ERROR' ? 'The server failed; its log says why.' : message;
    return new Refusal(reason, text, { cause: error });
  }
}

const REASON_OF: Partial<Record<ErrorCode, Reason>> = {
  not_found: 'TASK_NOT_FOUND',
  closed: 'UNSUPPORTED_OPERATION',
  invalid: 'INVALID_PARAMS',
  malformed: 'INVALID_REQUEST',
  unsupported: 'UNSUPPORTED_OPERATION',
  too_large: 'INVALID_PARAMS',
};
