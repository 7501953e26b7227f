import { DuolaneError } from '../../errors.ts';
import { dueAt } from '../../event/fold/steps.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Seq, Snapshot } from '../../event/types.ts';
import { isListedChange } from '../store/listed-change.ts';
import { filterCondition } from '../store/filter-condition.ts';
import { foldStored } from '../store/fold-stored.ts';
import { encodeSnapshot } from '../store/line-codec.ts';
import { PageBuilder } from '../store/page-builder.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { outlineOf } from '../store/task-outline.ts';
import { needsRunner, RunQueue } from '../store/run-queue.ts';
import { BookmarkRows } from './bookmark-rows.ts';
import { ValueRows } from './value-rows.ts';
import type { Database, SqliteStatement } from './driver.ts';
import { EntryRows } from './entry-rows.ts';
import { type HotTask, hotOptions } from './hot-tasks.ts';
import { SqliteOutlines } from './outline-rows.ts';
import { TurnRows } from './turn-rows.ts';
import type { StorePage, PageRequest, EntryRow, StoredValueChange } from '../store/store.ts';
import type { TaskHead, StorageEngine, TurnKey } from '../store/storage-engine.ts';
import type { Bookmark, StoredValue, TaskFilter } from '../types.ts';

const HOT_TASKS = 2000;
/**
 * A client that followed a task to its end often reads it once more; later it is read from the
 * file.
 */
const ENDED_TASKS = 64;
/** A snapshot is written only if it saves folding more than so many entries at the next load. */
const UNSAVED_ENTRIES = 16;
/** A log up to this length has no outline: its entries are read as quickly. */
const SHORT_CHARS = 8192;
/** How much a thorough probe writes. */
const PROBE_BYTES = 256 * 1024;

/**
 * A storage engine in SQLite. It runs inside the transaction of its caller, and keeps tasks in use
 * folded in memory.
 */
export class SqliteStorage implements StorageEngine {
  readonly #db: Database;
  readonly #entries: EntryRows;
  readonly #outlines: SqliteOutlines;
  readonly #turns: TurnRows;
  readonly #bookmarks: BookmarkRows;
  readonly #values: ValueRows;
  readonly #statements = new Map<string, SqliteStatement>();
  readonly #hot = new LruCache<string, HotTask>(HOT_TASKS, hotOptions(1));
  readonly #ended = new LruCache<string, HotTask>(ENDED_TASKS, hotOptions(8));
  #queue: RunQueue | undefined;

  constructor(db: Database) {
    this.#db = db;
    this.#entries = new EntryRows(db);
    this.#outlines = new SqliteOutlines(db);
    this.#turns = new TurnRows(db);
    this.#bookmarks = new BookmarkRows(db);
    this.#values = new ValueRows(db);
  }

  /** Drops the caches: after a rollback, memory may be ahead of the file. */
  forget(): void {
    this.#hot.clear();
    this.#ended.clear();
    this.#queue = undefined;
  }

  load(task: string): HotTask | undefined {
    const hot = this.#hot.get(task) ?? this.#ended.get(task);
    if (hot) return hot;
    const row = this.#sql(
      `select key, changed_seq, epoch, worker, lease_until, s.line as snapshot, s.seq as saved_seq
       from tasks left join snapshots s on s.task = key where id = ?`,
    ).get(task);
    if (!row) return undefined;
    const key = Number(row['key']);
    // A task with a short log has no snapshot.
    const saved = row['snapshot'] === null ? undefined : String(row['snapshot']);
    const savedSeq = row['saved_seq'] === null ? 0 : Number(row['saved_seq']);
    const head: HotTask = {
      task,
      snapshot: foldStored(saved, this.#linesAfter(key, savedSeq)),
      epoch: Number(row['epoch']),
      worker: row['worker'] === null ? undefined : String(row['worker']),
      leaseUntil: Number(row['lease_until']),
      key,
      changedSeq: Number(row['changed_seq']),
      savedSeq,
      logChars: Infinity,
    };
    this.#keep(head);
    return head;
  }

