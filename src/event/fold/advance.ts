import type { InputRequest, SpentAnswer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { deliver, putArtifact } from './artifacts.ts';
import { copySnapshot, type SnapshotDraft } from './copy-snapshot.ts';
import {
  answerBelongsTo,
  belongsTo,
  isFinal,
  entryViolation,
  openingState,
} from './entry-rules.ts';
import type { Entry, Outcome, SaidMessage, Snapshot, TaskState, Turn, Usage } from '../types.ts';
import { foldStep, mayResume, takeEvents } from './steps.ts';
import { addTurn, countTurns, turnOf } from './turns.ts';
import { addUsage } from '../usage.ts';

const MAX_MESSAGES = 100;
const MAX_MESSAGE_CHARS = 256 * 1024;
const MAX_SPENT = 100;
const MAX_SPENT_CHARS = 256 * 1024;

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;

/**
 * Folds one entry: returns the snapshot of the task after it. Stores, runner, server, replay and
 * doctor all use this one pure function. It throws `invalid` for an entry that breaks a rule, and
 * names the rule, and `closed` for an entry after the final one; the given snapshot does not
 * change. A snapshot is plain JSON (except for `bytes` parts), so a fold may stop, be stored and go
 * on in another process.
 *
 * - turn.submitted: submitted. run.started: working.
 * - input.required: input-required or auth-required, until every question is answered.
 * - run.finished: its outcome. It is final unless a turn is unserved; canceled is always final.
 * - cancel.requested: no delta may follow, and the only outcome is canceled.
 * - A call may stay open over an end as input-required; any other end must close it first.
 * - An answer is spent when its call (`<callId>/…`) closes; any other answer, when its run ends and
 *   does not wait. Until then a spent answer is kept for an agent that starts over.
 * - run.suspended: working still, but no run is needed until a durable wait is over.
 * - A question is withdrawn when its call closes, or when its run ends without naming it.
 *
 * An entry costs only what it changes: no list of closed calls, artifacts, parts or text is copied.
 *
 * @example
 * ```ts
 * let task: Snapshot | undefined;
 * for await (const entry of log.read('t1', 0)) task = advance(task, entry);
 * console.log(task?.state, task?.text);
 * ```
 */
export function advance(snapshot: Snapshot | undefined, entry: Entry): Snapshot {
  if (!snapshot) return begin(entry);
  const { state } = snapshot;
  if (isFinal(state))
    throw new DuolaneError(
      'closed',
      `cannot append ${where(snapshot, entry)}: the task has ended as ${state}`,
    );
  const rule = entryViolation(snapshot, entry);
  if (rule !== undefined)
    throw new DuolaneError('invalid', `invalid ${where(snapshot, entry)}: ${rule}`);
  const artifacts = entry.type === 'artifact' ? putArtifact(snapshot, entry) : undefined;
  const draft = copySnapshot(snapshot, artifacts);
  draft.seq = entry.seq;
  draft.updatedAt = entry.at;
  fold(draft, entry);
  return draft;
}

const where = ({ task }: Snapshot, { seq, type }: Entry): string =>
  `entry ${seq} (${type}) of task ${task}`;

/**
 * Returns the turn that the agent is called with next. Undefined if the task waits, is being
 * canceled, or has ended. Durable waits up to `now` (Unix ms) are over; without it, only those
 * whose event has arrived.
 */
export function nextTurn(snapshot: Snapshot, now = 0): Turn | undefined {
  if (isFinal(snapshot.state) || snapshot.canceling) return undefined;
  if (mayResume(snapshot, now)) return snapshot.current;
  if (snapshot.suspended) return undefined;
  // Working without a run: the run was suspended, and every question is answered now.
  if (snapshot.running || snapshot.state === 'working') return snapshot.current;
  return snapshot.unserved[0];
}

/** Whether a runner must claim the task: for a turn, an answered wait, an open run or a cancel. */
export const needsRun = (snapshot: Snapshot): boolean =>
  !isFinal(snapshot.state) && (snapshot.canceling || nextTurn(snapshot) !== undefined);

function begin(entry: Entry): Snapshot {
  if (entry.type !== 'turn.submitted' || entry.seq !== 1)
    throw new DuolaneError(
      'invalid',
      `invalid entry ${entry.seq} (${entry.type}): a task must begin with turn.submitted as entry 1`,
    );
  const { turn, at } = entry;
  const draft: SnapshotDraft = {
    task: turn.task,
    context: turn.context,
    agent: turn.agent,
    seq: entry.seq,
    createdAt: at,
    updatedAt: at,
    state: 'submitted',
    canceling: false,
    running: false,
    attempt: 0,
    turns: [turn],
    unserved: [turn],
    calls: [],
    pending: [],
    answers: [],
    text: '',
    artifacts: [],
  };
  if (turn.owner !== undefined) draft.owner = turn.owner;
  return draft;
}

function fold(draft: SnapshotDraft, entry: Entry): void {
  switch (entry.type) {
    case 'turn.submitted':
      return submit(draft, entry.turn);
    case 'cancel.requested':
      draft.canceling = true;
      return;
    case 'run.started':
      return start(draft, entry);
    case 'run.finished':
      return finish(draft, entry);
    case 'text.delta':
      if (entry.path?.length) return;
      draft.text += entry.delta;
      draft.firstTextAt ??= entry.at;
      return;
    case 'step.started':
      if (!entry.path?.length) markStep(draft);
      return;
    case 'step.finished':
      if (entry.usage) draft.usage = addUsage(draft.usage, entry.usage);
      if (entry.path?.length) return;
      finishStep(draft);
      return;
    case 'step.stored':
      return foldStep(draft, entry);
    case 'run.suspended':
      draft.suspended = true;
      return;
    case 'retry':
      if (entry.discard && !entry.path?.length)
        draft.text = draft.text.slice(0, draft.mark?.text ?? 0);
      return;
    case 'tool.started':
    case 'tool.called':
      return openCall(draft, entry);
    case 'tool.completed':
    case 'tool.failed':
      return closeCall(draft, entry.callId);
    case 'input.required':
      draft.pending = [...draft.pending, entry.request];
      draft.state = waiting(draft.pending);
      return;
    case 'artifact':
      draft.delivered = deliver(draft, entry.artifactId);
      return;
    default:
      return;
  }
}

function submit(draft: SnapshotDraft, turn: Turn): void {
  const before = countTurns(draft);
  const { turns, omitted } = addTurn(draft, turn);
  draft.turns = turns;
  if (omitted > 0) draft.omitted = omitted;
  if (turn.parts.length > 0) draft.unserved = [...draft.unserved, turn];
  takeEvents(draft, turn.answers ?? []);
  // The first answer to an open question counts. Any other answers nothing, and is ignored.
  const asked = new Set(draft.pending.map((request) => request.id));
  const given = (turn.answers ?? []).filter((answer) => asked.delete(answer.id));
  if (given.length === 0) return;
  draft.answers = [...draft.answers, ...given];
  const [open, closed] = split(draft.pending, (request) => asked.has(request.id));
  draft.pending = open;
  draft.answered = [...(draft.answered ?? []), ...closed];
  for (const { id, message } of closed)
    if (message !== undefined)
      remember(draft, { kind: 'question', id, text: message, turns: before });
  draft.state = waiting(draft.pending);
}

function start(draft: SnapshotDraft, entry: Of<'run.started'>): void {
  const id = entry.turn ?? (nextTurn(draft) ?? draft.current)?.messageId;
  const { again, pending, answers, answered } = openingState(draft, id);
  const current = turnOf(draft, id);
  if (!again && draft.current && draft.text !== '')
    remember(draft, {
      kind: 'response',
      id: draft.current.messageId,
      text: draft.text,
      turns: draft.mark?.turns ?? countTurns(draft) - 1,
    });
  if (current) draft.current = current;
  draft.unserved = draft.unserved.filter((turn) => turn.messageId !== id);
  draft.pending = pending;
  draft.answers = answers;
  keepAnswered(draft, answered);
  draft.attempt = entry.attempt ?? (again ? draft.attempt + 1 : 1);
  if (entry.sessionId !== undefined) draft.sessionId = entry.sessionId;
  if (!again || entry.discard) draft.text = '';
  if (entry.discard && draft.delivered?.turn === id) delete draft.delivered;
  delete draft.error;
  delete draft.suspended;
  if (!again) {
    delete draft.steps;
    delete draft.waits;
    delete draft.spent;
  }
  draft.running = true;
  draft.state = waiting(draft.pending);
  draft.mark = {
    text: draft.text.length,
    from: (again ? draft.mark?.from : undefined) ?? draft.seq,
    ...(again && draft.mark?.attempt && { attempt: draft.mark.attempt }),
    ...(again && draft.mark?.unfinished && !entry.discard && { unfinished: true as const }),
    ...(draft.usage !== undefined && { usage: draft.usage }),
  };
}

function finish(draft: SnapshotDraft, entry: Of<'run.finished'>): void {
  draft.running = false;
  if (entry.usage) draft.usage = { ...draft.usage, ...totals(draft.mark?.usage, entry.usage) };
  // A run that ends has begun, so the mark has its first entry, except in older logs.
  const { from = draft.seq, attempt } = draft.mark ?? {};
  const finished = attempt && { attempt };
  draft.mark = { text: 0, turns: countTurns(draft), from, ...finished };
  if (entry.outcome === 'input-required') {
    if (entry.pending) draft.pending = stillAsked(draft, entry.pending);
    draft.state = waiting(draft.pending);
    return;
  }
  if (entry.error) draft.error = entry.error;
  delete draft.waits;
  delete draft.suspended;
  draft.pending = [];
  draft.answers = [];
  delete draft.answered;
  delete draft.spent;
  draft.state = ending(draft, entry.outcome);
}

// Drops the questions that neither the end names nor an open call waits for: the run that would
// take their answers is over.
function stillAsked(
  { pending, calls }: SnapshotDraft,
  named: readonly InputRequest[],
): readonly InputRequest[] {
  const ids = new Set(named.map((request) => request.id));
  return pending.filter(
    (request) => ids.has(request.id) || calls.some(({ callId }) => belongsTo(request, callId)),
  );
}

/** Keeps what the agent said; of a long conversation only the newest part. */
function remember(draft: SnapshotDraft, message: SaidMessage): void {
  const all = [...(draft.said ?? []), message];
  let chars = 0;
  const first = all.findLastIndex(({ text }) => (chars += text.length) > MAX_MESSAGE_CHARS);
  draft.said = all.slice(Math.max(first + 1, all.length - MAX_MESSAGES));
}

function split<T>(items: readonly T[], holds: (item: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const item of items) (holds(item) ? yes : no).push(item);
  return [yes, no];
}

// The sum of the steps is in the usage already. A field that the end has is the total of this
// attempt, so it replaces that sum.
function totals(before: Usage = {}, attempt: Usage): Usage {
  const fields = Object.keys(attempt) as (keyof Usage)[];
  return Object.fromEntries(
    fields.map((field) => [field, (before[field] ?? 0) + (attempt[field] ?? 0)]),
  );
}

// A turn without a run keeps the task open, unless the task was canceled.
function ending(
  { unserved }: SnapshotDraft,
  outcome: Exclude<Outcome, 'input-required'>,
): TaskState {
  return unserved.length > 0 && outcome !== 'canceled' ? 'submitted' : outcome;
}

function waiting(pending: readonly InputRequest[]): TaskState {
  if (pending.length === 0) return 'working';
  return pending.some((request) => request.kind === 'auth') ? 'auth-required' : 'input-required';
}

function markStep(draft: SnapshotDraft): void {
  draft.mark = { ...draft.mark, text: draft.text.length, unfinished: true };
}

function finishStep(draft: SnapshotDraft): void {
  const { unfinished: _unfinished, ...mark } = draft.mark ?? {};
  draft.mark = { ...mark, text: draft.text.length, attempt: draft.attempt };
}

function openCall(draft: SnapshotDraft, entry: Of<'tool.started'> | Of<'tool.called'>): void {
  const { callId, name } = entry;
  const others = draft.calls.filter((call) => call.callId !== callId);
  draft.calls =
    entry.type === 'tool.called'
      ? [...others, { callId, name, args: entry.args }]
      : [...others, { callId, name, args: null, partial: true }];
}

function keepAnswered(draft: SnapshotDraft, answered: readonly InputRequest[]): void {
  if (answered.length > 0) draft.answered = answered;
  else delete draft.answered;
}

/** Keeps the answers of a call that closes for an agent that starts over. */
function spendAnswers(draft: SnapshotDraft, callId: string): void {
  const closed = (draft.answered ?? []).flatMap((request): SpentAnswer[] => {
    const answer = draft.answers.find(({ id }) => id === request.id);
    return answer && belongsTo(request, callId) ? [{ request, answer }] : [];
  });
  if (closed.length === 0) return;
  const ids = new Set(closed.map(({ answer }) => answer.id));
  const all = [...(draft.spent ?? []).filter(({ answer }) => !ids.has(answer.id)), ...closed];
  let chars = 0;
  const first = all.findLastIndex(
    (each) => (chars += JSON.stringify(each).length) > MAX_SPENT_CHARS,
  );
  draft.spent = all.slice(Math.max(first + 1, all.length - MAX_SPENT));
}

function closeCall(draft: SnapshotDraft, callId: string): void {
  draft.calls = draft.calls.filter((call) => call.callId !== callId);
  spendAnswers(draft, callId);
  const { answered = [] } = draft;
  draft.answers = draft.answers.filter((answer) => !answerBelongsTo(answer, answered, callId));
  keepAnswered(
    draft,
    answered.filter((request) => !belongsTo(request, callId)),
  );
  if (draft.pending.length === 0) return;
  draft.pending = draft.pending.filter((request) => !belongsTo(request, callId));
  if (draft.running) draft.state = waiting(draft.pending);
}
