import { type Answer, type InputRequest, MAX_ANSWERS } from '../../ask.ts';
import { parseDecision } from '../../event/text/parse-decision.ts';
import { parseId } from '../../event/event-id.ts';
import type { Snapshot } from '../../event/types.ts';
import type { TaskLog } from '../../task/types.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { SendRequest } from './parse-params.ts';
import { decisionCode, wantsCode } from '../protocol/task-encoder.ts';

type Given = Pick<SendRequest, 'parts' | 'answers'>;

/** Throws for more answers than there can be questions: each is compared with all of them. */
export function checkCount(answers: readonly Answer[]): void {
  if (answers.length > MAX_ANSWERS)
    throw bad(`a turn has at most ${MAX_ANSWERS} answers, got ${answers.length}`);
}

/** The decision that a message says in words, for a record of what was refused. It names no question. */
export function spokenAnswers(parts: Given['parts']): readonly Answer[] {
  const action = parseDecision(wordsIn(parts));
  return action ? [{ id: '', action }] : [];
}

const wordsIn = (parts: Given['parts']): string =>
  parts
    .flatMap((part) => ('text' in part ? [part.text] : []))
    .join('\n')
    .trim();

/**
 * What a message means to a task that may be waiting. A data part names the question that it
 * answers. Plain text answers the only open question, if the caller can have seen
 * that one. Throws a refusal that says what to send instead; for a question that was answered
 * before, one that says by whom and when.
 */
export async function matchAnswers(
  log: Pick<TaskLog, 'read'>,
  snapshot: Snapshot,
  { parts, answers }: Given,
  lastEventId?: string,
): Promise<Given> {
  const { pending } = snapshot;
  const unknown = answers.find(({ id }) => !pending.some((request) => request.id === id));
  if (unknown) {
    await refuseAnswered(log, snapshot, unknown.id);
    throw bad(`nothing waits for an answer to ${unknown.id}`);
  }
  if (answers.length > 0 || pending.length === 0) return { parts, answers };
  const [only, another] = pending;
  if (!only || another) {
    const ids = pending.map(({ id }) => id).join(', ');
    throw bad(
      `several questions wait (${ids}); answer with a data part {"answers":[{"id":…,"action":"accept"}]}`,
    );
  }
  if (lastEventId !== undefined) await checkAskedBefore(log, snapshot, only, lastEventId);
  const text = wordsIn(parts);
  if (only.kind === 'question') {
    const { id } = only;
    const [first, second] = parts;
    const data = first && 'data' in first && !second;
    if (!data && !parts.every((part) => 'text' in part))
      throw bad('the task asks one question: answer it with text, or with one data part');
    return { parts: [], answers: [{ id, action: 'accept', content: data ? first.data : text }] };
  }
  const seen = lastEventId !== undefined && parseId(lastEventId).seq <= snapshot.seq;
  return { parts: [], answers: [await readDecision(log, snapshot, only, text, seen)] };
}

/**
 * A decision in words. A yes that names no question counts only where it can mean no other: the
 * caller has shown that it saw this one, or the task never asked another. Otherwise it may be late,
 * meant for a question that another person answered meanwhile; then it must carry the code of this
 * question. A no is safe, and always counts.
 */
async function readDecision(
  log: Pick<TaskLog, 'read'>,
  snapshot: Snapshot,
  request: InputRequest,
  text: string,
  seen: boolean,
): Promise<Given['answers'][number]> {
  const { id, message = 'An approval' } = request;
  const code = decisionCode(snapshot, request);
  const named = text.toLowerCase().endsWith(` ${code}`);
  const action = parseDecision(named ? text.slice(0, -code.length) : text);
  if (!action)
    throw bad(
      'the task waits for a decision: say "approve" or "reject", or edit with a data part {"answers":[…]}',
    );
  if (action === 'accept' && !named && !seen && (await asksAgain(log, snapshot)))
    throw bad(
      `${JSON.stringify(message)} is not the first question of this task: to approve it, say "approve ${code}", or answer with a data part {"answers":[{"id":${JSON.stringify(id)},"action":"accept"}]}`,
    );
  return { id, action };
}

/** Whether the task has asked anything before the question that is open; the log knows those withdrawn, too. */
async function asksAgain(log: Pick<TaskLog, 'read'>, snapshot: Snapshot): Promise<boolean> {
  if (wantsCode(snapshot)) return true;
  let asked = 0;
  for await (const entry of log.read(snapshot.task, 0)) {
    if (entry.type === 'input.required') asked++;
    if (asked > 1 || entry.seq >= snapshot.seq) break;
  }
  return asked > 1;
}

/** Throws if the question was asked after the caller's last event: then the text is meant for another. */
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
        `the open question came after event ${lastEventId}, the last that you have: read on and answer ${JSON.stringify(message ?? id)}`,
      );
    if (entry.seq >= seq) return;
  }
}

/** Throws if the question has its answer already. */
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
      throw new A2AError(
        'ALREADY_ANSWERED',
        `question "${id}" of task "${task}" was already answered${by} at ${answeredAt} (${first.action}); the first answer counts`,
        {
          details: {
            question: id,
            action: first.action,
            answeredAt,
            message: messageId,
            ...(owner !== undefined && { answeredBy: owner }),
          },
        },
      );
    }
    if (entry.seq >= seq) return;
  }
}

const bad = (message: string): A2AError => new A2AError('INVALID_PARAMS', message);
