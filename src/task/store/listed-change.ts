import { countTurns } from '../../event/fold/turns.ts';
import type { Snapshot } from '../../event/types.ts';

/**
 * Whether a task has changed for those who list tasks: a turn, a start, an end, a question, an
 * answer, a cancel. What is said in between is not a change, so a token costs no index and no
 * snapshot.
 */
export function isListedChange(from: Snapshot | undefined, to: Snapshot): boolean {
  return (
    !from ||
    from.state !== to.state ||
    from.running !== to.running ||
    from.attempt !== to.attempt ||
    from.canceling !== to.canceling ||
    from.pending.length !== to.pending.length ||
    countTurns(from) !== countTurns(to)
  );
}
