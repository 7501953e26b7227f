import type { Snapshot } from '../event/types.ts';
import { Refusal } from './errors.ts';
import type { Incoming } from './requests.ts';

/** Nothing but a yes: of "ok, but as a feature" the half that counts would be lost. */
const YES =
  /^(?:y|yes|ok|okay|approve|approved|accept|allow)(?:[\s,.!]+(?:it|this|that|please|thanks|thank you))*[\s.!]*$/i;
const NO = /^(?:n|no|reject|rejected|decline|deny|denied)\b/i;

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
    const [first] = parts;
    const content = text === '' && first && 'data' in first ? first.data : text;
    return { parts: [], answers: [{ id, action: 'accept', content }] };
  }
  if (YES.test(text)) return { parts: [], answers: [{ id, action: 'accept' }] };
  if (NO.test(text)) return { parts: [], answers: [{ id, action: 'decline' }] };
  throw bad(
    'the task waits for a decision: say "approve" or "reject", or edit with a data part {"answers":[…]}',
  );
}

const bad = (message: string): Refusal => new Refusal('INVALID_PARAMS', message);
