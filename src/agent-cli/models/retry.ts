import type { DuolaneError } from '../../errors.ts';
import { abortable, sleep } from '../../stream/abort.ts';
import { modelError } from '../../event/retry/model-error.ts';
import { DEFAULT_RETRY, retryDelay, type RetryPolicy } from '../../event/retry/retry-policy.ts';
import type { Model, ModelEvent, ModelRequest } from './types.ts';

/** An attempt failed; the next one starts after `delayMs`. All events of the attempt are void. */
export interface Retry {
  readonly type: 'retry';
  readonly attempt: number;
  readonly maxRetries: number;
  readonly delayMs: number;
  readonly error: DuolaneError;
}

/** An attempt starts. Its time is needed for the time to the first token. */
export interface Attempt {
  readonly type: 'attempt';
  readonly attempt: number;
}

/**
 * Streams one message of the model, with retries. Each attempt begins with `attempt`; one that
 * fails and is retried ends with `retry`, and the last failure is thrown. An abort ends a wait
 * immediately. `mayRetry` returns false if the message has had effects already: it must not be
 * requested twice.
 */
export async function* streamWithRetry(
  model: Model,
  request: ModelRequest,
  {
    signal,
    policy = DEFAULT_RETRY,
    mayRetry = () => true,
  }: {
    readonly signal: AbortSignal;
    readonly policy?: RetryPolicy;
    readonly mayRetry?: () => boolean;
  },
): AsyncGenerator<ModelEvent | Retry | Attempt, void, undefined> {
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted();
    yield { type: 'attempt', attempt };
    try {
      // A driver that ignores its signal is abandoned on an abort.
      yield* abortable(model.stream(request, { signal }), signal);
      return;
    } catch (reason) {
      signal.throwIfAborted();
      const error = modelError(reason);
      const delayMs = mayRetry() ? retryDelay(policy, error, attempt) : undefined;
      if (delayMs === undefined) throw error;
      yield { type: 'retry', attempt, maxRetries: policy.maxRetries, delayMs, error };
      await sleep(delayMs, signal);
    }
  }
}
