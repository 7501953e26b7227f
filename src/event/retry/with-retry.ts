import { DuolaneError, type Failure } from '../../errors.ts';
import { sleep } from '../../stream/abort.ts';
import { DEFAULT_RETRY, retryDelay, type RetryPolicy } from './retry-policy.ts';
import { failOpenCalls } from '../fold/recover-run.ts';
import { inheritAgentFlags } from '../run/agent-flags.ts';
import type { Agent, AgentEvent } from '../types.ts';

/**
 * Decorates an agent so that it is called again when its model failed: after 429, 5xx and network
 * errors, at most `maxRetries` times, with delays that double from `baseMs`; a longer `Retry-After`
 * is honoured. Use it for agents whose framework does not retry, or with the framework's retries
 * switched off.
 *
 * A run is repeated only while all of it can be discarded: before its first `tool.called`, artifact
 * or question, and during its first step. A `retry` event announces each further attempt and voids
 * the text so far; calls whose arguments were still arriving are closed as failed. The last failure
 * passes through as it is. A cancel ends a delay immediately.
 *
 * @example
 * ```ts
 * const reliable = withRetry(agent, { maxRetries: 3 });
 * ```
 */
export function withRetry(agent: Agent, policy: Partial<RetryPolicy> = {}): Agent {
  const rules = { ...DEFAULT_RETRY, ...policy };
  const retrying: Agent = async function* (turn, ctx) {
    for (let attempt = 1; ; attempt++) {
      const trial = new RetryAttempt();
      const waitFor = (error: Failure): number | undefined =>
        trial.undoable && !ctx.signal.aborted ? retryDelay(rules, error, attempt) : undefined;
      let failed: { readonly error: Failure; readonly delayMs: number } | undefined;
      try {
        for await (const event of agent(turn, ctx)) {
          const delayMs = isFailed(event) ? waitFor(event.error) : undefined;
          if (isFailed(event) && delayMs !== undefined) {
            failed = { error: event.error, delayMs };
            break;
          }
          trial.see(event);
          yield event;
        }
      } catch (thrown) {
        const error = DuolaneError.from(thrown);
        const delayMs = waitFor(error);
        if (delayMs === undefined) throw thrown;
        failed = { error, delayMs };
      }
      if (!failed) return;
      yield* failOpenCalls(trial.partial, 'interrupted');
      yield { type: 'retry', attempt, ...failed, discard: trial.spoke };
      await sleep(failed.delayMs, ctx.signal);
    }
  };
  return inheritAgentFlags(agent, retrying);
}

type Failed = Extract<AgentEvent, { readonly type: 'run.finished' }> & { readonly error: Failure };

const isFailed = (event: AgentEvent): event is Failed =>
  event.type === 'run.finished' && event.outcome === 'failed' && event.error !== undefined;

/** What one attempt has done so far, and whether it can be discarded. */
class RetryAttempt {
  undoable = true;
  spoke = false;
  readonly #started = new Map<string, { readonly callId: string; readonly name: string }>();

  get partial(): readonly { readonly callId: string; readonly name: string }[] {
    return [...this.#started.values()];
  }

  see(event: AgentEvent): void {
    switch (event.type) {
      case 'text.delta':
      case 'text.end':
      case 'reasoning.delta':
      case 'reasoning.end':
        this.spoke = true;
        return;
      case 'tool.started':
        this.#started.set(event.callId, { callId: event.callId, name: event.name });
        return;
      // `retry` voids the text of one step only, so the text of an earlier step would stay.
      case 'step.started':
      case 'step.finished':
        if (this.spoke) this.undoable = false;
        return;
      case 'tool.called':
      case 'tool.completed':
      case 'tool.failed':
      case 'artifact':
      case 'input.required':
        this.undoable = false;
        return;
      default:
        return;
    }
  }
}
