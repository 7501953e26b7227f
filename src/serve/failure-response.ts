import { publicFailure, type ErrorCode, type Failure } from '../errors.ts';
import type { Logger } from '../event/types.ts';
import type { HttpRoute } from './router.ts';

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

/** When to try again, if the failure itself does not say: a database that restarts needs some seconds. */
export const RETRY_AFTER_MS = 5000;

/**
 * What a caller learns of anything that was thrown. A message that is withheld goes to the log of the
 * server, so it is in exactly one place. A failure that may pass says when to try again.
 */
export function reportFailure(error: unknown, logger: Logger, what = 'a request failed'): Failure {
  const { failure, withheld } = publicFailure(error);
  if (withheld) logger.error(what, { error: textOf(error), ...stackOf(error) });
  return failure.retryable && failure.code !== 'conflict'
    ? { retryAfterMs: RETRY_AFTER_MS, ...failure }
    : failure;
}

/** The same as a response: 503 for a failure of the server that may pass, 500 for any other. */
export function failureResponse(error: unknown, logger: Logger): Response {
  const failure = reportFailure(error, logger);
  const { code, retryable, retryAfterMs } = failure;
  const status = STATUS[code] ?? (retryable ? 503 : 500);
  const seconds = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1000);
  return Response.json(
    { error: failure },
    { status, ...(seconds !== undefined && { headers: { 'retry-after': String(seconds) } }) },
  );
}

/** The route, answering what its handler throws. */
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

function textOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : undefined;
  return cause ? `${String(error)} (${String(cause)})` : String(error);
}

function stackOf(error: unknown): { readonly stack?: string } {
  const stack = error instanceof Error ? error.stack : undefined;
  return stack === undefined ? {} : { stack };
}
