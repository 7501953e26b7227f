import { jsonChars } from '../../json.ts';
import type { Part, Snapshot, Turn } from '../types.ts';

const MAX_TURNS = 100;
const MAX_TURN_CHARS = 256 * 1024;

/** Returns how many turns were submitted, including those that the snapshot no longer has. */
export const countTurns = ({ turns, omitted = 0 }: Pick<Snapshot, 'turns' | 'omitted'>): number =>
  turns.length + omitted;

/**
 * Adds a turn. The first turn is always kept, since it has the owner and the subject of the task,
 * and so is the last one. Between them, a long conversation keeps its newest turns.
 */
export function addTurn(
  { turns, omitted = 0 }: Pick<Snapshot, 'turns' | 'omitted'>,
  turn: Turn,
): { readonly turns: readonly Turn[]; readonly omitted: number } {
  const [first = turn] = turns;
  const later = [...turns.slice(1), turn];
  let chars = 0;
  const tooLong = later.findLastIndex((each) => (chars += turnChars(each)) > MAX_TURN_CHARS);
  const from = Math.max(tooLong + 1, later.length + 1 - MAX_TURNS);
  const dropped = Math.min(from, later.length - 1);
  return { turns: [first, ...later.slice(dropped)], omitted: omitted + dropped };
}

/** Returns the turn with this message id, if a run of it may start or go on. */
export const turnOf = (
  { unserved, current, turns }: Pick<Snapshot, 'unserved' | 'current' | 'turns'>,
  messageId: string | undefined,
): Turn | undefined =>
  withId(unserved, messageId) ??
  (current?.messageId === messageId ? current : withId(turns, messageId));

const withId = (turns: readonly Turn[], messageId: string | undefined): Turn | undefined =>
  turns.find((turn) => turn.messageId === messageId);

/** Returns roughly how many characters a turn takes: its parts, its answers and its metadata. */
export function turnChars({ parts, answers, metadata }: Turn): number {
  let chars = partsChars(parts);
  if (answers) for (const answer of answers) chars += jsonChars(answer);
  return metadata ? chars + jsonChars(metadata) : chars;
}

/** Returns roughly how many characters parts take. */
export function partsChars(parts: readonly Part[]): number {
  let chars = 0;
  // Most parts are text, and need no measuring.
  for (const part of parts)
    chars += 'text' in part && !part.metadata ? part.text.length : jsonChars(part);
  return chars;
}
