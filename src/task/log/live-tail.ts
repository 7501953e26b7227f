import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/index.ts';
import type { Entry, Seq } from '../../event/types.ts';
import { whenAborted } from '../../stream/cancellation.ts';
import { DONE, QueueReader, type QueueSource } from '../../stream/queue-reader.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Abortable } from '../../stream/types.ts';
import { heapShare } from '../text-budget.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { Commit, ReadResult, EntryRow, Store } from '../store/store.ts';
import { ReadTurns } from './read-turns.ts';
import type { Reading } from '../types.ts';

const RING_ROWS = 256;
const RING_BYTES = 1 << 20;
/** While nobody reads: enough for a reader that comes right behind its submit. */
const UNREAD_ROWS = 16;
const UNREAD_BYTES = 64 << 10;
/** How long a reader waits for a store that fails, before it is told. */
const PATIENCE_MS = 15_000;
const RETRY_MS = 100;
/** What a reader asks the store for at a time, at least and at most. */
const MIN_CHUNK_BYTES = 16 << 10;
const MAX_CHUNK_BYTES = 1 << 20;

/** How many bytes the tails of a log may still hold before they become short. */
interface Budget {
  left: number;
}

/**
 * The newest rows of one task that somebody reads or runs. Readers at the head take what was just
 * committed from here, decoded once for all of them; a reader that is further behind asks the store.
 */
