import type { Encoder, Snapshot } from '../event/types.ts';
import type { JsonObject } from '../json.ts';

/** One message of an output protocol; its `type` says which. */
export type OutputMessage = JsonObject & { readonly type: string };

/**
 * Encodes the entries of a task for a front end. `encode` takes every entry from number 1 on and
 * returns its messages; the same entries always give the same messages. A front end reads one
 * stream per run, and for it a run ends when the agent asks a person, though not in the log.
 * `pause` returns the messages that end such a stream. It changes no state: `encode` returns them
 * again with the entry that answers, so that a replay is complete. `encode` and `pause` may be
 * called without the object.
 *
 * @example
 * ```ts
 * import { agUiEncoder } from 'duolane/outputs';
 * import { memoryLog } from 'duolane/task';
 *
 * await using log = memoryLog();
 * const { encode } = agUiEncoder();
 * for await (const entry of log.read('task-1', 0))
 *   for (const message of encode(entry)) console.log(JSON.stringify(message));
 * ```
 */
export interface OutputEncoder {
  readonly encode: Encoder<OutputMessage>;
  /** The messages that end the stream now; empty if no run is open. */
  readonly pause: () => readonly OutputMessage[];
  /**
   * The number of the entry with which the agent's open or last message began; replays start there.
   */
  readonly openedAt: number;
  /** The fold of the entries so far. */
  readonly snapshot: Snapshot | undefined;
}
