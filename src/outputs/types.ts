import type { Encoder, Snapshot } from '../event/types.ts';
import type { JsonObject } from '../json.ts';

/** One message of an output protocol, told apart by its `type`. */
export type OutputMessage = JsonObject & { readonly type: string };

/**
 * A log in the words of a front end. `encode` is a pure encoder: fed every entry from 1, it says
 * what that entry means to the front end. A front end reads one stream for each run, and a run that
 * asks a person is over for it, though not for the log: `pause` is what ends such a stream behind
 * the entries fed so far. It changes nothing; the entry that answers says the same once more before
 * it opens the next run, so that a replay is whole.
 */
export interface OutputEncoder {
  readonly encode: Encoder<OutputMessage>;
  /** Empty when no run is open, so nothing has to be ended. */
  readonly pause: () => readonly OutputMessage[];
  /** The entry with which the open or last message of the agent began; a replay of it starts there. */
  readonly openedAt: number;
  /** The task as the entries so far have it. */
  readonly snapshot: Snapshot | undefined;
}
