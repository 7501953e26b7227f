/**
 * The closed list of error codes. Thrown errors, events and every protocol mapping use it.
 * `docs/reference/errors.md` explains each code and what to do about it.
 */
export type ErrorCode =
  // the lifecycle of a run or a call
  | 'canceled'
  | 'timeout'
  | 'suspended'
  | 'fenced'
  | 'conflict'
  | 'closed'
  | 'interrupted'
  // mistakes of the caller
  | 'not_found'
  | 'invalid'
  | 'unsupported'
  | 'unauthorized'
  | 'too_large'
  // the peer of a connection
  | 'peer_exited'
  | 'response_lost'
  | 'malformed'
  | 'network'
  // the model, its provider, the agent
  | 'rate_limited'
  | 'overloaded'
  | 'server'
  | 'content_filter'
  | 'max_steps'
  | 'tool'
  | 'internal';

/**
 * For each code, whether a retry may succeed. An error may override it with its own `retryable`.
 */
export const RETRYABLE: Readonly<Record<ErrorCode, boolean>> = {
  canceled: false,
  timeout: true,
  suspended: false,
  fenced: false,
  conflict: true,
  closed: false,
  interrupted: true,
  not_found: false,
  invalid: false,
  unsupported: false,
  unauthorized: false,
  too_large: false,
  peer_exited: false,
  response_lost: false,
  malformed: false,
  network: true,
  rate_limited: true,
  overloaded: true,
  server: true,
  content_filter: false,
  max_steps: false,
  tool: false,
  internal: false,
};

/** An error as data, for events and logs. The message of `internal` never leaves the process. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  /** The HTTP status of the failed request, if it was an HTTP request. */
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/** What a `DuolaneError` carries besides its code and message. */
export interface DuolaneErrorOptions extends ErrorOptions {
  readonly retryable?: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/**
 * The only error class that this package throws. Its message says what happened and how to fix it;
 * `toJSON()` returns its `Failure`.
 *
 * A failed tool is a result with `isError`, and a failed agent is an outcome: neither is thrown to
 * the caller. When a signal aborts, an iteration throws the reason of that signal. Breaking out of
 * a loop does not throw.
 *
 * @example
 * ```ts
 * try {
 *   await client.send('hello');
 * } catch (error) {
 *   if (error instanceof DuolaneError && error.retryable) await sleep(error.retryAfterMs ?? 1000);
 * }
 * ```
 */
export class DuolaneError extends Error implements Failure {
  override readonly name: string = 'DuolaneError';
  readonly code: ErrorCode;
  readonly retryable: boolean;
  declare readonly status?: number;
  declare readonly retryAfterMs?: number;

  constructor(code: ErrorCode, message: string, options: DuolaneErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? RETRYABLE[code];
    if (options.status !== undefined) this.status = options.status;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
  }

  /**
   * Converts any thrown value to a DuolaneError, with the original as its cause. `AbortError`
   * becomes `canceled` and `TimeoutError` becomes `timeout`; everything else gets `code`.
   */
  static from(reason: unknown, code: ErrorCode = 'internal'): DuolaneError {
    if (reason instanceof DuolaneError) return reason;
    if (!(reason instanceof Error))
      return new DuolaneError(code, errorMessage(reason), { cause: reason });
    const known: Record<string, ErrorCode> = { AbortError: 'canceled', TimeoutError: 'timeout' };
    return new DuolaneError(known[reason.name] ?? code, reason.message, { cause: reason });
  }

  /** The error as data, without its stack and cause. */
  toJSON(): Failure {
    const { code, message, retryable, status, retryAfterMs } = this;
    return {
      code,
      message,
      retryable,
      ...(status !== undefined && { status }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
  }
}

/** Creates the error for a mistake of the caller: an argument, an option or a request. */
export const invalid = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('invalid', message, { cause });

/** Creates the error for what a peer sent and its protocol does not allow. */
export const malformed = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('malformed', message, { cause });

/** Creates the error for what this side, or the peer, cannot do. */
export const unsupported = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('unsupported', message, { cause });

/** Creates the error for a name or an id that does not exist, or is not the caller's. */
export const notFound = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('not_found', message, { cause });

/** Creates the error for a caller without valid credentials. */
export const unauthorized = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('unauthorized', message, { cause });

/** Creates the error for what exceeds a limit. */
export const tooLarge = (message: string, cause?: unknown): DuolaneError =>
  new DuolaneError('too_large', message, { cause });

/**
 * Codes whose message is written for the caller: it names what the caller sent or requested. Every
 * other message may contain private data of the server, such as an address, a database user or a
 * path.
 */
const FOR_CALLERS: ReadonlySet<ErrorCode> = new Set([
  'canceled',
  'conflict',
  'closed',
  'interrupted',
  'not_found',
  'invalid',
  'unsupported',
  'unauthorized',
  'too_large',
  'malformed',
  'rate_limited',
  'overloaded',
]);

/** The message that a caller gets in place of one that may contain private data. */
export const WITHHELD = 'the server failed; its log has the cause';

/**
 * What a peer gets in place of messages that may contain private data: the address of another
 * server, which often has a key in it, the text of that server, the stderr of a program. The text
 * still says which kind of failure it was.
 */
const FOR_PEERS: Partial<Record<ErrorCode, string>> = {
  internal: 'internal error',
  network: 'another server that the request needs cannot be reached; the log has the cause',
  server: 'another server that the request needs has failed; the log has the cause',
  peer_exited: 'a program that the request needs has exited; the log has the cause',
};

/**
 * The cause of an error that another peer sent. That peer has decided what the message may say, so
 * it is passed on unchanged, also over another protocol.
 */
export interface PeerCause {
  readonly isFromPeer: boolean;
}

const isFromPeer = (cause: unknown): boolean =>
  typeof cause === 'object' && cause !== null && 'isFromPeer' in cause && cause.isFromPeer === true;

/**
 * Who gets a failure. `caller`: anyone who may use a server. `peer`: a program that speaks JSON-RPC
 * or gRPC with this process. It gets more messages, since it has to distinguish the timeout of a
 * tool from a lost connection.
 */
export type Audience = 'caller' | 'peer';

/**
 * Converts any thrown value to the failure that may leave the process. Code, `retryable` and
 * `retryAfterMs` stay; the message stays only if it is written for this audience. If `withheld` is
 * true, the caller of this function must write the original error to a log.
 */
export function toPublicFailure(
  reason: unknown,
  audience: Audience = 'caller',
): { readonly failure: Failure; readonly withheld: boolean } {
  const error = DuolaneError.from(reason);
  const { status: _, ...failure } = error.toJSON();
  const shown =
    audience === 'peer'
      ? isFromPeer(error.cause)
        ? undefined
        : FOR_PEERS[failure.code]
      : FOR_CALLERS.has(failure.code)
        ? undefined
        : WITHHELD;
  const message = shown ?? failure.message;
  return { failure: { ...failure, message }, withheld: shown !== undefined };
}

/**
 * Returns the message of any thrown value. It never throws, not even for a value without
 * `toString`.
 */
export function errorMessage(reason: unknown): string {
  if (reason instanceof Error) return reason.message;
  try {
    return String(reason);
  } catch {
    // The conversion of a value to text may throw, e.g. of Object.create(null).
    return 'a value that cannot be converted to text was thrown';
  }
}
