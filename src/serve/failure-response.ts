import { toPublicFailure, type ErrorCode, type Failure } from '../errors.ts';
import type { Logger } from '../event/types.ts';
import type { HttpRoute } from './router.ts';
import { jsonResponse } from '../http/text-response.ts';

const STATUS: Partial<Record<ErrorCode, number>> = {
  not_found: 404,
  invalid: 400,
  malformed: 400,
  unsupported: 400,
  closed: 409,
  conflict: 409,
  canceled: 409,
  too_large: 413,
  unauthorized: 401,
  rate_limited: 429,
  overloaded: 429,
};

/**
 * The default of `retryAfterMs` for a failure that may pass: a database needs seconds to restart.
 */
export const RETRY_AFTER_MS = 5000;

/**
 * Converts anything that was thrown to the failure that a caller gets. If its message is withheld,
 * the original goes to the logger with its stack. A retryable failure gets a `retryAfterMs`, except
 * `conflict`: there the caller must read the current state first, and waiting does not help.
 */
export function reportFailure(error: unknown, logger: Logger, what = 'a request failed'): Failure {
  const { failure, withheld } = toPublicFailure(error);
  if (withheld) logger.error(what, { error: textOf(error), ...stackOf(error) });
  return failure.retryable && failure.code !== 'conflict'
    ? { retryAfterMs: RETRY_AFTER_MS, ...failure }
    : failure;
}

/**
 * `reportFailure` as a response. Codes without a status of their own are 503 if retryable, else
 * 500.
 */
export function failureResponse(error: unknown, logger: Logger): Response {
  const failure = reportFailure(error, logger);
  const { code, retryable, retryAfterMs } = failure;
  const status = STATUS[code] ?? (retryable ? 503 : 500);
  const seconds = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1000);
  return jsonResponse(
    { error: failure },
    { status, ...(seconds !== undefined && { headers: { 'retry-after': String(seconds) } }) },
  );
}

/** Wraps a route so that what its handler throws becomes a failure response. */
export const answered = (route: HttpRoute, logger: Logger): HttpRoute => ({
  ...route,
  async handle(call) {
    try {
      return await route.handle(call);
    } catch (error) {
      return failureResponse(error, logger);
    }
  },
});

/** The text of an error and of its direct cause, which often names the real reason. */
function textOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : undefined;
  return cause ? `${String(error)} (${String(cause)})` : String(error);
}

function stackOf(error: unknown): { readonly stack?: string } {
  const stack = error instanceof Error ? error.stack : undefined;
  return stack === undefined ? {} : { stack };
}
