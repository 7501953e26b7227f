import { decisionOf } from '../event/decision.ts';
import type { Snapshot } from '../event/types.ts';
import { Refusal } from './errors.ts';
import type { Incoming } from './requests.ts';

/**
 * What a message means to a task that may be waiting: plain text answers its only question; several
 * questions need a data part that names them. Throws what to say instead.
 */
export function readAnswers(
  { pending }: Pick<Snapshot, 'pending'>,
  { parts, answers }: Pick<Incoming, 'parts' | 'answers'>,
): Pick<Incoming, 'parts' | 'answers'> {
  const unknown = answers.find(({ id }) => !pending.some((request) => request.id === id));
  if (unknown) throw bad(`nothing waits for an answer to ${unknown.id}`);
  if (answers.length > 0 || pending.length === 0) return { parts, answers };
  const [only, another] = pending;
  if (!only || another) {
    const ids = pending.map(({ id }) => id).join(', ');
    throw bad(
      `several questions wait (${ids}); answer with a data part {"answers":[{"id":…,"action":"accept"}]}`,
    );
  }
  const { id } = only;
  const text = parts
    .flatMap((part) => ('text' in part ? [part.text] : []))
    .join('\n')
    .trim();
  if (only.kind === 'question') {
    const [first, second] = parts;
    const data = first && 'data' in first && !second;
    if (!data && !parts.every((part) => 'text' in part))
      throw bad('the task asks one question: answer it with text, or with one data part');
    return { parts: [], answers: [{ id, action: 'accept', content: data ? first.data : text }] };
  }
  const action = decisionOf(text);
  if (action) return { parts: [], answers: [{ id, action }] };
  throw bad(
    'the task waits for a decision: say "approve" or "reject", or edit with a data part {"answers":[…]}',
  );
}

const bad = (message: string): Refusal => new Refusal('INVALID_PARAMS', message);
