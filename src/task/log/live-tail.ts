import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import type { Entry, Seq } from '../../event/types.ts';
import { whenAborted } from '../../stream/cancellation.ts';
import { DONE, QueueReader, type QueueSource } from '../../stream/queue-reader.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import type { Abortable } from '../../stream/types.ts';
import { heapShare } from '../text-budget.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { Commit, EntryRow, Store } from '../store/store.ts';
import { ReadTurns } from './read-turns.ts';
import { type TailBudget, type TailReader, TaskTail } from './task-tail.ts';
import type { Reading } from '../types.ts';

/** How long a reader waits for a store that fails, before its loop throws. */
const READ_RETRY_FOR_MS = 15_000;
const RETRY_MS = 100;
/** How much a reader reads from the store at a time, at least and at most. */
const MIN_CHUNK_BYTES = 16 << 10;
const MAX_CHUNK_BYTES = 1 << 20;

/** The tail of a task that is kept for the next reader. */
export interface RetainedTail {
  /** The last entry that was announced; 0 before the first commit. */
  readonly head: Seq;
  drop(): void;
}

/** The readers of a log, with one tail for each task that is read. */
export class LiveTails {
  readonly store: Store;
  readonly turns: ReadTurns = new ReadTurns();
  /** Why no reader can go on. */
  closed: DuolaneError | undefined;
  readonly #tails = new ReleasingMap<string, TaskTail>();
  readonly #budget: TailBudget;
  readonly #maxBytes: number;
  /** How many readers and claims use all tails. */
  #users = 0;

  constructor(store: Store, maxBytes: number = heapShare()) {
    this.#budget = { bytes: maxBytes };
    this.#maxBytes = maxBytes;
    this.store = store;
  }

