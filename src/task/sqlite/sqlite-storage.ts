import { DuolaneError } from '../../errors.ts';
import { decodeEntry, isFinal, needsRun } from '../../event/index.ts';
import type { Seq, Snapshot } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { isListedChange } from '../store/listed-change.ts';
import { foldStored } from '../store/fold-stored.ts';
import { encodeSnapshot } from '../store/line-codec.ts';
import { isDamage, PageBuilder } from '../store/page-builder.ts';
import { snapshotChars } from '../text-budget.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { outlineOf } from '../store/task-outline.ts';
import { RunQueue } from '../store/run-queue.ts';
import { condition } from './filter-condition.ts';
import type { Database, SqliteStatement } from './driver.ts';
import { EntryRows } from './entry-rows.ts';
import { type Hot, hotOptions } from './hot-tasks.ts';
import { SqliteOutlines } from './outline-rows.ts';
import type { StorePage, PageRequest, EntryRow, TaskFilter } from '../store/store.ts';
import {
  type TaskHead,
  type StorageEngine,
  type TurnKey,
  turnKeyOf,
} from '../store/storage-engine.ts';
import type { Bookmark } from '../types.ts';

const HOT_TASKS = 2000;
/** Who has just followed a task to its end often asks for it once more; later it comes from the file. */
const ENDED_TASKS = 64;
/** Up to so many entries are folded when a task is loaded; a snapshot that spares less is not written. */
const UNSAVED_ENTRIES = 16;
/** A new task up to this length has no outline: its one entry is as quickly read. */
const SHORT_CHARS = 8192;
/** What a thorough probe writes. */
const PROBE_BYTES = 256 * 1024;

/** Tables in SQLite. Runs inside the transaction of whoever calls; tasks in use are kept folded in memory. */
export class SqliteStorage implements StorageEngine {
  readonly #db: Database;
  readonly #entries: EntryRows;
  readonly #outlines: SqliteOutlines;
  readonly #statements = new Map<string, SqliteStatement>();
  readonly #hot = new LruCache<string, Hot>(HOT_TASKS, hotOptions(1));
  readonly #ended = new LruCache<string, Hot>(ENDED_TASKS, hotOptions(8));
  #queue: RunQueue | undefined;

  constructor(db: Database) {
    this.#db = db;
    this.#entries = new EntryRows(db);
    this.#outlines = new SqliteOutlines(db);
  }

  /** After a rollback, what is in memory may be ahead of what is stored. */
  forget(): void {
    this.#hot.clear();
    this.#ended.clear();
    this.#queue = undefined;
  }

  load(task: string): Hot | undefined {
    const hot = this.#hot.get(task) ?? this.#ended.get(task);
    if (hot) return hot;
    const row = this.#sql(
      `select key, changed_seq, epoch, worker, lease_until, s.line as snapshot, s.seq as saved_seq
       from tasks left join snapshots s on s.task = key where id = ?`,
    ).get(task);
    if (!row) return undefined;
    const key = Number(row['key']);
    // A short log has no snapshot.
    const saved = row['snapshot'] === null ? undefined : String(row['snapshot']);
    const savedSeq = row['saved_seq'] === null ? 0 : Number(row['saved_seq']);
    const head: Hot = {
      task,
      snapshot: foldStored(saved, this.#linesAfter(key, savedSeq)),
      epoch: Number(row['epoch']),
      worker: row['worker'] === null ? undefined : String(row['worker']),
      leaseUntil: Number(row['lease_until']),
      key,
      changedSeq: Number(row['changed_seq']),
      savedSeq,
    };
    this.#keep(head);
    return head;
  }

