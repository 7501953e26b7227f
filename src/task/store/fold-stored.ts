import { DuolaneError } from '../../errors.ts';
import { advance } from '../../event/index.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import type { Snapshot } from '../../event/types.ts';
import { decodeSnapshot } from './line-codec.ts';

/**
 * Folds a stored task: its snapshot, if there is one, and the lines of the later entries. Throws
 * `malformed` for anything that is not a task: any other error would look like a failure of the
 * store, and one damaged task would keep all others from being listed and claimed.
 */
export function foldStored(saved: string | undefined, lines: Iterable<string>): Snapshot {
  try {
    let folded = saved === undefined ? undefined : decodeSnapshot(saved);
    for (const line of lines) folded = advance(folded, decodeEntry(line));
    if (isComplete(folded)) return folded;
  } catch (cause) {
    // The stored values have another shape than expected.
    if (!(cause instanceof TypeError || cause instanceof RangeError)) throw cause;
    throw new DuolaneError('malformed', `a stored task is damaged: ${cause.message}`, { cause });
  }
  throw new DuolaneError(
    'malformed',
    'a stored task lacks some of its members; the store is damaged',
  );
}

function isComplete(snapshot: Partial<Snapshot> | undefined): snapshot is Snapshot {
  const { state, text, agent, context, turns, artifacts } = snapshot ?? {};
  const { unserved, calls, pending, answers } = snapshot ?? {};
  return (
    [state, text, agent, context].every((each) => typeof each === 'string') &&
    [turns, artifacts, unserved, calls, pending, answers].every((each) => Array.isArray(each)) &&
    [...(turns ?? []), ...(artifacts ?? [])].every(({ parts }) => Array.isArray(parts))
  );
}
