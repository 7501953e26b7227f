import type { InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { putArtifact } from './artifacts.ts';
import { belongsTo, isFinal, entryViolation, openingState } from './entry-rules.ts';
import type { Entry, Outcome, SaidMessage, Snapshot, TaskState, Turn, Usage } from '../types.ts';
import { addTurn, countTurns, turnOf } from './turns.ts';
import { addUsage } from '../usage.ts';

const MAX_SAID = 100;
const MAX_SAID_CHARS = 256 * 1024;

type Draft = { -readonly [Field in keyof Snapshot]: Snapshot[Field] };
type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;

/**
 * Fold and contract in one pure function, for stores, runner, server, replay and doctor: the task
 * after one more entry. Throws `invalid` on an unlawful entry, naming the rule, and `closed` after
 * the final one; the snapshot given stays as it was. A snapshot is plain JSON (but for `bytes`
 * parts), so folding may stop, be stored and go on elsewhere.
 *
 * turn.submitted: submitted. run.started: working. input.required: input- or auth-required until
 * all is answered. run.finished: its outcome, final unless a turn is unserved (canceled always
 * is). After cancel.requested: no delta, and the only outcome is canceled. A call may stay open
 * over an end as input-required; any other end closes it first. An answer is spent when its call
 * (`<callId>/…`) closes, any other when its run ends for good. A question is withdrawn when its
 * call closes, or its run ends without naming it.
 *
 * One entry costs what it changes: no list of closed calls, parts or text is copied.
 */
export function advance(snapshot: Snapshot | undefined, entry: Entry): Snapshot {
  if (!snapshot) return begin(entry);
  const { state } = snapshot;
  if (isFinal(state))
    throw new DuolaneError(
      'closed',
      `${where(snapshot, entry)} comes after the end: it is ${state}`,
    );
  const rule = entryViolation(snapshot, entry);
  if (rule !== undefined)
    throw new DuolaneError('invalid', `${where(snapshot, entry)} is unlawful: ${rule}`);
  const draft = copy(snapshot);
  draft.seq = entry.seq;
  draft.updatedAt = entry.at;
  fold(draft, entry);
  return draft;
}

const where = ({ task }: Snapshot, { seq, type }: Entry): string =>
  `entry ${seq} (${type}) of task ${task}`;

/** Member by member, and always in this order: a spread of objects of many shapes costs ten times that. */
function copy(from: Snapshot): Draft {
  const draft: Draft = {
    task: from.task,
    context: from.context,
    agent: from.agent,
    seq: from.seq,
    createdAt: from.createdAt,
    updatedAt: from.updatedAt,
    state: from.state,
    canceling: from.canceling,
    running: from.running,
    attempt: from.attempt,
    turns: from.turns,
    unserved: from.unserved,
    calls: from.calls,
    pending: from.pending,
    answers: from.answers,
    text: from.text,
    artifacts: from.artifacts,
  };
  if (from.owner !== undefined) draft.owner = from.owner;
  if (from.current !== undefined) draft.current = from.current;
  if (from.mark !== undefined) draft.mark = from.mark;
  if (from.firstTextAt !== undefined) draft.firstTextAt = from.firstTextAt;
  if (from.usage !== undefined) draft.usage = from.usage;
  if (from.error !== undefined) draft.error = from.error;
  if (from.sessionId !== undefined) draft.sessionId = from.sessionId;
  if (from.omitted !== undefined) draft.omitted = from.omitted;
  if (from.said !== undefined) draft.said = from.said;
  if (from.delivered !== undefined) draft.delivered = from.delivered;
  if (from.answered !== undefined) draft.answered = from.answered;
  return draft;
}

/** The turn that the agent is called with next; nothing if the task waits, is canceled or has ended. */
export function nextTurn(snapshot: Snapshot): Turn | undefined {
  if (isFinal(snapshot.state) || snapshot.canceling) return undefined;
  // Not running and yet working: it slept, and everything that it asked is answered.
  if (snapshot.running || snapshot.state === 'working') return snapshot.current;
  return snapshot.unserved[0];
}

/** Whether somebody must claim the task: a turn is unserved, a wait answered, a run or a cancel open. */
export const needsRun = (snapshot: Snapshot): boolean =>
  !isFinal(snapshot.state) && (snapshot.canceling || nextTurn(snapshot) !== undefined);

function begin(entry: Entry): Snapshot {
  if (entry.type !== 'turn.submitted' || entry.seq !== 1)
    throw new DuolaneError(
      'invalid',
      `entry ${entry.seq} (${entry.type}) is unlawful: a task begins with turn.submitted as entry 1`,
    );
  const { turn, at } = entry;
  const draft: Draft = {
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

function fold(draft: Draft, entry: Entry): void {
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
      if (!entry.path?.length) markStep(draft);
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
      draft.artifacts = putArtifact(draft.artifacts, entry);
      return deliver(draft, entry.artifactId);
    default:
      return;
  }
}

function submit(draft: Draft, turn: Turn): void {
  const before = countTurns(draft);
  const { turns, omitted } = addTurn(draft, turn);
  draft.turns = turns;
  if (omitted > 0) draft.omitted = omitted;
  if (turn.parts.length > 0) draft.unserved = [...draft.unserved, turn];
  // The first answer to an open question counts; any other has nobody who waits for it.
  const asked = new Set(draft.pending.map((request) => request.id));
  const heard = (turn.answers ?? []).filter((answer) => asked.delete(answer.id));
  if (heard.length === 0) return;
  draft.answers = [...draft.answers, ...heard];
  const [open, closed] = split(draft.pending, (request) => asked.has(request.id));
  draft.pending = open;
  draft.answered = [...(draft.answered ?? []), ...closed];
  for (const { id, message } of closed)
    if (message !== undefined)
      remember(draft, { kind: 'question', id, text: message, turns: before });
  draft.state = waiting(draft.pending);
}

function start(draft: Draft, entry: Of<'run.started'>): void {
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
  draft.running = true;
  draft.state = waiting(draft.pending);
  draft.mark = {
    text: draft.text.length,
    ...(draft.usage !== undefined && { usage: draft.usage }),
  };
}

function finish(draft: Draft, entry: Of<'run.finished'>): void {
  draft.running = false;
  if (entry.usage) draft.usage = { ...draft.usage, ...totals(draft.mark?.usage, entry.usage) };
  draft.mark = { text: 0, turns: countTurns(draft) };
  if (entry.outcome === 'input-required') {
    if (entry.pending) draft.pending = stillAsked(draft, entry.pending);
    draft.state = waiting(draft.pending);
    return;
  }
  if (entry.error) draft.error = entry.error;
  draft.pending = [];
  draft.answers = [];
  delete draft.answered;
  draft.state = ending(draft, entry.outcome);
}

// What neither the end names nor an open call waits for was withdrawn: nobody would hear its answer.
function stillAsked(
  { pending, calls }: Draft,
  named: readonly InputRequest[],
): readonly InputRequest[] {
  const ids = new Set(named.map((request) => request.id));
  return pending.filter(
    ({ id, callId }) =>
      ids.has(id) || calls.some((call) => call.callId === callId || belongsTo(id, call.callId)),
  );
}

/** A long conversation is remembered from its newest end. */
function remember(draft: Draft, said: SaidMessage): void {
  const all = [...(draft.said ?? []), said];
  let chars = 0;
  const first = all.findLastIndex(({ text }) => (chars += text.length) > MAX_SAID_CHARS);
  draft.said = all.slice(Math.max(first + 1, all.length - MAX_SAID));
}

function split<T>(items: readonly T[], holds: (item: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const item of items) (holds(item) ? yes : no).push(item);
  return [yes, no];
}

// Steps were summed as they came; what the end says about a field is the whole of this attempt.
function totals(before: Usage = {}, attempt: Usage): Usage {
  const fields = Object.keys(attempt) as (keyof Usage)[];
  return Object.fromEntries(
    fields.map((field) => [field, (before[field] ?? 0) + (attempt[field] ?? 0)]),
  );
}

// A turn that nobody has served yet keeps the task open, unless the task was canceled.
function ending({ unserved }: Draft, outcome: Exclude<Outcome, 'input-required'>): TaskState {
  return unserved.length > 0 && outcome !== 'canceled' ? 'submitted' : outcome;
}

function waiting(pending: readonly InputRequest[]): TaskState {
  if (pending.length === 0) return 'working';
  return pending.some((request) => request.kind === 'auth') ? 'auth-required' : 'input-required';
}

function markStep(draft: Draft): void {
  draft.mark = { ...draft.mark, text: draft.text.length };
}

function openCall(draft: Draft, entry: Of<'tool.started'> | Of<'tool.called'>): void {
  const { callId, name } = entry;
  const others = draft.calls.filter((call) => call.callId !== callId);
  draft.calls =
    entry.type === 'tool.called'
      ? [...others, { callId, name, args: entry.args }]
      : [...others, { callId, name, args: null, partial: true }];
}

function deliver(draft: Draft, artifactId: string): void {
  const turn = draft.current?.messageId ?? '';
  const known = draft.delivered?.turn === turn ? draft.delivered.artifacts : [];
  if (!known.includes(artifactId)) draft.delivered = { turn, artifacts: [...known, artifactId] };
}

function keepAnswered(draft: Draft, answered: readonly InputRequest[]): void {
  if (answered.length > 0) draft.answered = answered;
  else delete draft.answered;
}

function closeCall(draft: Draft, callId: string): void {
  draft.calls = draft.calls.filter((call) => call.callId !== callId);
  draft.answers = draft.answers.filter((answer) => !belongsTo(answer.id, callId));
  if (draft.answered)
    keepAnswered(
      draft,
      draft.answered.filter((request) => !belongsTo(request.id, callId)),
    );
  if (draft.pending.length === 0) return;
  draft.pending = draft.pending.filter(
    (request) => request.callId !== callId && !belongsTo(request.id, callId),
  );
  if (draft.running) draft.state = waiting(draft.pending);
}