  write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void {
    const before = from as Hot | undefined;
    const isNews = isListedChange(before?.snapshot, to.snapshot);
    const touches = isNews || !sameClaim(before as Hot, to);
    const key = before?.key ?? this.#create(to);
    this.#entries.append(key, rows);
    if (before && touches) this.#update(before, to, isNews);
    const { task, snapshot, epoch, worker, leaseUntil } = to;
    const changedSeq = before && !touches ? before.changedSeq : snapshot.seq;
    this.#queue?.update(task, snapshot, to, key, isNews ? snapshot.updatedAt : undefined);
    const { savedSeq = 0 } = before ?? {};
    const saves = isNews && snapshot.seq - savedSeq > UNSAVED_ENTRIES;
    if (saves) this.#saveSnapshot(key, snapshot);
    // A new task is short, or is about to run and written again.
    if (isNews && (before || snapshotChars(snapshot) > SHORT_CHARS))
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
    });
  }

  rows(task: string, after: Seq, maxRows: number, maxBytes: number): EntryRow[] {
    const key = this.load(task)?.key;
    return key === undefined ? [] : this.#entries.rows(key, after, maxRows, maxBytes);
  }

  turn({ owner, agent, messageId }: TurnKey): { task: string; seq: Seq } | undefined {
    const row = this.#sql(
      `select t.id as id, turns.seq as seq from turns join tasks t on t.key = turns.task
       where turns.owner = ? and turns.agent = ? and message_id = ?`,
    ).get(owner, agent, messageId);
    return row && { task: String(row['id']), seq: Number(row['seq']) };
  }

  rememberTurn({ owner, agent, messageId }: TurnKey, task: string, seq: Seq): void {
    this.#sql('insert or replace into turns values(?, ?, ?, ?, ?)').run(
      owner,
      agent,
      messageId,
      this.#key(task),
      seq,
    );
  }

  queued(party: string): number {
    return this.#loadedQueue().queued(party);
  }

  claimable(
    agents: readonly string[],
    now: number,
    except?: readonly string[],
  ): string | undefined {
    return this.#loadedQueue().claimable(agents, now, except);
  }

  setAside(task: string): void {
    this.#queue?.delete(task);
  }

  nextLease(agents: readonly string[]): number | undefined {
    return this.#loadedQueue().nextLease(agents);
  }

  page({ after, limit, maxChars, outline = false, ...filter }: PageRequest): StorePage {
    const { where, values } = condition(filter);
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
    const { where, values } = condition(filter);
    const row = this.#sql(`select count(*) as n from tasks where ${where}`).get(...values);
    return Number(row?.['n']);
  }

  putBookmark({ task, name, after, data }: Bookmark): void {
    if (data === undefined)
      this.#sql('delete from bookmarks where task = ? and name = ?').run(task, name);
    else
      this.#sql('insert or replace into bookmarks values(?, ?, ?, ?)').run(
        task,
        name,
        after,
        JSON.stringify(data),
      );
  }

  bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
    limit: number,
  ): Bookmark[] {
    const place = [after?.task ?? '', after?.name ?? ''];
    const rows =
      task === undefined
        ? this.#sql(
            'select * from bookmarks where (task, name) > (?, ?) order by task, name limit ?',
          ).all(...place, limit)
        : this.#sql(
            'select * from bookmarks where task = ? and (task, name) > (?, ?) order by name limit ?',
          ).all(task, ...place, limit);
    return rows.map((row) => ({
      task: String(row['task']),
      name: String(row['name']),
      after: Number(row['after']),
      data: JSON.parse(String(row['data'])) as JsonObject,
    }));
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
      const head = this.load(task) as Hot;
      const { key, snapshot } = head;
      // What is folded from here on lacks the entries that go now.
      if (head.savedSeq < snapshot.seq) {
        this.#saveSnapshot(key, snapshot);
        this.#keep({ ...head, savedSeq: snapshot.seq });
      }
      this.#entries.delete(key, rows);
    }
    this.#sql('update tasks set compacted = 1 where id = ?').run(task);
  }

  // Without loading it: that costs, and a damaged one cannot be loaded.
  remove(task: string): void {
    const row = this.#sql('select key from tasks where id = ? and ended_at is not null').get(task);
    if (!row) return;
    const key = Number(row['key']);
    this.#forgetTurns(key);
    this.#sql('delete from tasks where key = ?').run(key);
    this.#queue?.delete(task);
    this.#forget(task);
  }

  /** No process but this one writes the file, so every claim in it is of one that is gone. */
  endLeases(): void {
    this.#sql('update tasks set lease_until = 0 where lease_until > 0').run();
    this.#queue = undefined;
  }

  // The same values again: SQLite writes the pages to its log all the same.
  probe(thorough: boolean): void {
    this.#sql('update holder set pid = pid').run();
    if (!thorough) return;
    this.#db.exec('create table if not exists probe(id integer primary key, filler blob)');
    this.#sql(`insert or replace into probe values(1, zeroblob(${PROBE_BYTES}))`).run();
  }

  /** No other process writes the file, so the tasks that need a runner are read once. */
  #loadedQueue(): RunQueue {
    if (this.#queue) return this.#queue;
    const queue = new RunQueue();
    const rows = this.#sql(
      `select id, key, agent, owner, tenant, state, changed_at, worker, lease_until from tasks
       where needs_run = 1 order by changed_at, key`,
    ).iterate();
    for (const row of rows)
      queue.put({
        task: String(row['id']),
        party: String(row['owner']) || String(row['tenant']),
        agent: String(row['agent']),
        changedAt: Number(row['changed_at']),
        key: Number(row['key']),
        claimed: row['worker'] !== null,
        leaseUntil: Number(row['lease_until']),
        waits: row['state'] === 'input-required' || row['state'] === 'auth-required',
      });
    return (this.#queue = queue);
  }

  #forgetTurns(key: number): void {
    try {
      for (const { line } of this.#entries.notes(key)) {
        const entry = decodeEntry(line);
        if (entry.type !== 'turn.submitted') continue;
        const { owner, agent, messageId } = turnKeyOf(entry.turn);
        this.#sql(
          'delete from turns where owner = ? and agent = ? and message_id = ? and task = ?',
        ).run(owner, agent, messageId, key);
      }
    } catch (error) {
      if (!isDamage(error)) throw error;
      // Without an index, but its messages cannot be read.
      this.#sql('delete from turns where task = ?').run(key);
    }
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
      needsRun(snapshot) ? 1 : 0,
      snapshot.updatedAt,
    );
    return Number(lastInsertRowid);
  }

  // The rules have checked epoch and place already; the statement checks them again in the file.
  #update({ key, changedSeq, epoch }: Hot, to: TaskHead, isNews: boolean): void {
    const { snapshot } = to;
    const { changes } = this.#sql(
      `update tasks set changed_seq = ?, state = ?, epoch = ?, worker = ?, lease_until = ?, needs_run = ?,
       changed_at = iif(?, ?, changed_at), ended_at = ? where key = ? and changed_seq = ? and epoch = ?`,
    ).run(
      snapshot.seq,
      snapshot.state,
      to.epoch,
      to.worker ?? null,
      to.leaseUntil,
      needsRun(snapshot) ? 1 : 0,
      isNews ? 1 : 0,
      snapshot.updatedAt,
      isFinal(snapshot.state) ? snapshot.updatedAt : null,
      key,
      changedSeq,
      epoch,
    );
    if (Number(changes) !== 1)
      throw new DuolaneError(
        'server',
        `task ${to.task} was changed in its file by somebody else; only one process may write it`,
      );
  }

  #saveSnapshot(key: number, snapshot: Snapshot): void {
    this.#sql('insert or replace into snapshots values(?, ?, ?)').run(
      key,
      snapshot.seq,
      encodeSnapshot(snapshot),
    );
  }

  /** Of a task that is kept folded as it is now, else as it was at its last change. */
  #outline(task: string, key: number): Snapshot {
    const hot = this.#hot.peek(task) ?? this.#ended.peek(task);
    if (hot) return outlineOf(hot.snapshot);
    return this.#outlines.get(key) ?? outlineOf(this.#peek(task));
  }

  *#linesAfter(key: number, after: Seq): Generator<string> {
    for (const { line } of this.#entries.after(key, after)) yield line;
  }

  // A list may name more tasks than are kept in memory, so it must not push out those in use.
  #peek(task: string): Snapshot {
    const hot = this.#hot.peek(task) ?? this.#ended.peek(task);
    if (hot) return hot.snapshot;
    const { snapshot } = this.load(task) as Hot;
    this.#forget(task);
    return snapshot;
  }

  // Only one of the two has it.
  #keep(head: Hot): void {
    const isOver = isFinal(head.snapshot.state);
    (isOver ? this.#ended : this.#hot).set(head.task, head);
    if (isOver) this.#hot.delete(head.task);
  }

  #forget(task: string): void {
    this.#hot.delete(task);
    this.#ended.delete(task);
  }

  #key(task: string): number {
    return (this.load(task) as Hot).key;
  }

  #sql(text: string): SqliteStatement {
    let statement = this.#statements.get(text);
    if (!statement) this.#statements.set(text, (statement = this.#db.prepare(text)));
    return statement;
  }
}

const sameClaim = (a: TaskHead, b: TaskHead): boolean =>
  a.epoch === b.epoch && a.worker === b.worker && a.leaseUntil === b.leaseUntil;
