import { decodeEntry } from '../../event/entry-codec.ts';
import type { Entry, Seq } from '../../event/types.ts';
import type { Commit, EntryRow, ReadResult } from '../store/store.ts';

const RING_ROWS = 256;
const RING_BYTES = 1 << 20;
/** The limits of a tail without readers: enough for a reader that starts right after its submit. */
const UNREAD_ROWS = 16;
const UNREAD_BYTES = 64 << 10;
/** How many bytes the tails of a log may still use before they become short. */
export interface TailBudget {
  bytes: number;
}

/**
 * The newest rows of one task that is read or run. Readers at the head take new rows from here,
 * decoded once for all of them; a reader that is further behind reads from the store.
 */
export class TaskTail {
  /** How many readers and claims use it. */
  users = 0;
  readonly readers: Set<TailReader> = new Set();
  head: Seq = 0;
  ended = false;
  /** Every commit after this entry was announced here; Infinity before the first commit. */
  since: Seq = Infinity;
  /** Reads from the store that are under way, by position: readers that wake together read once. */
  readonly reading: Map<Seq, Promise<ReadResult | undefined>> = new Map();
  #rows: KeptRow[] = [];
  #bytes = 0;
  readonly #budget: TailBudget;

  constructor(budget: TailBudget) {
    this.#budget = budget;
  }

  push({ rows, head, ended }: Pick<Commit, 'rows' | 'head' | 'ended'>): void {
    // Rows before a gap are of no use: `at` finds a row by its number.
    const gap = rows[0] !== undefined && rows[0].seq !== (this.#rows.at(-1)?.seq ?? 0) + 1;
    // Without readers, drop all rows instead of the oldest ones one by one.
    const unread =
      this.readers.size === 0 && (this.#rows.length > UNREAD_ROWS || this.#bytes > UNREAD_BYTES);
    if (gap || unread) this.#drop(this.#rows.length);
    else this.#drop(this.#passed());
    for (const row of rows) {
      this.#rows.push(keptRow(row));
      this.#add(row.line.length);
    }
    // When all tails together are too long, new rows are not kept: readers read from the store.
    const ringBytes = this.#budget.bytes > 0 ? RING_BYTES : 0;
    let drop = 0;
    for (let bytes = this.#bytes; ; drop++) {
      if (this.#rows.length - drop <= RING_ROWS && bytes <= ringBytes) break;
      bytes -= this.#rows[drop]?.bytes ?? 0;
    }
    this.#drop(drop);
    this.since = Math.min(this.since, head - rows.length);
    this.moved(head, ended);
  }

  /**
   * Returns how many rows every reader has consumed. Dropping them early keeps them out of the old
   * generation, which is expensive to collect.
   */
  #passed(): number {
    const first = this.#rows[0]?.seq;
    if (first === undefined || this.readers.size === 0) return 0;
    let position = Infinity;
    for (const reader of this.readers) position = Math.min(position, reader.position);
    return Math.max(0, Math.min(position + 1 - first, this.#rows.length));
  }

  /** Drops all rows: the tail is no longer used. */
  close(): void {
    this.#drop(this.#rows.length);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#budget.bytes -= bytes;
  }

  #drop(count: number): void {
    if (count === 0) return;
    for (const row of this.#rows.splice(0, count)) this.#add(-row.bytes);
  }

  /** Moves the head, however it became known, and wakes the readers. */
  moved(head: Seq, ended: boolean): void {
    this.head = Math.max(this.head, head);
    this.ended ||= ended;
    for (const reader of this.readers) reader.wake();
  }

  /** Returns the entry with this number, if it is still here. */
  at(seq: Seq): Entry | undefined {
    const index = seq - (this.#rows[0]?.seq ?? Infinity);
    const row = this.#rows[index];
    // A missed announcement leaves a gap; then the numbers do not match, and the store is read.
    if (row?.seq !== seq) return undefined;
    return entryOf(row);
  }
}

/** A row with its line until its entry is decoded: both would be the same text twice. */
interface KeptRow {
  readonly seq: Seq;
  readonly bytes: number;
  value: { readonly entry: Entry } | { readonly line: string };
}

const keptRow = ({ seq, line, entry }: EntryRow): KeptRow => ({
  seq,
  bytes: line.length,
  value: entry ? { entry } : { line },
});

function entryOf(row: KeptRow): Entry {
  if ('line' in row.value) row.value = { entry: decodeEntry(row.value.line) };
  return row.value.entry;
}

/** A reader of a task. */
export interface TailReader {
  /** The last entry that it has read. */
  readonly position: Seq;
  wake(): void;
}
