import { DuolaneError } from '../errors.ts';
import { decodeEntry } from '../event/index.ts';
import type { Entry, Seq } from '../event/types.ts';
import type { Abortable } from '../stream/types.ts';
import { leavable, waitFor } from './leave.ts';
import type { Commit, Row, Store } from './store.ts';

const RING_ROWS = 256;
const RING_BYTES = 1 << 20;

/**
 * The newest rows of one task that somebody reads. Readers at the head take what was just committed
 * from here, decoded once for all of them; a reader that is further behind asks the store.
 */
class Tail {
  readers = 0;
  head: Seq = 0;
  ended = false;
  readonly wakes: Set<() => void> = new Set();
  #rows: Row[] = [];
  #entries: (Entry | undefined)[] = [];
  #bytes = 0;

  push({ rows, head, ended }: Pick<Commit, 'rows' | 'head' | 'ended'>): void {
    for (const row of rows) {
      this.#rows.push(row);
      this.#entries.push(undefined);
      this.#bytes += row.line.length;
    }
    let drop = 0;
    while (this.#rows.length - drop > RING_ROWS || this.#bytes > RING_BYTES)
      this.#bytes -= this.#rows[drop++]?.line.length ?? 0;
    this.#rows.splice(0, drop);
    this.#entries.splice(0, drop);
    this.moved(head, ended);
  }

  /** The head is known to be here, by whatever way. */
  moved(head: Seq, ended: boolean): void {
    this.head = Math.max(this.head, head);
    this.ended ||= ended;
    for (const wake of this.wakes) wake();
  }

  /** The entry with this number, if it is still here. */
  at(seq: Seq): Entry | undefined {
    const index = seq - (this.#rows[0]?.seq ?? Infinity);
    const row = this.#rows[index];
    // A missed announcement leaves a gap; then the numbers do not fit and the store has the answer.
    if (row?.seq !== seq) return undefined;
    return (this.#entries[index] ??= decodeEntry(row.line));
  }
}

/** Every reader of a log, with one tail per task that is read. */
export class Tails {
  readonly #store: Store;
  readonly #tails = new Map<string, Tail>();
  readonly #closed = new AbortController();

  constructor(store: Store) {
    this.#store = store;
  }

  commit(commit: Commit): void {
    if (commit.rows.length > 0) this.#tails.get(commit.task)?.push(commit);
  }

  /** Asks where the heads are: for stores that do not announce every commit. */
  async poll(): Promise<void> {
    if (this.#tails.size === 0) return;
    for (const { task, head, ended } of await this.#store.heads([...this.#tails.keys()]))
      this.#tails.get(task)?.moved(head, ended);
  }

  close(): void {
    this.#closed.abort();
    for (const tail of this.#tails.values()) tail.moved(0, false);
  }

  read(task: string, after: Seq, options: Abortable): AsyncIterableIterator<Entry> {
    return leavable(options, (signal) => this.#read(task, after, signal));
  }

  async *#read(task: string, after: Seq, signal: AbortSignal): AsyncGenerator<Entry, void> {
    const tail = this.#tails.get(task) ?? new Tail();
    this.#tails.set(task, tail);
    tail.readers++;
    try {
      let known = false;
      for (let place = after; ;) {
        this.#check(signal);
        const entry = tail.at(place + 1);
        if (entry) {
          place = entry.seq;
          yield entry;
          continue;
        }
        if (!known || tail.head > place) {
          const found = await this.#fetch(task, place, tail);
          known = true;
          for (const row of found) {
            this.#check(signal);
            place = row.seq;
            yield tail.at(row.seq) ?? decodeEntry(row.line);
          }
          if (found.length > 0) continue;
        }
        if (tail.ended && place >= tail.head) return;
        await waitFor((wake) => subscribe(tail.wakes, wake), signal);
      }
    } finally {
      if (--tail.readers === 0) this.#tails.delete(task);
    }
  }

  async #fetch(task: string, place: Seq, tail: Tail): Promise<readonly Row[]> {
    const found = await this.#store.read(task, place);
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
    if (found.head > tail.head || found.ended) tail.moved(found.head, found.ended);
    return found.rows;
  }

  #check(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#closed.signal.aborted)
      throw new DuolaneError('closed', 'the log was closed while this task was read');
  }
}

export function subscribe(wakes: Set<() => void>, wake: () => void): () => void {
  wakes.add(wake);
  return () => void wakes.delete(wake);
}
