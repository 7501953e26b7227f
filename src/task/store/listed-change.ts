import { countTurns } from '../../event/fold/turns.ts';
import type { Snapshot } from '../../event/types.ts';

/**
 * Whether a task has changed for lists of tasks: a turn, a start, an end, a question, an answer, a
 * durable wait or a cancel. Text and tool events are not such a change, so that a token updates no
 * index and no snapshot.
 */
export function isListedChange(from: Snapshot | undefined, to: Snapshot): boolean {
  return (
    !from ||
    from.state !== to.state ||
    from.running !== to.running ||
    from.attempt !== to.attempt ||
    from.canceling !== to.canceling ||
    from.pending.length !== to.pending.length ||
    from.suspended !== to.suspended ||
    from.waits?.length !== to.waits?.length ||
    countTurns(from) !== countTurns(to)
  );
}