  write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void {
    const before = from as HotTask | undefined;
    const isListed = isListedChange(before?.snapshot, to.snapshot);
    const touches = isListed || !sameClaim(before as HotTask, to);
    const key = before?.key ?? this.#create(to);
    this.#entries.append(key, rows);
    if (before && touches) this.#update(before, to, isListed);
    const { task, snapshot, epoch, worker, leaseUntil } = to;
    const changedSeq = before && !touches ? before.changedSeq : snapshot.seq;
    this.#queue?.update(task, snapshot, to, key, isListed ? snapshot.updatedAt : undefined);
    const { savedSeq = 0 } = before ?? {};
    const saves = isListed && snapshot.seq - savedSeq > UNSAVED_ENTRIES;
    if (saves) this.#saveSnapshot(key, snapshot);
    const hadChars = before?.logChars ?? 0;
    const logChars = rows.reduce((sum, { line }) => sum + line.length, hadChars);
    // A list never reads a long log: it gets its outline when it becomes long, and a new one with
    // each change. A short task never has one, which saves a quarter of the cost of its commits.
    if (logChars > SHORT_CHARS && (isListed || hadChars <= SHORT_CHARS))
      this.#outlines.put(key, snapshot);
    this.#keep({
      task,
      snapshot,
      epoch,
      worker,
      leaseUntil,
      key,
      changedSeq,
      savedSeq: saves ? snapshot.seq : savedSeq,
      logChars,
    });
  }

  rows(task: string, after: Seq, maxRows: number, maxBytes: number): EntryRow[] {
    const key = this.load(task)?.key;
    return key === undefined ? [] : this.#entries.rows(key, after, maxRows, maxBytes);
  }

  turn(key: TurnKey): { task: string; seq: Seq } | undefined {
    return this.#turns.get(key);
  }

  rememberTurn(key: TurnKey, task: string, seq: Seq): void {
    this.#turns.put(key, (this.load(task) as HotTask).key, seq);
  }

  queued(party: string): number {
    return this.#loadedQueue().queued(party);
  }

  claimable(...request: Parameters<StorageEngine['claimable']>): string | undefined {
    return this.#loadedQueue().claimable(...request);
  }

  setAside(task: string): void {
    this.#queue?.delete(task);
  }

  nextLease(agents: readonly string[]): number | undefined {
    return this.#loadedQueue().nextLease(agents);
  }

  page({ after, limit, maxChars, outline = false, ...filter }: PageRequest): StorePage {
    const { where, values } = filterCondition(filter, () => '?');
    const place = after ? 'and (changed_at, key) < (?, ?)' : '';
    const found = this.#sql(
      `select id, changed_at, key from tasks where ${where} ${place}
       order by changed_at desc, key desc limit ?`,
    ).all(...values, ...(after ? [after.changedAt, after.key] : []), limit);
    const pages = new PageBuilder(maxChars);
    for (const row of found) {
      const task = String(row['id']);
      const at = { changedAt: Number(row['changed_at']), key: Number(row['key']) };
      const read = (): Snapshot => (outline ? this.#outline(task, at.key) : this.#peek(task));
      if (!pages.add(task, at, read)) break;
    }
    return pages.page;
  }

  count(filter: TaskFilter): number {
    const { where, values } = filterCondition(filter, () => '?');
    const row = this.#sql(`select count(*) as n from tasks where ${where}`).get(...values);
    return Number(row?.['n']);
  }

  putBookmark(mark: Bookmark): void {
    this.#bookmarks.put(mark);
  }

  bookmarks(...request: Parameters<StorageEngine['bookmarks']>): Bookmark[] {
    return this.#bookmarks.page(...request);
  }

  setValues(task: string, values: readonly StoredValueChange[]): void {
    this.#values.set(task, values);
  }

  values(task: string, prefix: string, after: string, maxBytes: number): StoredValue[] {
    return this.#values.read(task, prefix, after, maxBytes);
  }

  ended(before: number, limit: number): string[] {
    return this.#sql('select id from tasks where ended_at < ? order by ended_at limit ?')
      .all(before, limit)
      .map((row) => String(row['id']));
  }

  uncompacted(before: number, limit: number): string[] {
    return this.#sql('select id from tasks where ended_at < ? and compacted = 0 limit ?')
      .all(before, limit)
      .map((row) => String(row['id']));
  }

  compact(task: string, rows: readonly Seq[]): void {
    if (rows.length > 0) {
      const head = this.load(task) as HotTask;
      const { key, snapshot } = head;
      // Later folds lack the entries that are deleted now, so they must begin with this snapshot.
      if (head.savedSeq < snapshot.seq) {
        this.#saveSnapshot(key, snapshot);
        this.#keep({ ...head, savedSeq: snapshot.seq });
      }
      this.#entries.delete(key, rows);
    }
    this.#sql('update tasks set compacted = 1 where id = ?').run(task);
  }

  // Does not load the task: that is expensive, and impossible for a damaged one.
  remove(task: string): void {
    const row = this.#sql('select key from tasks where id = ? and ended_at is not null').get(task);
    if (!row) return;
    const key = Number(row['key']);
    this.#turns.deleteTask(key, this.#entries.notes(key));
    this.#sql('delete from tasks where key = ?').run(key);
    this.#queue?.delete(task);
    this.#forget(task);
  }

  /**
   * Ends all leases: only one process writes the file, so its claims are of a process that is gone.
   */
  endLeases(): void {
    this.#sql('update tasks set lease_until = 0 where lease_until > 0').run();
    this.#queue = undefined;
  }

  // Writes the same values again: SQLite still writes the pages to its log.
  probe(thorough: boolean): void {
    this.#sql('update holder set pid = pid').run();
    if (!thorough) return;
    this.#db.exec('create table if not exists probe(id integer primary key, filler blob)');
    this.#sql(`insert or replace into probe values(1, zeroblob(${PROBE_BYTES}))`).run();
  }

  /** Reads the tasks that need a runner, once: no other process writes the file. */
  #loadedQueue(): RunQueue {
    if (this.#queue) return this.#queue;
    const queue = new RunQueue();
    const rows = this.#sql(
      `select id, key, agent, owner, tenant, state, changed_at, worker, lease_until, needs_run, due_at
       from tasks where needs_run = 1 or due_at is not null order by changed_at, key`,
    ).iterate();
    for (const row of rows) {
      const item = {
        task: String(row['id']),
        party: String(row['owner']) || String(row['tenant']),
        agent: String(row['agent']),
        changedAt: Number(row['changed_at']),
        key: Number(row['key']),
        claimed: row['worker'] !== null,
        leaseUntil: Number(row['lease_until']),
        waits: row['state'] === 'input-required' || row['state'] === 'auth-required',
      };
      if (Number(row['needs_run']) === 1) queue.put(item);
      else queue.putTimer(item, Number(row['due_at']));
    }
    return (this.#queue = queue);
  }

  #create({ task, snapshot, epoch, worker, leaseUntil }: TaskHead): number {
    const { lastInsertRowid } = this.#sql(
      `insert into tasks(id, agent, context, owner, tenant, state, changed_seq, epoch, worker, lease_until, needs_run, changed_at)
       values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ).run(
      task,
      snapshot.agent,
      snapshot.context,
      snapshot.owner ?? '',
      snapshot.turns[0]?.tenant ?? '',
      snapshot.state,
      snapshot.seq,
      epoch,
      worker ?? null,
      leaseUntil,
      needsRunner(snapshot, worker) ? 1 : 0,
      snapshot.updatedAt,
    );
    return Number(lastInsertRowid);
  }

  // The rules have checked epoch and position in memory; the statement checks them in the file.
  #update({ key, changedSeq, epoch }: HotTask, to: TaskHead, isListed: boolean): void {
    const { snapshot } = to;
    const { changes } = this.#sql(
      `update tasks set changed_seq = ?, state = ?, epoch = ?, worker = ?, lease_until = ?, needs_run = ?, due_at = ?,
       changed_at = iif(?, ?, changed_at), ended_at = ? where key = ? and changed_seq = ? and epoch = ?`,
    ).run(
      snapshot.seq,
      snapshot.state,
      to.epoch,
      to.worker ?? null,
      to.leaseUntil,
      needsRunner(snapshot, to.worker) ? 1 : 0,
      dueAt(snapshot) ?? null,
      isListed ? 1 : 0,
      snapshot.updatedAt,
      isFinal(snapshot.state) ? snapshot.updatedAt : null,
      key,
      changedSeq,
      epoch,
    );
    if (Number(changes) !== 1)
      throw new DuolaneError(
        'server',
        `cannot write task "${to.task}": another process changed it in the file; only one process may write the file`,
      );
  }

  #saveSnapshot(key: number, snapshot: Snapshot): void {
    this.#sql('insert or replace into snapshots values(?, ?, ?)').run(
      key,
      snapshot.seq,
      encodeSnapshot(snapshot),
    );
  }

  /** Returns the outline as of now if the task is in memory, else as of its last change. */
  #outline(task: string, key: number): Snapshot {
    const hot = this.#hot.peek(task) ?? this.#ended.peek(task);
    if (hot) return outlineOf(hot.snapshot);
    return this.#outlines.get(key) ?? outlineOf(this.#peek(task));
  }

  *#linesAfter(key: number, after: Seq): Generator<string> {
    for (const { line } of this.#entries.after(key, after)) yield line;
  }

  // Does not cache the task: a long list would evict the tasks that are in use.
  #peek(task: string): Snapshot {
    const hot = this.#hot.peek(task) ?? this.#ended.peek(task);
    if (hot) return hot.snapshot;
    const { snapshot } = this.load(task) as HotTask;
    this.#forget(task);
    return snapshot;
  }

  // A task is in one of the two caches.
  #keep(head: HotTask): void {
    const isOver = isFinal(head.snapshot.state);
    (isOver ? this.#ended : this.#hot).set(head.task, head);
    if (isOver) this.#hot.delete(head.task);
  }

  #forget(task: string): void {
    this.#hot.delete(task);
    this.#ended.delete(task);
  }

  #sql(text: string): SqliteStatement {
    let statement = this.#statements.get(text);
    if (!statement) this.#statements.set(text, (statement = this.#db.prepare(text)));
    return statement;
  }
}

const sameClaim = (a: TaskHead, b: TaskHead): boolean =>
  a.epoch === b.epoch && a.worker === b.worker && a.leaseUntil === b.leaseUntil;
