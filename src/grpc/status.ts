import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { DuolaneError, type ErrorCode, RETRYABLE } from '../errors.ts';
import {
  decodeMessage,
  encodeStatusMessage,
  fromHeaders,
  type Metadata,
  toHeaders,
} from './metadata.ts';

export const STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;

/** The status of each of our codes. */
export const STATUS_OF: Readonly<Record<ErrorCode, number>> = {
  canceled: STATUS.cancelled,
  timeout: STATUS.deadlineExceeded,
  suspended: STATUS.failedPrecondition,
  fenced: STATUS.aborted,
  conflict: STATUS.aborted,
  closed: STATUS.unavailable,
  interrupted: STATUS.unavailable,
  not_found: STATUS.notFound,
  invalid: STATUS.invalidArgument,
  unsupported: STATUS.unimplemented,
  unauthorized: STATUS.unauthenticated,
  too_large: STATUS.resourceExhausted,
  peer_exited: STATUS.unavailable,
  response_lost: STATUS.dataLoss,
  malformed: STATUS.invalidArgument,
  network: STATUS.unavailable,
  rate_limited: STATUS.resourceExhausted,
  overloaded: STATUS.unavailable,
  server: STATUS.internal,
  content_filter: STATUS.failedPrecondition,
  max_steps: STATUS.failedPrecondition,
  tool: STATUS.unknown,
  internal: STATUS.internal,
};

const CODES: readonly ErrorCode[] = [
  'malformed', // 0 is no failure
  'canceled',
  'server',
  'invalid',
  'timeout',
  'not_found',
  'conflict',
  'unauthorized',
  'rate_limited',
  'invalid',
  'conflict',
  'invalid',
  'unsupported',
  'server',
  'network',
  'response_lost',
  'unauthorized',
];

/** Our own code, exactly: it wins over the status, which is coarser, where the peer is one of ours. */
const CODE_KEY = 'duolane-code';

/**
 * A status with its trailers, word for word: the `cause` of what a client throws, so that whoever
 * stands between two peers passes it on unchanged; and what a handler hangs on its error as the
 * cause to choose status and trailers itself, `grpc-status-details-bin` among them.
 */
export class GrpcStatus extends Error {
  override readonly name = 'GrpcStatus';
  readonly status: number;
  readonly trailers: Metadata;

  constructor(status: number, message: string, trailers: Metadata = {}) {
    super(message);
    this.status = status;
    this.trailers = trailers;
  }
}

/** The status that an error came with, or was given. */
export const statusOf = (error: unknown): GrpcStatus | undefined =>
  error instanceof DuolaneError && error.cause instanceof GrpcStatus ? error.cause : undefined;

/**
 * Characters of an encoded `grpc-message`. Node resets a stream whose trailers exceed 64 KiB, and the
 * client then learns neither status nor words.
 */
const MAX_MESSAGE = 16_384;
/** A character takes at most nine when it is encoded. */
const CUT_MESSAGE = 1_500;

function toMessage(text: string): string {
  // Encoding makes no text shorter, and takes a second for a megabyte.
  const encoded = text.length <= MAX_MESSAGE ? encodeStatusMessage(text) : undefined;
  return encoded !== undefined && encoded.length <= MAX_MESSAGE
    ? encoded
    : encodeStatusMessage(`${text.slice(0, CUT_MESSAGE)} … (cut)`);
}

/** Any failure as trailers. Of what went wrong inside (`internal`) only that it did leaves the process. */
export function toTrailers(reason: unknown): OutgoingHttpHeaders {
  const error = DuolaneError.from(reason);
  const given = statusOf(error);
  if (given)
    return {
      ...toHeaders(given.trailers),
      'grpc-status': given.status,
      'grpc-message': toMessage(given.message),
    };
  const message = error.code === 'internal' ? 'internal error' : error.message;
  return {
    'grpc-status': STATUS_OF[error.code],
    'grpc-message': toMessage(message),
    [CODE_KEY]: error.code,
  };
}

/** What the end of a call says: nothing if all is well, else what to throw. */
export function fromTrailers(trailers: IncomingHttpHeaders): DuolaneError | undefined {
  const { 'grpc-status': status, 'grpc-message': text = '' } = trailers;
  if (status === '0') return undefined;
  const number = /^\d{1,3}$/.test(String(status)) ? Number(status) : undefined;
  if (number === undefined)
    return new DuolaneError('malformed', 'the peer ended a gRPC call without a status');
  const message = decodeMessage(String(text)) || `the peer ended the call with status ${number}`;
  const named = trailers[CODE_KEY];
  const code = isCode(named) ? named : (CODES[number] ?? 'server');
  return failure(code, number, message, fromHeaders(trailers));
}

const isCode = (value: unknown): value is ErrorCode =>
  typeof value === 'string' && Object.hasOwn(RETRYABLE, value);

const failure = (
  code: ErrorCode,
  status: number,
  message: string,
  trailers?: Metadata,
): DuolaneError =>
  new DuolaneError(code, message, { cause: new GrpcStatus(status, message, trailers) });

const OF_HTTP: ReadonlyMap<number, number> = new Map([
  [400, STATUS.internal],
  [401, STATUS.unauthenticated],
  [403, STATUS.permissionDenied],
  [404, STATUS.unimplemented],
  [429, STATUS.unavailable],
  [502, STATUS.unavailable],
  [503, STATUS.unavailable],
  [504, STATUS.unavailable],
]);

/** An answer that is not gRPC at all, as from a proxy in between. */
export function fromHttp(httpStatus: number): DuolaneError {
  const status = OF_HTTP.get(httpStatus) ?? STATUS.unknown;
  return failure(
    CODES[status]!,
    status,
    `the other end answered HTTP ${httpStatus} and not gRPC; check the address and what stands before it`,
  );
}

/** NO_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY; any other is `internal`. */
const OF_RESET: ReadonlyMap<number, number> = new Map([
  [7, STATUS.unavailable],
  [8, STATUS.cancelled],
  [11, STATUS.resourceExhausted],
  [12, STATUS.permissionDenied],
]);

/** A stream that was reset before it had said its status. */
export function fromReset(reset: number): DuolaneError {
  const status = OF_RESET.get(reset) ?? STATUS.internal;
  return failure(
    CODES[status]!,
    status,
    `the peer broke the call off (HTTP/2 code ${reset}) before its status`,
  );
}
