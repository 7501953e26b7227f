import { isFinal } from '../../event/index.ts';
import type { Seq } from '../../event/types.ts';
import { isListedChange } from '../store/listed-change.ts';
import { RunQueue } from '../store/run-queue.ts';
import type {
  StorePage,
  PageRequest,
  ListPosition,
  EntryRow,
  StoredValueChange,
} from '../store/store.ts';
import {
  takeRows,
  type TaskHead,
  type StorageEngine,
  type TurnKey,
  turnKeyText,
} from '../store/storage-engine.ts';
import type { Bookmark, StoredValue, TaskFilter } from '../types.ts';

interface Record extends ListPosition {
  head: TaskHead;
  changedAt: number;
  rows: EntryRow[];
  compacted: boolean;
  readonly turns: string[];
  readonly marks: Map<string, Bookmark>;
  readonly values: Map<string, string>;
}

/**
 * A storage engine in maps. Beyond `keepEnded` ended tasks, the one that ended first is deleted.
 */
export class MemoryStorage implements StorageEngine {
  readonly #keepEnded: number;
  readonly #onEvict: (task: string) => void;
  readonly #tasks = new Map<string, Record>();
  readonly #turns = new Map<string, { readonly task: string; readonly seq: Seq }>();
  readonly #queue = new RunQueue();
  /** In the order in which they ended. */
  readonly #ended = new Set<string>();
  #keys = 0;

  constructor(keepEnded: number, onEvict: (task: string) => void) {
    this.#keepEnded = keepEnded;
    this.#onEvict = onEvict;
  }

  load(task: string): TaskHead | undefined {
    return this.#tasks.get(task)?.head;
  }

