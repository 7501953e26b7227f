import {
  DuolaneError,
  toPublicFailure,
  WITHHELD,
  type DuolaneErrorOptions,
  type ErrorCode,
} from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { AlreadyAnsweredError } from '../../task/already-answered-error.ts';

/** What one reason is in our error codes, JSON-RPC and HTTP. */
interface Meaning {
  readonly code: ErrorCode;
  readonly rpc: number;
  readonly http: number;
  /** The canonical gRPC status; the REST binding sends its name beside the HTTP status. */
  readonly status: string;
}

const meaning = (code: ErrorCode, rpc: number, http: number, status: string): Meaning => ({
  code,
  rpc,
  http,
  status,
});

const failedPrecondition = (code: ErrorCode, rpc: number): Meaning =>
  meaning(code, rpc, 400, 'FAILED_PRECONDITION');

/** Why a request was refused, under the names of A2A 1.0; the last four are our own. */
export type A2AErrorReason =
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
  | 'TOO_MANY_STREAMS'
  | 'ALREADY_ANSWERED'
  | 'UNAVAILABLE';

/** Every reason with its code in Duolane, JSON-RPC, HTTP and gRPC. */
export const REASONS: Readonly<Record<A2AErrorReason, Meaning>> = {
  PARSE_ERROR: meaning('malformed', -32700, 400, 'INVALID_ARGUMENT'),
  INVALID_REQUEST: meaning('invalid', -32600, 400, 'INVALID_ARGUMENT'),
  METHOD_NOT_FOUND: meaning('unsupported', -32601, 404, 'UNIMPLEMENTED'),
  INVALID_PARAMS: meaning('invalid', -32602, 400, 'INVALID_ARGUMENT'),
  INTERNAL_ERROR: meaning('internal', -32603, 500, 'INTERNAL'),
  TASK_NOT_FOUND: meaning('not_found', -32001, 404, 'NOT_FOUND'),
  TASK_NOT_CANCELABLE: failedPrecondition('closed', -32002),
  PUSH_NOTIFICATION_NOT_SUPPORTED: failedPrecondition('unsupported', -32003),
  UNSUPPORTED_OPERATION: failedPrecondition('unsupported', -32004),
  CONTENT_TYPE_NOT_SUPPORTED: meaning('unsupported', -32005, 400, 'INVALID_ARGUMENT'),
  INVALID_AGENT_RESPONSE: meaning('malformed', -32006, 500, 'INTERNAL'),
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: failedPrecondition('unsupported', -32007),
  EXTENSION_SUPPORT_REQUIRED: failedPrecondition('unsupported', -32008),
  VERSION_NOT_SUPPORTED: failedPrecondition('unsupported', -32009),
  CONTENT_TOO_LARGE: meaning('too_large', -32600, 413, 'INVALID_ARGUMENT'),
  TOO_MANY_STREAMS: meaning('rate_limited', -32000, 429, 'RESOURCE_EXHAUSTED'),
  ALREADY_ANSWERED: meaning('conflict', -32050, 409, 'ABORTED'),
  UNAVAILABLE: meaning('server', -32051, 503, 'UNAVAILABLE'),
};

/** When a caller should retry if the store is unavailable and its error names no time. */
const RETRY_AFTER_MS = 5000;

export interface A2AErrorOptions extends DuolaneErrorOptions {
  /** Values for programs beside the text, such as the owner of the first answer. */
  readonly details?: Readonly<Record<string, string>>;
}

/** A `DuolaneError` with the reason that A2A has for it. */
export class A2AError extends DuolaneError {
  override readonly name = 'A2AError';
  readonly reason: A2AErrorReason;
  readonly details: Readonly<Record<string, string>>;

  constructor(
    reason: A2AErrorReason,
    message: string,
    { details = {}, ...options }: A2AErrorOptions = {},
  ) {
    // `conflict` is retryable elsewhere, but the same answer would be refused again.
    const final = reason === 'ALREADY_ANSWERED' && { retryable: false };
    super(REASONS[reason].code, message, { ...options, ...final });
    this.reason = reason;
    this.details = details;
  }

  /**
   * Converts any thrown value. The text of an internal error and of an unavailable store is
   * replaced, since it may name hosts or files; `cause` keeps the original.
   */
  static of(error: unknown): A2AError {
    if (error instanceof A2AError) return error;
    if (error instanceof AlreadyAnsweredError)
      return new A2AError('ALREADY_ANSWERED', error.message, {
        details: error.details,
        cause: error,
      });
    const { code, message, retryAfterMs = RETRY_AFTER_MS } = toPublicFailure(error).failure;
    const reason = REASON_OF[code] ?? 'INTERNAL_ERROR';
    if (reason === 'INTERNAL_ERROR') return new A2AError(reason, WITHHELD, { cause: error });
    if (reason !== 'UNAVAILABLE') return new A2AError(reason, message, { cause: error });
    const seconds = Math.ceil(retryAfterMs / 1000);
    const text = `the server is unavailable; try again in ${seconds} s`;
    return new A2AError(reason, text, { cause: error, retryAfterMs });
  }

  /** The time until a retry in full seconds, as the header `Retry-After` needs it. */
  get retryAfter(): string | undefined {
    const { retryAfterMs } = this;
    return retryAfterMs === undefined ? undefined : String(Math.ceil(retryAfterMs / 1000));
  }

  /** The details and `retryAfter` as strings: the `metadata` of `info`. */
  get metadata(): Readonly<Record<string, string>> | undefined {
    const { details, retryAfter } = this;
    const all = { ...details, ...(retryAfter !== undefined && { retryAfter }) };
    return Object.keys(all).length === 0 ? undefined : all;
  }

  /** The `google.rpc.ErrorInfo` that 1.0 sends beside code and message, for programs. */
  get info(): JsonObject {
    return {
      '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
      reason: this.reason,
      domain: 'a2a-protocol.org',
      ...(this.metadata && { metadata: this.metadata }),
    };
  }
}

/** Reads the metadata of a server's error as options of an `A2AError`. */
export function errorOptions(metadata: unknown): Pick<A2AErrorOptions, 'details' | 'retryAfterMs'> {
  if (!isObject(metadata)) return {};
  const { retryAfter, ...rest } = metadata;
  const details = Object.entries(rest).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  const seconds = typeof retryAfter === 'string' ? Number(retryAfter) : Number.NaN;
  return {
    details: Object.fromEntries(details),
    ...(seconds >= 0 && seconds < Infinity && { retryAfterMs: seconds * 1000 }),
  };
}

const REASON_OF: Partial<Record<ErrorCode, A2AErrorReason>> = {
  not_found: 'TASK_NOT_FOUND',
  closed: 'UNSUPPORTED_OPERATION',
  invalid: 'INVALID_PARAMS',
  malformed: 'INVALID_REQUEST',
  unsupported: 'UNSUPPORTED_OPERATION',
  too_large: 'CONTENT_TOO_LARGE',
  conflict: 'ALREADY_ANSWERED',
  rate_limited: 'TOO_MANY_STREAMS',
  // The store, or the network to it, is unavailable for the moment.
  server: 'UNAVAILABLE',
  network: 'UNAVAILABLE',
  timeout: 'UNAVAILABLE',
  overloaded: 'UNAVAILABLE',
  interrupted: 'UNAVAILABLE',
};
