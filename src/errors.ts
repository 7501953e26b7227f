/**
 * What went wrong, as a closed list: one for what we throw, what an event reports and what each
 * wire maps. `docs/reference/errors.md` says for each what happened and what to do.
 */
export type ErrorCode =
  // the life of a run or a call
  | 'canceled'
  | 'timeout'
  | 'suspended'
  | 'fenced'
  | 'conflict'
  | 'closed'
  | 'interrupted'
  // the caller's doing
  | 'not_found'
  | 'invalid'
  | 'unsupported'
  | 'unauthorized'
  | 'too_large'
  // the other end of a wire
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

/** For each code, whether trying the same thing again may help; an error may say otherwise. */
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

/** An error as data, in events and logs. The text of `internal` never leaves the process. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  /** The HTTP status, where there was one. */
  readonly status?: number;
  readonly retryAfterMs?: number;
}

export interface DuolaneErrorOptions extends ErrorOptions {
  readonly retryable?: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/**
 * The one class that we throw. Its message says what happened and what to do; `toJSON()` is its
 * `Failure`. A failed tool is a result (`isError`) and a failed agent an outcome, never a throw
 * across a seam. An aborted iteration throws the signal's reason; one left by `break` ends quietly.
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
   * Anything that was thrown, as a DuolaneError with the original as its cause. The platform's
   * AbortError and TimeoutError keep their meaning; everything else gets `code`.
   */
  static from(reason: unknown, code: ErrorCode = 'internal'): DuolaneError {
    if (reason instanceof DuolaneError) return reason;
    if (!(reason instanceof Error))
      return new DuolaneError(code, errorMessage(reason), { cause: reason });
    const known: Record<string, ErrorCode> = { AbortError: 'canceled', TimeoutError: 'timeout' };
    return new DuolaneError(known[reason.name] ?? code, reason.message, { cause: reason });
  }

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

/**
 * Codes whose message is written for the caller: it names what the caller sent or asked for. Every
 * other message may hold what belongs to the server (an address, a user of the database, a path).
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

/** What a caller reads in place of a message that is withheld. */
export const WITHHELD = 'The server failed; its log says why.';

/**
 * Anything that was thrown, as a server may answer it: code, `retryable` and `retryAfterMs` stay, the
 * message only if it is written for callers. `withheld`: write the original to the log of the server.
 */
export function publicFailure(reason: unknown): {
  readonly failure: Failure;
  readonly withheld: boolean;
} {
  const { status: _, ...failure } = DuolaneError.from(reason).toJSON();
  const withheld = !FOR_CALLERS.has(failure.code);
  return { failure: withheld ? { ...failure, message: WITHHELD } : failure, withheld };
}

/** The message of anything that was thrown. Never throws, also for a value without `toString`. */
export function errorMessage(reason: unknown): string {
  if (reason instanceof Error) return reason.message;
  try {
    return String(reason);
  } catch {
    // A value may throw when it is converted to text.
    return 'a value that cannot be converted to text was thrown';
  }
}
