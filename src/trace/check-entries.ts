import { DuolaneError } from '../errors.ts';
import { advance } from '../event/fold/advance.ts';
import { isFinal } from '../event/fold/entry-rules.ts';
import type { Entry, Snapshot } from '../event/types.ts';
import { finding } from './rules.ts';
import type { Checker } from './types.ts';

/** Checks the entries of any number of tasks, one after the other, against the laws of the log. */
export function checkEntries(): Checker<Entry> {
  let snapshot: Snapshot | undefined;
  let last = 0;
  const unfinished = (): ReturnType<typeof finding>[] =>
    snapshot && !isFinal(snapshot.state)
      ? [finding('log-unfinished', last, `the task ${snapshot.task} ends as ${snapshot.state}`)]
      : [];
  return {
    see(entry, line) {
      const opens = entry.type === 'turn.submitted' && entry.seq === 1;
      const found = opens ? unfinished() : [];
      if (opens) snapshot = undefined;
      last = line;
      try {
        snapshot = advance(snapshot, entry);
      } catch (error) {
        found.push(finding('log-unlawful', line, DuolaneError.from(error).message));
      }
      return found;
    },
    end: unfinished,
  };
}
