import type { DuolaneError } from '../../errors.ts';

export interface RetryPolicy {
  readonly maxRetries: number;
  /** The first wait; each further one is twice the one before. */
  readonly baseMs: number;
  /** No wait is longer, whatever `Retry-After` says. */
  readonly maxDelayMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { maxRetries: 2, baseMs: 2000, maxDelayMs: 60_000 };

/**
 * How long to wait before attempt `attempt + 1`, or undefined: give up. `attempt` counts from 1.
 * 429, 5xx and trouble of the network are retried, everything else at once is final; a longer
 * `Retry-After` is honoured up to the cap.
 */
export function retryDelay(
  policy: RetryPolicy,
  failure: Pick<DuolaneError, 'retryable' | 'retryAfterMs'>,
  attempt: number,
): number | undefined {
  if (!failure.retryable || attempt > policy.maxRetries) return undefined;
  const backoff = policy.baseMs * 2 ** (attempt - 1);
  return Math.min(Math.max(backoff, failure.retryAfterMs ?? 0), policy.maxDelayMs);
}
