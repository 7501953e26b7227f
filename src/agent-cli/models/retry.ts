import type { DuolaneError } from '../../errors.ts';
import { abortable, sleep } from '../../stream/abort.ts';
import { modelError } from '../../event/retry/model-error.ts';
import { DEFAULT_RETRY, retryDelay, type RetryPolicy } from '../../event/retry/retry-policy.ts';
import type { Model, ModelEvent, ModelRequest } from './types.ts';

/** An attempt failed and another follows after `delayMs`; all events of this answer so far are void. */
export interface Retry {
  readonly type: 'retry';
  readonly attempt: number;
  readonly maxRetries: number;
  readonly delayMs: number;
  readonly error: DuolaneError;
}

/** When each attempt was sent, for the time to the first token. */
export interface Attempt {
  readonly type: 'attempt';
  readonly attempt: number;
}

/**
 * One answer of the model, with retries. Every attempt is announced, every failed one that is tried
 * again ends in `retry`, and the last failure is thrown. Aborting ends a wait at once. `mayRetry`
 * can veto: an answer that already had effects must not be asked for twice.
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
      // A model that does not hear the signal is left all the same.
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
