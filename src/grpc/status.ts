import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import {
  DuolaneError,
  type ErrorCode,
  malformed,
  RETRYABLE,
  toPublicFailure,
  type PeerCause,
} from '../errors.ts';
import {
  decodeMessage,
  encodeStatusMessage,
  fromHeaders,
  type Metadata,
  toHeaders,
} from './metadata.ts';

/** The status codes of gRPC. */
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

/** The gRPC status of each `ErrorCode`. */
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
  'malformed', // 0 is OK, never an error
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

/**
 * The trailer with our exact code. It takes precedence over the coarser status, if the peer is
 * Duolane.
 */
const CODE_KEY = 'duolane-code';

/**
 * A status with its trailers, unchanged. It is the `cause` of the errors of a client, so that a
 * program between two peers can forward it; and a handler sets it as the cause of its error to
 * choose the status and the trailers, `grpc-status-details-bin` among them.
 */
export class GrpcStatus extends Error implements PeerCause {
  override readonly name = 'GrpcStatus';
  readonly status: number;
  readonly trailers: Metadata;
  /** False if `message` stands for a text that must not leave the process. */
  readonly isFromPeer: boolean;

  constructor(status: number, message: string, trailers: Metadata = {}, isFromPeer = true) {
    super(message);
    this.status = status;
    this.trailers = trailers;
    this.isFromPeer = isFromPeer;
  }
}

/** The status that an error was received with, or that a handler gave it. */
export const statusOf = (error: unknown): GrpcStatus | undefined =>
  error instanceof DuolaneError && error.cause instanceof GrpcStatus ? error.cause : undefined;

/**
 * The longest encoded `grpc-message` in characters. Node resets a stream whose trailers exceed 64
 * KiB, and the client would then get neither status nor message.
 */
const MAX_MESSAGE = 16_384;
/**
 * Characters that are kept of a message that is too long: one takes at most nine when it is
 * encoded.
 */
const CUT_MESSAGE = 1_500;

function toMessage(text: string): string {
  // Encoding never shortens a text, and takes a second for a megabyte, so the length is checked
  // first.
  const encoded = text.length <= MAX_MESSAGE ? encodeStatusMessage(text) : undefined;
  return encoded !== undefined && encoded.length <= MAX_MESSAGE
    ? encoded
    : encodeStatusMessage(`${text.slice(0, CUT_MESSAGE)} … (cut)`);
}

/**
 * Converts any failure to trailers. The server reports what `toPublicFailure` withholds from a
 * peer.
 */
export function toTrailers(reason: unknown): OutgoingHttpHeaders {
  const error = DuolaneError.from(reason);
  const given = statusOf(error);
  if (given)
    return {
      ...toHeaders(given.trailers),
      'grpc-status': given.status,
      'grpc-message': toMessage(given.message),
    };
  const { code, message } = toPublicFailure(error, 'peer').failure;
  return {
    'grpc-status': STATUS_OF[code],
    'grpc-message': toMessage(message),
    [CODE_KEY]: code,
  };
}

/** Converts the trailers of a call to its error; `undefined` if the status is OK. */
export function fromTrailers(trailers: IncomingHttpHeaders): DuolaneError | undefined {
  const { 'grpc-status': status, 'grpc-message': text = '' } = trailers;
  if (status === '0') return undefined;
  const number = /^\d{1,3}$/.test(String(status)) ? Number(status) : undefined;
  if (number === undefined)
    return malformed('the peer sent no status at the end of a gRPC call: expected grpc-status');
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

/** The error for a response that is not gRPC, e.g. of a proxy in between. */
export function fromHttp(httpStatus: number): DuolaneError {
  const status = OF_HTTP.get(httpStatus) ?? STATUS.unknown;
  return failure(
    CODES[status]!,
    status,
    `the server sent HTTP ${httpStatus}: expected gRPC; check the address and the proxies in front of it`,
  );
}

/**
 * Statuses of REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY; any other code is
 * `internal`.
 */
const OF_RESET: ReadonlyMap<number, number> = new Map([
  [7, STATUS.unavailable],
  [8, STATUS.cancelled],
  [11, STATUS.resourceExhausted],
  [12, STATUS.permissionDenied],
]);

/** The error for a stream that was reset before it had a status. */
export function fromReset(reset: number): DuolaneError {
  const status = OF_RESET.get(reset) ?? STATUS.internal;
  return failure(
    CODES[status]!,
    status,
    `the peer reset the call before its status (HTTP/2 code ${reset})`,
  );
}
