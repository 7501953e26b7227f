import type { Entry, Seq } from '../../event/types.ts';
import type { Abortable } from '../../stream/types.ts';
import { partsChars } from '../../event/fold/turns.ts';
import type { TaskLog, Reading } from '../types.ts';

/**
 * A batch ends after about this many characters, so that it stays small beside a socket's buffer.
 */
const BATCH_CHARS = 32 * 1024;

/** Turns the entries of one task into the outputs of a stream. Used by one `followTask`. */
export interface TaskFollower<Out> {
  /** The task to read; known after `begin`. */
  readonly task: string;
  /** The number of the last entry that the follower has folded; 0 before the first one. */
  readonly seq: Seq;
  /**
   * Runs before the first read, for example to submit a turn. May add outputs that come first.
   * Resolves with whether the stream ends after them.
   */
  begin?(outs: Out[]): Promise<boolean>;
  /**
   * Adds the outputs of the next entry to `outs`, and returns whether the stream ends after them.
   * It returns a promise only if it has to wait: most entries must not cost one.
   */
  follow(entry: Entry, outs: Out[]): boolean | Promise<boolean>;
  /** Adds what replaces entries that were compacted away. The stream ends after it. */
  compacted(outs: Out[]): Promise<void> | void;
}

/**
 * Reads a task as batches of outputs, until its log or its follower ends. A batch has the outputs
 * of the entries that are available together, such as those of one commit. If an entry cannot be
 * followed, the outputs of the entries before it are yielded, then the error is thrown. Closing the
 * stream does not cancel the task. A reader may empty a batch when it has taken its outputs.
 */
export async function* followTask<Out>(
  log: TaskLog,
  follower: TaskFollower<Out>,
  options: Abortable,
): AsyncGenerator<Out[], void, undefined> {
  let opening: Out[] | undefined = [];
  const isOver = await follower.begin?.(opening);
  if (opening.length > 0) yield opening;
  if (isOver) return;
  // A generator keeps its variables alive while it waits, so a sent batch must not stay in one:
  // with a thousand streams that adds up.
  opening = undefined;
  const reading = log.read(follower.task, follower.seq, options);
  const entries = reading[Symbol.asyncIterator]();
  try {
    for (
      let batch = await readBatch(reading, entries, follower);
      batch;
      batch = undefined, batch = await readBatch(reading, entries, follower)
    ) {
      if (batch.outs.length > 0) yield batch.outs;
      if (batch.failure) throw batch.failure.error;
      if (batch.ended) return;
    }
  } finally {
    await entries.return?.();
  }
}

interface Batch<Out> {
  readonly outs: Out[];
  /** Nothing follows this batch. */
  readonly ended: boolean;
  readonly failure?: { readonly error: unknown };
}

/** Waits for one entry, then takes those that are available without waiting. */
async function readBatch<Out>(
  reading: Reading,
  entries: AsyncIterator<Entry>,
  follower: TaskFollower<Out>,
): Promise<Batch<Out> | undefined> {
  const { done, value: first } = await entries.next();
  if (done) return undefined;
  const outs: Out[] = [];
  let ended = false;
  let chars = 0;
  try {
    for (let entry: Entry | undefined = first; entry;) {
      // A gap: the task was compacted since, and the entries between are gone.
      if (entry.seq !== follower.seq + 1) {
        await follower.compacted(outs);
        return { outs, ended: true };
      }
      const ends = follower.follow(entry, outs);
      ended = typeof ends === 'boolean' ? ends : await ends;
      chars += roughSize(entry);
      entry = ended || chars > BATCH_CHARS ? undefined : reading.take();
    }
  } catch (error) {
    return { outs, ended: true, failure: { error } };
  }
  return { outs, ended };
}

/** The approximate size of an entry's outputs in characters. */
function roughSize(entry: Entry): number {
  if ('delta' in entry) return entry.delta.length;
  if (entry.type === 'artifact') return BATCH_CHARS / 8 + partsChars(entry.parts);
  return entry.type === 'status' || entry.type === 'run.started' ? 256 : BATCH_CHARS / 8;
}
