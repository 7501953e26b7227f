import type { DuolaneError } from '../../errors.ts';

/** When and how often `withRetry` calls an agent again. */
export interface RetryPolicy {
  readonly maxRetries: number;
  /** The first delay; each further one is twice as long, and up to a tenth is added to each. */
  readonly baseMs: number;
  /** No delay is longer, whatever `Retry-After` says. */
  readonly maxDelayMs: number;
}

/** The largest share of a delay that is added at random. */
const JITTER = 0.1;

export const DEFAULT_RETRY: RetryPolicy = { maxRetries: 2, baseMs: 2000, maxDelayMs: 60_000 };

/**
 * Returns the delay before attempt `attempt + 1`, or undefined to give up. `attempt` counts from 1.
 * Only retryable failures (429, 5xx, network) are retried; a longer `Retry-After` is honoured up to
 * `maxDelayMs`. A random addition spreads the retries of clients that failed at the same time.
 */
export function retryDelay(
  policy: RetryPolicy,
  failure: Pick<DuolaneError, 'retryable' | 'retryAfterMs'>,
  attempt: number,
): number | undefined {
  if (!failure.retryable || attempt > policy.maxRetries) return undefined;
  const backoff = policy.baseMs * 2 ** (attempt - 1);
  const delay = Math.max(backoff, failure.retryAfterMs ?? 0) * (1 + JITTER * Math.random());
  return Math.min(Math.round(delay), policy.maxDelayMs);
}