  /** How much a reader reads from the store, so that all readers together stay below the limit. */
  get chunkBytes(): number {
    const share = Math.floor(this.#maxBytes / Math.max(1, this.#users));
    return Math.max(MIN_CHUNK_BYTES, Math.min(share, MAX_CHUNK_BYTES));
  }

  /** Takes a turn to read from the store, possibly after a wait; the caller calls `turns.end`. */
  takeTurn(): Promise<void> | undefined {
    return this.turns.take(Math.floor(this.#maxBytes / this.chunkBytes / 4));
  }

  commit(commit: Commit): void {
    const tail = this.#tails.get(commit.task);
    if (tail && (commit.rows.length > 0 || commit.head > tail.head)) tail.push(commit);
  }

  /** Reads the heads of all tasks, for stores that do not announce every commit. */
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

  /** Keeps the commits of this task from now on, so that a reader need not read from the store. */
  keep(task: string): RetainedTail {
    return new KeptTail(this, task);
  }

  use(task: string): TaskTail {
    let tail = this.#tails.get(task);
    if (!tail) this.#tails.set(task, (tail = new TaskTail(this.#budget)));
    tail.users++;
    this.#users++;
    return tail;
  }

  release(task: string, tail: TaskTail): void {
    this.#users--;
    if (--tail.users !== 0) return;
    this.#tails.take(task);
    tail.close();
  }
}

class KeptTail implements RetainedTail {
  readonly #tails: LiveTails;
  readonly #task: string;
  readonly #tail: TaskTail;

  constructor(tails: LiveTails, task: string) {
    this.#tails = tails;
    this.#task = task;
    this.#tail = tails.use(task);
  }

  get head(): Seq {
    return this.#tail.head;
  }

  drop(): void {
    this.#tails.release(this.#task, this.#tail);
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

/** One reader's progress in a task. It starts with the first read. */
class Readings implements QueueSource<Entry>, TailReader {
  wake = (): void => {};
  readonly #tails: LiveTails;
  readonly #task: string;
  readonly #options: Abortable;
  #position: Seq;
  #tail: TaskTail | undefined;
  #unfollow = (): void => {};
  /** The rows that the store returned, and how many of them are read. */
  #rows: readonly EntryRow[] = [];
  #given = 0;
  #fetching = false;
  /**
   * The last entry that the store has returned, or the head at that time; -1 before the first read.
   */
  #asked: Seq = -1;
  #failure: { readonly error: unknown } | undefined;
  #failingSince = Infinity;
  #retry: NodeJS.Timeout | undefined;
  #canceled = false;

  constructor(tails: LiveTails, task: string, after: Seq, options: Abortable) {
    this.#tails = tails;
    this.#task = task;
    this.#position = after;
    this.#options = options;
    // A database would refuse it, together with the reads of others in the same statement.
    if (!Number.isSafeInteger(after))
      this.#failure = {
        error: new DuolaneError(
          'invalid',
          `invalid position ${after} in task "${task}": expected the number of an entry, or 0`,
        ),
      };
  }

  get position(): Seq {
    return this.#position;
  }

  take(): IteratorResult<Entry, void> | undefined {
    if (this.#canceled) return DONE;
    const tail = (this.#tail ??= this.#begin());
    if (this.#failure) throw this.#failure.error;
    if (this.#tails.closed) throw this.#tails.closed;
    const entry = this.ready();
    if (entry) return { done: false, value: entry };
    const seen = tail.since <= this.#position && this.#position <= tail.head;
    const unknown = this.#asked < 0 && !seen;
    if (unknown || tail.head > Math.max(this.#position, this.#asked)) {
      if (!this.#fetching) this.#fetch(tail).catch(reportUnexpected);
      return undefined;
    }
    return tail.ended && this.#position >= tail.head ? DONE : undefined;
  }

  /** Returns the next entry if it is in memory. If it is not, `take` finds out why. */
  ready(): Entry | undefined {
    if (this.#canceled || this.#failure || this.#tails.closed || !this.#tail) return undefined;
    const entry = this.#tail.at(this.#position + 1) ?? this.#fetched(this.#tail);
    if (entry) this.#position = entry.seq;
    return entry;
  }

  cancel(): void {
    if (this.#canceled) return;
    this.#canceled = true;
    clearTimeout(this.#retry);
    this.#unfollow();
    if (!this.#tail) return;
    this.#tail.readers.delete(this);
    this.#tails.release(this.#task, this.#tail);
    this.wake();
  }

  #begin(): TaskTail {
    const tail = this.#tails.use(this.#task);
    tail.readers.add(this);
    this.#unfollow = whenAborted(this.#options, (error) => this.#fail(error));
    return tail;
  }

  #fetched(tail: TaskTail): Entry | undefined {
    // The tail may have had some of these rows meanwhile.
    while ((this.#rows[this.#given]?.seq ?? Infinity) <= this.#position) this.#given++;
    const row = this.#rows[this.#given];
    if (!row) {
      this.#rows = [];
      this.#given = 0;
      return undefined;
    }
    return tail.at(row.seq) ?? decodeEntry(row.line);
  }

  async #fetch(tail: TaskTail): Promise<void> {
    this.#fetching = true;
    const turn = this.#tails.takeTurn();
    if (turn) await turn;
    const [task, position] = [this.#task, this.#position];
    try {
      if (this.#canceled) return;
      const reading =
        tail.reading.get(position) ??
        this.#tails.store.read(task, position, this.#tails.chunkBytes);
      tail.reading.set(position, reading);
      const found = await reading.finally(() => tail.reading.delete(position));
      this.#failingSince = Infinity;
      if (!found)
        throw new DuolaneError(
          'not_found',
          `task "${task}" not found; it was never submitted here, or was pruned`,
        );
      if (position > found.head)
        throw new DuolaneError(
          'invalid',
          `invalid position ${position} in task "${task}": expected at most ${found.head}, where its log ends; read from 0`,
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

  // A reader that has read something, from the store or from the tail, survives a short failure.
  #bears(error: unknown, tail: TaskTail): boolean {
    const short = performance.now() - this.#failingSince < READ_RETRY_FOR_MS;
    const known = this.#asked >= 0 || tail.since <= this.#position;
    return known && short && DuolaneError.from(error).retryable;
  }

  #fetchAgain(tail: TaskTail): Promise<void> | undefined {
    return this.#canceled || this.#failure || this.#tails.closed ? undefined : this.#fetch(tail);
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.wake();
  }
}
