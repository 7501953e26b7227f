import { isObject } from '../../json.ts';
import { advance } from '../../event/fold/advance.ts';
import { artifactsAtLeast } from '../../event/fold/artifacts.ts';
import { slimSnapshot } from '../../event/fold/slim-snapshot.ts';
import type { Entry, Seq, Snapshot } from '../../event/types.ts';
import { decodeSnapshot, encodeSnapshot } from '../store/line-codec.ts';
import type { TaskLog } from '../types.ts';

/** A writer stores a checkpoint about once in so many entries. */
export const CHECKPOINT_ENTRIES = 256;

/** Values of a task with these keys are checkpoints. Agents neither see nor write them. */
export const CHECKPOINT_PREFIX = 'duolane/checkpoint/';

/** How many characters of the run's text a checkpoint has. */
const CHECKPOINT_TEXT_CHARS = 1024;

/** A longer checkpoint is not stored, so that checkpoints cost little beside their entries. */
const MAX_CHARS = 64 * 1024;

/** With more artifacts a checkpoint is longer than that, so that it need not be made. */
const MAX_ARTIFACTS = MAX_CHARS / JSON.stringify({ artifactId: '', parts: [] }).length;

/**
 * How many checkpoints a reader looks for. A batch of a writer has at most 512 entries, and the
 * next writer may replace a checkpoint by a later one, so four numbers in a row may be of no use.
 */
const MAX_LOOKS = 5;

/**
 * The fold of a task at one of its entries, without long texts. A reader that continues behind an
 * entry begins at the checkpoint before it, so that it reads what it has missed and some hundred
 * entries more, however long the log is.
 */
export interface Checkpoint {
  readonly snapshot: Snapshot;
  /** The length of the run's text, of which the snapshot has the beginning. */
  readonly chars: number;
  /**
   * Whether readers have exactly this text of the run. If not, they may have text that was
   * discarded since, and get all of the text with its next part.
   */
  readonly isTextSent: boolean;
}

/** Folds a task, and knows whether its readers have exactly the text of the run. */
export class CheckpointFold {
  #snapshot: Snapshot;
  #isTextSent: boolean;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
    // A run that goes on may have discarded text that readers still have.
    this.#isTextSent = snapshot.state === 'submitted';
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  advance(entry: Entry): void {
    const { current } = this.#snapshot;
    this.#snapshot = advance(this.#snapshot, entry);
    if (entry.type === 'text.delta') this.#isTextSent ||= !entry.path?.length;
    else if (entry.type === 'retry') this.#isTextSent &&= !entry.discard || !!entry.path?.length;
    else if (entry.type === 'run.started') {
      const isNew = current?.messageId !== this.#snapshot.current?.messageId;
      this.#isTextSent = isNew || (this.#isTextSent && entry.discard !== true);
    }
  }

  /**
   * The checkpoint at the last entry. Undefined if there can be none: readers that have other text
   * need all of it, and a checkpoint has its beginning only.
   */
  checkpoint(): Checkpoint | undefined {
    const snapshot = this.#snapshot;
    const chars = snapshot.text.length;
    const isTextSent = this.#isTextSent;
    return isTextSent || chars <= CHECKPOINT_TEXT_CHARS
      ? { snapshot, chars, isTextSent }
      : undefined;
  }
}

export const checkpointNumber = (seq: Seq): number => Math.floor(seq / CHECKPOINT_ENTRIES);

const keyOf = (number: number): string => `${CHECKPOINT_PREFIX}${String(number).padStart(12, '0')}`;

/** Encodes a checkpoint as a value of its task. Undefined if it would be too long. */
export function encodeCheckpoint({
  snapshot,
  chars,
  isTextSent,
}: Checkpoint): readonly [key: string, value: unknown] | undefined {
  if (artifactsAtLeast(snapshot) > MAX_ARTIFACTS) return undefined;
  const line = encodeSnapshot(slimSnapshot(snapshot, CHECKPOINT_TEXT_CHARS));
  if (line.length > MAX_CHARS) return undefined;
  return [keyOf(checkpointNumber(snapshot.seq)), { line, chars, isTextSent }];
}

/** Finds a checkpoint at the entry or not far before it, with a fixed number of reads. */
export async function findCheckpoint(
  log: Pick<TaskLog, 'values'>,
  task: string,
  seq: Seq,
): Promise<Checkpoint | undefined> {
  const last = checkpointNumber(seq);
  for (let number = last; number > 0 && number > last - MAX_LOOKS; number--)
    for await (const [, value] of log.values(task, keyOf(number))) {
      const found = decodeCheckpoint(value);
      if (found && found.snapshot.seq <= seq) return found;
    }
  return undefined;
}

/** Decodes the value of a checkpoint. Undefined if it has another form. */
export function decodeCheckpoint(value: unknown): Checkpoint | undefined {
  if (!isObject(value)) return undefined;
  const { line, chars, isTextSent } = value;
  if (typeof line !== 'string' || typeof chars !== 'number') return undefined;
  return { snapshot: decodeSnapshot(line), chars, isTextSent: isTextSent === true };
}
