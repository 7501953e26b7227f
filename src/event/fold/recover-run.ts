import type { ErrorCode, Failure } from '../../errors.ts';
import { RETRYABLE } from '../../errors.ts';
import { answerBelongsTo, belongsTo, isDelta } from './entry-rules.ts';
import type { Agent, AgentEvent, OpenCall, Snapshot } from '../types.ts';
import { usageSince } from '../usage.ts';

/** The text of a canceled run's end. */
export const CANCELED_TEXT = 'Response stopped.';

/**
 * Returns the events that end or continue a run whose claim holder is gone. They are valid after
 * `snapshot`.
 *
 * - Canceling: open calls fail, and the run ends as canceled.
 * - A question is open, or an answer is not spent: the run ends as input-required, since a wait
 *   must not fail. The agent is called again once nothing is pending.
 * - The agent is resumable: open calls fail as `interrupted`, then the agent is called again. An
 *   agent that `continues` gets the calls whose tool was called, and closes them itself.
 * - A durable wait is open: the run is suspended, since a wait must not fail.
 * - Otherwise the run fails as `interrupted`.
 *
 * A suspended run is left as it is: its wait goes on. Between runs there is nothing to recover
 * except a cancel.
 */
export function recoverRun(
  snapshot: Snapshot,
  agent: Pick<Agent, 'resumable' | 'continues'>,
): AgentEvent[] {
  const { calls, text } = snapshot;
  const used = snapshot.running ? usageSince(snapshot.mark?.usage, snapshot.usage) : {};
  const usage = Object.keys(used).length > 0 && { usage: used };
  if (snapshot.canceling)
    return [
      ...failOpenCalls(calls, 'canceled'),
      { type: 'run.finished', outcome: 'canceled', text: CANCELED_TEXT, ...usage },
    ];
  if (!snapshot.running || snapshot.suspended) return [];
  // A call whose arguments were still arriving can never be finished, so the task does not wait for
  // its questions.
  const unmade = calls.filter((call) => call.partial);
  const pending = snapshot.pending.filter(
    (request) => !unmade.some(({ callId }) => belongsTo(request, callId)),
  );
  const isAnswered = snapshot.answers.some(
    (answer) =>
      !unmade.some(({ callId }) => answerBelongsTo(answer, snapshot.answered ?? [], callId)),
  );
  if (pending.length > 0 || isAnswered)
    return [
      ...failOpenCalls(unmade, 'interrupted'),
      { type: 'run.finished', outcome: 'input-required', text, pending, ...usage },
    ];
  // An agent with durable steps repeats its calls, and finds the results of those that finished.
  if (agent.resumable && snapshot.steps && !agent.continues) return [];
  if (agent.resumable) return failOpenCalls(agent.continues ? unmade : calls, 'interrupted');
  if (snapshot.waits) return [...failOpenCalls(calls, 'interrupted'), { type: 'run.suspended' }];
  const error = failure(
    'interrupted',
    'The process that ran this task stopped before it finished. Send the message again.',
  );
  return [
    ...failOpenCalls(calls, 'interrupted'),
    { type: 'run.finished', outcome: 'failed', text, error, ...usage },
  ];
}

/**
 * Adapts a batch of events to a note that was appended before it; `snapshot` includes that note.
 * After a cancel, deltas and the ends of their blocks are dropped, and the end of the run becomes
 * canceled, with every open call closed. Any other batch is returned as it is.
 */
export function rebaseEvents(
  snapshot: Snapshot,
  events: readonly AgentEvent[],
): readonly AgentEvent[] {
  if (!snapshot.canceling) return events;
  const open = new Map(snapshot.calls.map((call) => [call.callId, call]));
  return events.flatMap((event): AgentEvent[] => {
    if (isDelta(event) || event.type === 'text.end' || event.type === 'reasoning.end') return [];
    if (event.type === 'tool.started' || event.type === 'tool.called')
      open.set(event.callId, { ...event, args: null });
    if (event.type === 'tool.completed' || event.type === 'tool.failed') open.delete(event.callId);
    if (event.type !== 'run.finished' || event.outcome === 'canceled') return [event];
    const { usage, at } = event;
    return [
      ...failOpenCalls([...open.values()], 'canceled'),
      {
        type: 'run.finished',
        outcome: 'canceled',
        text: CANCELED_TEXT,
        ...(usage !== undefined && { usage }),
        ...(at !== undefined && { at }),
      },
    ];
  });
}

/** Returns a `tool.failed` for each call: an end must close the calls that are open. */
export function failOpenCalls(
  calls: Iterable<Pick<OpenCall, 'callId' | 'name'>>,
  code: ErrorCode,
): AgentEvent[] {
  const error = failure(
    code,
    code === 'canceled'
      ? 'The run was canceled before this call finished.'
      : 'The run ended before this call did; whether the tool ran is unknown.',
  );
  return Array.from(calls, ({ callId, name }) => ({ type: 'tool.failed', callId, name, error }));
}

function failure(code: ErrorCode, message: string): Failure {
  return { code, message, retryable: RETRYABLE[code] };
}
