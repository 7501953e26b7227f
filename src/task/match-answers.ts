import { type Answer, type InputRequest, MAX_ANSWERS } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { parseId } from '../event/event-id.ts';
import { awaitsEvent } from '../event/fold/steps.ts';
import { parseDecision } from '../event/text/parse-decision.ts';
import type { Part, Snapshot } from '../event/types.ts';
import { AlreadyAnsweredError } from './already-answered-error.ts';
import { nameId } from './name-id.ts';
import type { TaskLog } from './types.ts';

/** The parts and answers of a posted message. */
export interface PostedParts {
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
}

/**
 * Whether a question of this task was answered before: an approval as text must then carry a code.
 */
export const wantsCode = ({ turns, omitted = 0 }: Pick<Snapshot, 'turns' | 'omitted'>): boolean =>
  omitted > 0 || turns.some(({ answers = [] }) => answers.length > 0);

/** A short code for a question, different for each question of a task, that a person can type. */
export const decisionCode = ({ task }: Pick<Snapshot, 'task'>, { id }: InputRequest): string =>
  nameId(`question/${task}/${id}`).slice(0, 4);

/**
 * Throws for more answers than there can be questions: each answer is compared with all questions.
 */
export function checkCount(answers: readonly Answer[]): void {
  if (answers.length > MAX_ANSWERS)
    throw bad(`invalid answers: expected at most ${MAX_ANSWERS}, got ${answers.length}`);
}

/** The decision in the text of a refused message, for the audit log. It has no question id. */
export function spokenAnswers(parts: PostedParts['parts']): readonly Answer[] {
  const action = parseDecision(textIn(parts));
  return action ? [{ id: '', action }] : [];
}

const textIn = (parts: PostedParts['parts']): string =>
  parts
    .flatMap((part) => ('text' in part ? [part.text] : []))
    .join('\n')
    .trim();

/**
 * Matches a message with the open questions of a task. A data part names the question that it
 * answers. Text answers the only open question, if the caller can have seen that one. Throws
 * `invalid` with what to send instead, and `AlreadyAnsweredError` for a question that was answered
 * before.
 */
export async function matchAnswers(
  log: Pick<TaskLog, 'read'>,
  snapshot: Snapshot,
  { parts, answers }: PostedParts,
  lastEventId?: string,
): Promise<PostedParts> {
  const { pending } = snapshot;
  const unknown = answers.find(
    ({ id }) => !pending.some((request) => request.id === id) && !awaitsEvent(snapshot, id),
  );
  if (unknown) {
    await refuseAnswered(log, snapshot, unknown.id);
    throw bad(`question "${unknown.id}" not found; the task does not wait for it`);
  }
  if (answers.length > 0 || pending.length === 0) return { parts, answers };
  const [only, another] = pending;
  if (!only || another) {
    const ids = pending.map(({ id }) => id).join(', ');
    throw bad(
      `cannot match the text: several questions are open (${ids}); answer with a data part {"answers":[{"id":…,"action":"accept"}]}`,
    );
  }
  if (lastEventId !== undefined) await checkAskedBefore(log, snapshot, only, lastEventId);
  const text = textIn(parts);
  if (only.kind === 'question') {
    const { id } = only;
    const [first, second] = parts;
    const data = first && 'data' in first && !second;
    if (!data && !parts.every((part) => 'text' in part))
      throw bad('invalid answer: expected text, or one data part');
    return { parts: [], answers: [{ id, action: 'accept', content: data ? first.data : text }] };
  }
  const seen = lastEventId !== undefined && parseId(lastEventId).seq <= snapshot.seq;
  return { parts: [], answers: [await readDecision(log, snapshot, only, text, seen)] };
}

/**
 * Parses a decision from text. An approval without a code counts only if it can mean no other
 * question: the caller's last event shows this question, or the task never asked another one.
 * Otherwise it may be late, and meant for a question that another person has answered; it must then
 * carry the code of this question. A rejection is safe and always counts.
 */
async function readDecision(
  log: Pick<TaskLog, 'read'>,
  snapshot: Snapshot,
  request: InputRequest,
  text: string,
  seen: boolean,
): Promise<Answer> {
  const { id, message = 'An approval' } = request;
  const code = decisionCode(snapshot, request);
  const hasCode = text.toLowerCase().endsWith(` ${code}`);
  const action = parseDecision(hasCode ? text.slice(0, -code.length) : text);
  if (!action)
    throw bad(
      'invalid decision: expected "approve" or "reject", or a data part {"answers":[…]} to edit',
    );
  if (action === 'accept' && !hasCode && !seen && (await asksAgain(log, snapshot)))
    throw bad(
      `${JSON.stringify(message)} is not the first question of this task: to approve it, send "approve ${code}", or answer with a data part {"answers":[{"id":${JSON.stringify(id)},"action":"accept"}]}`,
    );
  return { id, action };
}

/**
 * Whether the task asked a question before the open one. Only the log also has withdrawn questions.
 */
async function asksAgain(log: Pick<TaskLog, 'read'>, snapshot: Snapshot): Promise<boolean> {
  if (wantsCode(snapshot)) return true;
  let asked = 0;
  for await (const entry of log.read(snapshot.task, 0)) {
    if (entry.type === 'input.required') asked++;
    if (asked > 1 || entry.seq >= snapshot.seq) break;
  }
  return asked > 1;
}

/**
 * Throws if the question is newer than the caller's last event: the text is meant for another one.
 */
async function checkAskedBefore(
  log: Pick<TaskLog, 'read'>,
  { task, seq }: Snapshot,
  { id, message }: InputRequest,
  lastEventId: string,
): Promise<void> {
  const { seq: after } = parseId(lastEventId);
  if (after >= seq) return;
  for await (const entry of log.read(task, after)) {
    if (entry.type === 'input.required' && entry.request.id === id)
      throw bad(
        `cannot match the text: the open question ${JSON.stringify(message ?? id)} came after event ${lastEventId}; read further events, then answer it`,
      );
    if (entry.seq >= seq) return;
  }
}

/** Throws `AlreadyAnsweredError` if the question has an answer. */
export async function refuseAnswered(
  log: Pick<TaskLog, 'read'>,
  { task, turns, seq }: Snapshot,
  id: string,
): Promise<void> {
  if (!turns.some(({ answers = [] }) => answers.some((answer) => answer.id === id))) return;
  for await (const entry of log.read(task, 0)) {
    const turn = entry.type === 'turn.submitted' ? entry.turn : undefined;
    const first = turn?.answers?.find((answer) => answer.id === id);
    if (turn && first) {
      const { owner, messageId } = turn;
      const answeredAt = new Date(entry.at).toISOString();
      const by = owner === undefined ? '' : ` by "${owner}"`;
      throw new AlreadyAnsweredError(
        `question "${id}" of task "${task}" was already answered${by} at ${answeredAt} (${first.action}); the first answer counts`,
        {
          question: id,
          action: first.action,
          answeredAt,
          message: messageId,
          ...(owner !== undefined && { answeredBy: owner }),
        },
      );
    }
    if (entry.seq >= seq) return;
  }
}

const bad = (message: string): DuolaneError => new DuolaneError('invalid', message);