class Tail {
  /** How many keep it. */
  users = 0;
  readonly followers: Set<Follower> = new Set();
  head: Seq = 0;
  ended = false;
  /** Every commit after this entry has been announced here; nothing is known before the first. */
  since: Seq = Infinity;
  /** What is being read from the store, by place: readers that wake together ask once. */
  readonly reading: Map<Seq, Promise<ReadResult | undefined>> = new Map();
  #rows: KeptRow[] = [];
  #bytes = 0;
  readonly #budget: Budget;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  push({ rows, head, ended }: Pick<Commit, 'rows' | 'head' | 'ended'>): void {
    // Behind a gap the older rows would only be in the way: readers find by number.
    const gap = rows[0] !== undefined && rows[0].seq !== (this.#rows.at(-1)?.seq ?? 0) + 1;
    // Nobody reads: then not even the oldest need be dropped one by one.
    const unread =
      this.followers.size === 0 && (this.#rows.length > UNREAD_ROWS || this.#bytes > UNREAD_BYTES);
    if (gap || unread) this.#drop(this.#rows.length);
    else this.#drop(this.#passed());
    for (const row of rows) {
      this.#rows.push(keptRow(row));
      this.#add(row.line.length);
    }
    // When all tails together are too long, new rows are not kept: readers ask the store.
    const ringBytes = this.#budget.left > 0 ? RING_BYTES : 0;
    let drop = 0;
    for (let bytes = this.#bytes; ; drop++) {
      if (this.#rows.length - drop <= RING_ROWS && bytes <= ringBytes) break;
      bytes -= this.#rows[drop]?.bytes ?? 0;
    }
    this.#drop(drop);
    this.since = Math.min(this.since, head - rows.length);
    this.moved(head, ended);
  }

  /** How many rows everybody who reads has behind them: what is kept for long is dear to collect. */
  #passed(): number {
    const first = this.#rows[0]?.seq;
    if (first === undefined || this.followers.size === 0) return 0;
    let place = Infinity;
    for (const follower of this.followers) place = Math.min(place, follower.place);
    return Math.max(0, Math.min(place + 1 - first, this.#rows.length));
  }

  /** Nobody uses it any more. */
  close(): void {
    this.#drop(this.#rows.length);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#budget.left -= bytes;
  }

  #drop(count: number): void {
    if (count === 0) return;
    for (const row of this.#rows.splice(0, count)) this.#add(-row.bytes);
  }

  /** The head is known to be here, by whatever way. */
  moved(head: Seq, ended: boolean): void {
    this.head = Math.max(this.head, head);
    this.ended ||= ended;
    for (const follower of this.followers) follower.wake();
  }

  /** The entry with this number, if it is still here. */
  at(seq: Seq): Entry | undefined {
    const index = seq - (this.#rows[0]?.seq ?? Infinity);
    const row = this.#rows[index];
    // A missed announcement leaves a gap; then the numbers do not fit and the store has the answer.
    if (row?.seq !== seq) return undefined;
    return entryOf(row);
  }
}

/** A row, with its line until its entry is known: both would be the same text twice. */
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

/** Somebody who reads a task. */
interface Follower {
  /** The last entry that they have. */
  readonly place: Seq;
  wake(): void;
}

/** The tail of a task, kept for whoever comes next. */
export interface RetainedTail {
  /** Up to where it is known what was committed, every commit being announced; 0 before the first. */
  readonly head: Seq;
  drop(): void;
}

/** Every reader of a log, with one tail per task that is read. */
export class LiveTails {
  readonly store: Store;
  readonly turns: ReadTurns = new ReadTurns();
  /** Why there is nothing more to read. */
  closed: DuolaneError | undefined;
  readonly #tails = new ReleasingMap<string, Tail>();
  readonly #budget: Budget;
  readonly #maxBytes: number;
  /** Of all tails. */
  #users = 0;

  constructor(store: Store, maxBytes: number = heapShare()) {
    this.#budget = { left: maxBytes };
    this.#maxBytes = maxBytes;
    this.store = store;
  }

  /** How much a reader should ask the store for, so that all of them together hold no more than that. */
  get chunkBytes(): number {
    const share = Math.floor(this.#maxBytes / Math.max(1, this.#users));
    return Math.max(MIN_CHUNK_BYTES, Math.min(share, MAX_CHUNK_BYTES));
  }

  /** Resolves when the caller may read from the store; `turns.end` follows. */
  takeTurn(): Promise<void> | undefined {
    return this.turns.take(Math.floor(this.#maxBytes / this.chunkBytes / 4));
  }

  commit(commit: Commit): void {
    const tail = this.#tails.get(commit.task);
    if (tail && (commit.rows.length > 0 || commit.head > tail.head)) tail.push(commit);
  }

  /** Asks where the heads are: for stores that do not announce every commit. */
  async poll(): Promise<void> {
    if (this.#tails.size === 0) return;
    for (const { task, head, ended } of await this.store.heads([...this.#tails.keys()]))
      this.#tails.get(task)?.moved(head, ended);
  }

  close(
    reason: DuolaneError = new DuolaneError('closed', 'the log was closed while it was read'),
  ): void {
    this.closed ??= reason;
    for (const tail of this.#tails.values()) tail.moved(0, false);
  }

  read(task: string, after: Seq, options: Abortable): Reading {
    return new EntryReader(new Readings(this, task, after, options));
  }

  /** From now on what is committed to this task is remembered, so a reader need not ask the store. */
  keep(task: string): RetainedTail {
    return new KeptTail(this, task);
  }

  use(task: string): Tail {
    let tail = this.#tails.get(task);
    if (!tail) this.#tails.set(task, (tail = new Tail(this.#budget)));
    tail.users++;
    this.#users++;
    return tail;
  }

  leave(task: string, tail: Tail): void {
    this.#users--;
    if (--tail.users !== 0) return;
    this.#tails.take(task);
    tail.close();
  }
}

class KeptTail implements RetainedTail {
  readonly #tails: LiveTails;
  readonly #task: string;
  readonly #tail: Tail;

  constructor(tails: LiveTails, task: string) {
    this.#tails = tails;
    this.#task = task;
    this.#tail = tails.use(task);
  }

  get head(): Seq {
    return this.#tail.head;
  }

  drop(): void {
    this.#tails.leave(this.#task, this.#tail);
  }
}

class EntryReader extends QueueReader<Entry> implements Reading {
  readonly #entries: Readings;

  constructor(entries: Readings) {
    super(entries);
    this.#entries = entries;
    entries.wake = () => this.wake();
  }

  take(): Entry | undefined {
    return this.#entries.ready();
  }
}

/** One reader's way through a task; begins when it is first asked. */
class Readings implements QueueSource<Entry>, Follower {
  wake = (): void => {};
  readonly #tails: LiveTails;
  readonly #task: string;
  readonly #options: Abortable;
  #place: Seq;
  #tail: Tail | undefined;
  #unfollow = (): void => {};
  /** What the store gave, and how much of it is behind us. */
  #rows: readonly EntryRow[] = [];
  #given = 0;
  #fetching = false;
  /** The head when the store was last asked. */
  #asked: Seq = -1;
  #failure: { readonly error: unknown } | undefined;
  #failingSince = Infinity;
  #retry: NodeJS.Timeout | undefined;
  #left = false;

  constructor(tails: LiveTails, task: string, after: Seq, options: Abortable) {
    this.#tails = tails;
    this.#task = task;
    this.#place = after;
    this.#options = options;
  }

  get place(): Seq {
    return this.#place;
  }

  take(): IteratorResult<Entry, void> | undefined {
    if (this.#left) return DONE;
    const tail = (this.#tail ??= this.#begin());
    if (this.#failure) throw this.#failure.error;
    if (this.#tails.closed) throw this.#tails.closed;
    const entry = this.ready();
    if (entry) return { done: false, value: entry };
    const seen = tail.since <= this.#place && this.#place <= tail.head;
    const unknown = this.#asked < 0 && !seen;
    if (unknown || tail.head > Math.max(this.#place, this.#asked)) {
      if (!this.#fetching) this.#fetch(tail).catch(reportUnexpected);
      return undefined;
    }
    return tail.ended && this.#place >= tail.head ? DONE : undefined;
  }

  /** The next entry, unless it has to be waited for or there is none: that is for `take` to say. */
  ready(): Entry | undefined {
    if (this.#left || this.#failure || this.#tails.closed || !this.#tail) return undefined;
    const entry = this.#tail.at(this.#place + 1) ?? this.#fetched(this.#tail);
    if (entry) this.#place = entry.seq;
    return entry;
  }

  cancel(): void {
    if (this.#left) return;
    this.#left = true;
    clearTimeout(this.#retry);
    this.#unfollow();
    if (!this.#tail) return;
    this.#tail.followers.delete(this);
    this.#tails.leave(this.#task, this.#tail);
    this.wake();
  }

  #begin(): Tail {
    const tail = this.#tails.use(this.#task);
    tail.followers.add(this);
    this.#unfollow = whenAborted(this.#options, (error) => this.#fail(error));
    return tail;
  }

  #fetched(tail: Tail): Entry | undefined {
    // Some of it may have come by announcement meanwhile.
    while ((this.#rows[this.#given]?.seq ?? Infinity) <= this.#place) this.#given++;
    const row = this.#rows[this.#given];
    if (!row) {
      this.#rows = [];
      this.#given = 0;
      return undefined;
    }
    return tail.at(row.seq) ?? decodeEntry(row.line);
  }

  async #fetch(tail: Tail): Promise<void> {
    this.#fetching = true;
    const turn = this.#tails.takeTurn();
    if (turn) await turn;
    const [task, place] = [this.#task, this.#place];
    try {
      if (this.#left) return;
      const reading =
        tail.reading.get(place) ?? this.#tails.store.read(task, place, this.#tails.chunkBytes);
      tail.reading.set(place, reading);
      const found = await reading.finally(() => tail.reading.delete(place));
      this.#failingSince = Infinity;
      if (!found)
        throw new DuolaneError(
          'not_found',
          `there is no task ${task}; it was never submitted here, or was pruned`,
        );
      if (place > found.head)
        throw new DuolaneError(
          'invalid',
          `task ${task} has no entry ${place}: its log ends at ${found.head}; read from 0`,
        );
      this.#rows = found.rows;
      this.#given = 0;
      this.#asked = found.rows.at(-1)?.seq ?? found.head;
      this.#fetching = false;
      if (found.head > tail.head || found.ended) tail.moved(found.head, found.ended);
      this.wake();
    } catch (error) {
      this.#failingSince = Math.min(this.#failingSince, performance.now());
      if (this.#bears(error, tail)) {
        this.#retry = setTimeout(() => {
          this.#fetchAgain(tail)?.catch(reportUnexpected);
        }, RETRY_MS);
        return;
      }
      this.#fetching = false;
      this.#fail(error);
    } finally {
      this.#tails.turns.end();
    }
  }

  // Whoever was told something already, by the store or by the tail, stays through a short failure.
  #bears(error: unknown, tail: Tail): boolean {
    const short = performance.now() - this.#failingSince < PATIENCE_MS;
    const known = this.#asked >= 0 || tail.since <= this.#place;
    return known && short && DuolaneError.from(error).retryable;
  }

  #fetchAgain(tail: Tail): Promise<void> | undefined {
    return this.#left || this.#failure || this.#tails.closed ? undefined : this.#fetch(tail);
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.wake();
  }
}