  write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void {
    const record = this.#tasks.get(to.task) ?? this.#create(to);
    record.head = to;
    for (const row of rows) record.rows.push(row);
    if (isListedChange(from?.snapshot, to.snapshot)) record.changedAt = to.snapshot.updatedAt;
    this.#queue.update(to.task, to.snapshot, to, record.key, record.changedAt);
    if (!isFinal(to.snapshot.state)) return;
    this.#ended.add(to.task);
    const [first] = this.#ended;
    if (this.#ended.size <= this.#keepEnded || first === undefined) return;
    this.remove(first);
    this.#onEvict(first);
  }

  rows(task: string, after: Seq, maxRows: number, maxBytes: number): EntryRow[] {
    const all = this.#tasks.get(task)?.rows ?? [];
    const from = indexAfter(all, after);
    return takeRows(all.slice(from, from + maxRows), maxRows, maxBytes);
  }

  turn(key: TurnKey): { readonly task: string; readonly seq: Seq } | undefined {
    return this.#turns.get(turnKeyText(key));
  }

  rememberTurn(key: TurnKey, task: string, seq: Seq): void {
    const text = turnKeyText(key);
    this.#turns.set(text, { task, seq });
    this.#tasks.get(task)?.turns.push(text);
  }

  queued(party: string): number {
    return this.#queue.queued(party);
  }

  claimable(...request: Parameters<StorageEngine['claimable']>): string | undefined {
    return this.#queue.claimable(...request);
  }

  setAside(task: string): void {
    this.#queue.delete(task);
  }

  nextLease(agents: readonly string[]): number | undefined {
    return this.#queue.nextLease(agents);
  }

  // Everything is in memory, so neither the size of the list page nor its outline matters.
  page({
    after,
    limit,
    maxChars: _maxChars,
    outline: _outline,
    ...filter
  }: PageRequest): StorePage {
    const found = this.#matching(filter)
      .filter((record) => after === undefined || newestFirst(after, record) < 0)
      .toSorted(newestFirst)
      .slice(0, limit);
    return {
      snapshots: found.map(({ head }) => head.snapshot),
      places: found.map(({ changedAt, key }) => ({ changedAt, key })),
    };
  }

  count(filter: TaskFilter): number {
    return this.#matching(filter).length;
  }

  putBookmark(mark: Bookmark): void {
    const marks = this.#tasks.get(mark.task)?.marks;
    if (mark.data === undefined) marks?.delete(mark.name);
    else marks?.set(mark.name, structuredClone(mark));
  }

  bookmarks(...[task, after, limit]: Parameters<StorageEngine['bookmarks']>): Bookmark[] {
    const one = task === undefined ? undefined : this.#tasks.get(task);
    const records = task === undefined ? [...this.#tasks.values()] : one ? [one] : [];
    return records
      .flatMap(({ marks }) => [...marks.values()])
      .filter((mark) => after === undefined || byName(mark, after) > 0)
      .toSorted(byName)
      .slice(0, limit);
  }

  setValues(task: string, changes: readonly StoredValueChange[]): void {
    const values = this.#tasks.get(task)?.values;
    for (const { key, value } of changes)
      if (value === undefined) values?.delete(key);
      else values?.set(key, value);
  }

  values(task: string, prefix: string, after: string, maxBytes: number): StoredValue[] {
    const values = this.#tasks.get(task)?.values ?? new Map<string, string>();
    const found: StoredValue[] = [];
    let bytes = 0;
    const keys = [...values.keys()].filter((key) => key.startsWith(prefix) && key > after);
    for (const key of keys.toSorted(compare)) {
      const value = values.get(key) as string;
      found.push({ key, value });
      bytes += value.length;
      if (bytes >= maxBytes) break;
    }
    return found;
  }

  ended(before: number, limit: number): string[] {
    return this.#endedBefore(before, limit, () => true);
  }

  uncompacted(before: number, limit: number): string[] {
    return this.#endedBefore(before, limit, (record) => !record.compacted);
  }

  compact(task: string, rows: readonly Seq[]): void {
    const record = this.#tasks.get(task);
    if (!record) return;
    const gone = new Set(rows);
    record.rows = record.rows.filter((row) => !gone.has(row.seq));
    record.compacted = true;
  }

  remove(task: string): void {
    if (!this.#ended.has(task)) return;
    for (const turn of this.#tasks.get(task)?.turns ?? []) this.#turns.delete(turn);
    this.#tasks.delete(task);
    this.#ended.delete(task);
    this.#queue.delete(task);
  }

  probe(): void {}

  #create(head: TaskHead): Record {
    const record: Record = {
      key: ++this.#keys,
      head,
      changedAt: 0,
      rows: [],
      compacted: false,
      turns: [],
      marks: new Map(),
      values: new Map(),
    };
    this.#tasks.set(head.task, record);
    return record;
  }

  #matching({ agent, owner, tenant, context, state, changedAfter }: TaskFilter): Record[] {
    return [...this.#tasks.values()].filter(
      ({ head: { snapshot }, changedAt }) =>
        (agent === undefined || snapshot.agent === agent) &&
        (owner === undefined || (snapshot.owner ?? '') === owner) &&
        (tenant === undefined || (snapshot.turns[0]?.tenant ?? '') === tenant) &&
        (context === undefined || snapshot.context === context) &&
        (state === undefined || snapshot.state === state) &&
        (changedAfter === undefined || changedAt > changedAfter),
    );
  }

  #endedBefore(before: number, limit: number, wanted: (record: Record) => boolean): string[] {
    const tasks: string[] = [];
    for (const task of this.#ended) {
      const record = this.#tasks.get(task);
      if (record && record.head.snapshot.updatedAt < before && wanted(record)) tasks.push(task);
      if (tasks.length === limit) break;
    }
    return tasks;
  }
}

// Numbers have no gaps until a task is compacted, so the index is nearly always known.
function indexAfter(rows: readonly EntryRow[], after: Seq): number {
  if (rows[after - 1]?.seq === after) return after;
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as EntryRow).seq > after) high = middle;
    else low = middle + 1;
  }
  return low;
}

const newestFirst = (a: ListPosition, b: ListPosition): number =>
  b.changedAt - a.changedAt || b.key - a.key;

const byName = (a: Pick<Bookmark, 'task' | 'name'>, b: Pick<Bookmark, 'task' | 'name'>): number =>
  compare(a.task, b.task) || compare(a.name, b.name);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
