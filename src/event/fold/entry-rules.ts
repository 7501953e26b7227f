import type { Answer, InputRequest } from '../../ask.ts';
import { stepViolation } from './steps.ts';
import { turnOf } from './turns.ts';
import type { Entry, Outcome, Snapshot, TaskState } from '../types.ts';

const FINAL: ReadonlySet<string> = new Set<Outcome>([
  'completed',
  'failed',
  'canceled',
  'rejected',
]);

/** Whether the state is final: no entry, no turn and no run can follow. */
export const isFinal = (state: TaskState): boolean => FINAL.has(state);

/** Whether the event is a piece of a text or of arguments; none may follow a cancel request. */
export const isDelta = (event: { readonly type: string }): boolean =>
  event.type === 'text.delta' || event.type === 'reasoning.delta' || event.type === 'tool.args';

/**
 * Whether a question belongs to this call: it names the call, or its id starts with that of the
 * call if it names none. The model chooses the ids of calls, so that of one may start with that of
 * another (`a` and `a/b`); the prefix alone would mix up their questions.
 */
export const belongsTo = (
  { id, callId }: Pick<InputRequest, 'id' | 'callId'>,
  call: string,
): boolean => (callId === undefined ? id.startsWith(`${call}/`) : callId === call);

/** Whether an answer belongs to this call; `answered` has the questions of the answers. */
export const answerBelongsTo = (
  answer: Pick<Answer, 'id'>,
  answered: readonly InputRequest[],
  call: string,
): boolean => belongsTo(answered.find(({ id }) => id === answer.id) ?? answer, call);

/** The questions and answers that a run finds when it starts. */
export interface OpeningState {
  /** Whether the turn had a run before, which was suspended or interrupted. */
  readonly again: boolean;
  readonly pending: Snapshot['pending'];
  readonly answers: Snapshot['answers'];
  /** The questions of `answers`. */
  readonly answered: readonly InputRequest[];
}

/**
 * Returns what a run of this turn finds. A further run of the same turn goes on with everything. A
 * run of another turn ends the suspended one, and keeps only the questions of calls that are open.
 */
export function openingState(
  { current, pending, answers, answered = [], calls }: Snapshot,
  messageId: string | undefined,
): OpeningState {
  if (current !== undefined && current.messageId === messageId)
    return { again: true, pending, answers, answered };
  const open = (request: InputRequest): boolean =>
    calls.some(({ callId }) => belongsTo(request, callId));
  return {
    again: false,
    pending: pending.filter(open),
    answers: answers.filter((answer) =>
      calls.some(({ callId }) => answerBelongsTo(answer, answered, callId)),
    ),
    answered: answered.filter(open),
  };
}

/** Returns the rule that forbids this entry after the snapshot; undefined if the entry is valid. */
export function entryViolation(snapshot: Snapshot, entry: Entry): string | undefined {
  if (entry.seq !== snapshot.seq + 1)
    return `entries are numbered without gaps: after ${snapshot.seq} comes ${snapshot.seq + 1}`;
  if (entry.type === 'turn.submitted') return turnViolation(snapshot, entry.turn);
  if (entry.type === 'cancel.requested') return undefined;
  if (entry.type === 'run.started') return startViolation(snapshot, entry);
  if (!snapshot.running && !(snapshot.canceling && isEnd(entry)))
    return 'a run opens with run.started, and none is open';
  if (snapshot.suspended && !snapshot.canceling)
    return 'the run is suspended; it goes on with run.started';
  if (snapshot.canceling && isDelta(entry)) return 'no delta follows cancel.requested';
  return runViolation(snapshot, entry);
}

// A cancel may end a task between runs: then only its open calls and its end are written.
const isEnd = ({ type }: Entry): boolean => type === 'tool.failed' || type === 'run.finished';

function turnViolation(snapshot: Snapshot, turn: Snapshot['turns'][number]): string | undefined {
  if (turn.task !== snapshot.task) return `the turn is for task ${turn.task}`;
  if (turnOf(snapshot, turn.messageId)) return `the log already has message ${turn.messageId}`;
  return undefined;
}

function startViolation(
  snapshot: Snapshot,
  { turn, attempt }: Extract<Entry, { readonly type: 'run.started' }>,
): string | undefined {
  const { current, running } = snapshot;
  if (turn !== undefined && !turnOf(snapshot, turn))
    return `no turn of this task has the message id ${turn}`;
  const same = turn === undefined ? running : turn === current?.messageId;
  if (running && !same) return `the run of message ${current?.messageId} has not ended`;
  if (same && attempt !== undefined && attempt <= snapshot.attempt)
    return `a further attempt must have a higher number than ${snapshot.attempt}, got ${attempt}`;
  return undefined;
}

function runViolation(snapshot: Snapshot, entry: Entry): string | undefined {
  switch (entry.type) {
    case 'tool.started':
    case 'tool.called': {
      const open = snapshot.calls.find((call) => call.callId === entry.callId);
      return open && (entry.type === 'tool.started' || !open.partial)
        ? `call ${entry.callId} is open already`
        : undefined;
    }
    case 'tool.args':
    case 'tool.progress':
    case 'tool.completed':
    case 'tool.failed':
      return snapshot.calls.some((call) => call.callId === entry.callId)
        ? undefined
        : `call ${entry.callId} is not open; a call closes exactly once`;
    case 'input.required':
      return snapshot.pending.some((asked) => asked.id === entry.request.id)
        ? `question ${entry.request.id} is pending already`
        : undefined;
    case 'step.stored':
      return stepViolation(snapshot, entry);
    case 'run.suspended':
      return snapshot.waits?.length
        ? undefined
        : 'a run without a durable wait cannot be suspended';
    case 'run.finished':
      return endViolation(snapshot, entry.outcome);
    default:
      return undefined;
  }
}

function endViolation(snapshot: Snapshot, outcome: Outcome): string | undefined {
  if (snapshot.canceling && outcome !== 'canceled')
    return `after cancel.requested a run ends as canceled, not as ${outcome}`;
  const waits = outcome === 'input-required';
  const open = snapshot.calls.find((call) => call.partial || !waits);
  if (open) return `call ${open.callId} is open; close it first`;
  if (waits && snapshot.pending.length === 0 && snapshot.answers.length === 0)
    return 'a run without an open question cannot end as input-required';
  return undefined;
}
