import type { Logger, Snapshot, Turn } from '../types.ts';

/** What the state machine of a run needs. */
export interface RunStateOptions {
  readonly turn: Turn;
  /** The task as the log has it before the run. */
  readonly task: Snapshot;
  /** Whether a further call of the agent goes on where the log ends. */
  readonly continues: boolean;
  /** Gets what was dropped or withheld, and why. */
  readonly logger: Logger;
  /** Whether the run waits for a time or an event, so that it can be suspended. */
  readonly canSuspend?: () => boolean;
  /** Whether an agent that stops early (`suspended`) is called again, to continue from the log. */
  readonly canRunAgain?: boolean;
}
