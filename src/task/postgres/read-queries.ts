import type { Snapshot } from '../../event/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { compactableIn } from '../store/compaction.ts';
import { filterCondition } from '../store/filter-condition.ts';
import { isDamage, PageBuilder } from '../store/page-builder.ts';
import { isRefused, type PgConnections } from './connections.ts';
import type { HeadCache } from './head-cache.ts';
import type { Sql } from './sql.ts';
import { decodeSnapshot } from '../store/line-codec.ts';
import { CHUNK_ROWS, PRUNE_TASKS } from '../store/store-rules.ts';
import { CHUNK_BYTES } from '../store/task-rules.ts';
import {
  decodeBookmark,
  decodeEntryRow,
  decodeHeadInfo,
  decodeListedRow,
  type ListedRow,
} from './row-decoders.ts';
import type { PageRequest, StorePage, ReadResult, EntryRow } from '../store/store.ts';
import type { Bookmark, StoredValue, TaskFilter } from '../types.ts';
import { afterPrefix } from '../store/stored-values.ts';

const MAX_READS = 200;
const MAX_STATEMENTS = 3;

const dollar = (number: number): string => `$${number}`;

interface QueuedRead {
  readonly task: string;
  readonly after: number;
  readonly resolve: (result: ReadResult | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** The queries that only read. They see what is committed, by any replica. */
export class ReadQueries {
  readonly #connections: PgConnections;
  readonly #sql: Sql;
  readonly #schema: string;
  readonly #heads: HeadCache;
  readonly #queue: QueuedRead[] = [];
  #statements = 0;

  constructor(connections: PgConnections, sql: Sql, schema: string, heads: HeadCache) {
    this.#connections = connections;
    this.#sql = sql;
    this.#schema = schema;
    this.#heads = heads;
  }

  /** Reads entries. Calls that are made while other statements run share one statement. */
  read(task: string, after: number): Promise<ReadResult | undefined> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ task, after, resolve, reject });
      if (this.#queue.length === 1) queueMicrotask(() => this.#next());
    });
  }

  async heads(
    tasks: readonly string[],
  ): Promise<{ readonly task: string; readonly head: number; readonly ended: boolean }[]> {
    const rows = await this.#connections.read(this.#sql.heads, [tasks]);
    return rows.map(decodeHeadInfo);
  }

  async get(task: string): Promise<Snapshot | undefined> {
    const [snapshot] = await this.#snapshots([task]);
    return snapshot;
  }

  async page({
    after,
    limit,
    maxChars,
    outline = false,
    ...filter
  }: PageRequest): Promise<StorePage> {
    const { where, values } = filterCondition(filter, dollar);
    const place = after
      ? `and (changed_at, key) < ($${values.push(after.changedAt)}, $${values.push(after.key)})`
      : '';
    const line = outline ? 'case when s.outline_seq = s.seq then s.outline end' : 'null';
    const text = `select t.id, t.changed_at, t.key, octet_length(s.line) as size, ${line} as outline
      from (select * from ${this.#schema}.tasks where ${where} ${place}
        order by changed_at desc, key desc limit $${values.push(limit)}) as t
      left join ${this.#schema}.snapshots s on s.task = t.key
      order by t.changed_at desc, t.key desc`;
    const found = (await this.#connections.read({ text }, values)).map(decodeListedRow);
    const pages = new PageBuilder(maxChars);
    for (let at = 0; at < found.length;) {
      // Read so many complete tasks at a time that they are not much more than the list page takes.
      const group: ListedRow[] = [];
      for (let size = 0; at < found.length && size < (maxChars ?? Infinity); at++) {
        const each = found[at] as ListedRow;
        group.push(each);
        size += each.outline === undefined ? each.size : each.outline.length;
      }
      const complete = group.filter((each) => each.outline === undefined);
      const snapshots = await this.#eachSnapshot(complete.map(({ task }) => task));
      for (const { task, position, outline: short } of group) {
        const read = (): Snapshot | undefined =>
          short === undefined ? snapshots.get(task)?.() : decodeSnapshot(short);
        if (!pages.add(task, position, read)) return pages.page;
      }
    }
    return pages.page;
  }

  /**
   * Returns for each task a function that returns its snapshot, or throws why it cannot be read.
   */
  async #eachSnapshot(tasks: readonly string[]): Promise<Map<string, () => Snapshot>> {
    const all = new Map<string, () => Snapshot>();
    try {
      for (const snapshot of await this.#snapshots(tasks)) all.set(snapshot.task, () => snapshot);
    } catch (error) {
      if (!isDamage(error)) throw error;
      // One of them is damaged. Reading each alone finds out which one.
      const [task, ...more] = tasks;
      if (task !== undefined && more.length === 0)
        all.set(task, () => {
          throw error;
        });
      else
        for (const each of tasks)
          for (const [name, read] of await this.#eachSnapshot([each])) all.set(name, read);
    }
    return all;
  }

  async count(filter: TaskFilter): Promise<number> {
    const { where, values } = filterCondition(filter, dollar);
    const text = `select count(*) as n from ${this.#schema}.tasks where ${where}`;
    const [row] = await this.#connections.read({ text }, values);
    return Number(row?.['n']);
  }

  async bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
  ): Promise<Bookmark[]> {
    const values: unknown[] = [after?.task ?? '', after?.name ?? '', CHUNK_ROWS];
    const only = task === undefined ? '' : `and task = $${values.push(task)}`;
    const text = `select task, name, after, data from ${this.#schema}.bookmarks
      where (task, name) > ($1, $2) ${only} order by task, name limit $3`;
    const rows = await this.#connections.read({ text }, values);
    return rows.map(decodeBookmark);
  }

  async values(task: string, prefix: string, after = ''): Promise<StoredValue[]> {
    const range = [task, after, prefix, afterPrefix(prefix)];
    const limits = [CHUNK_BYTES, CHUNK_ROWS];
    const rows = await this.#connections.read(this.#sql.values, [...range, ...limits]);
    return rows.map((row) => ({ key: String(row['key']), value: String(row['value']) }));
  }

  async ended(before: number): Promise<string[]> {
    const rows = await this.#connections.read(this.#sql.ended, [before, PRUNE_TASKS]);
    return rows.map((row) => String(row['id']));
  }

  /** Yields some tasks that ended before the time, with the rows that compaction drops. */
  async *compactable(
    before: number,
  ): AsyncGenerator<{ readonly task: string; readonly rows: readonly number[] }, void> {
    const found = await this.#connections.read(this.#sql.uncompacted, [before, PRUNE_TASKS]);
    for (const { id } of found) {
      const task = String(id);
      const rows: EntryRow[] = [];
      for (let after = 0; ; after = rows.at(-1)?.seq ?? 0) {
        const more = (await this.read(task, after))?.rows ?? [];
        if (more.length === 0) break;
        rows.push(...more);
      }
      yield { task, rows: compactableIn(rows) };
    }
  }

  async #snapshots(tasks: readonly string[]): Promise<Snapshot[]> {
    if (tasks.length === 0) return [];
    const ask = this.#connections.read.bind(this.#connections);
    const found = await this.#heads.fresh(tasks, ask);
    return tasks.flatMap((task) => found.get(task)?.snapshot ?? []);
  }

  #next(): void {
    if (this.#queue.length === 0 || this.#statements >= MAX_STATEMENTS) return;
    const reads = this.#queue.splice(0, MAX_READS);
    this.#statements++;
    this.#answer(reads)
      .finally(() => {
        this.#statements--;
        this.#next();
      })
      .catch(reportUnexpected);
    // Reads beyond one statement use the other slots.
    this.#next();
  }

  async #answer(reads: readonly QueuedRead[]): Promise<void> {
    try {
      const rows = await this.#connections.read(this.#sql.read, [
        reads.map(({ task }) => task),
        reads.map(({ after }) => after),
        CHUNK_ROWS,
        CHUNK_BYTES,
      ]);
      const results = new Map<number, ReadResult & { readonly rows: EntryRow[] }>();
      for (const row of rows) {
        const n = Number(row['n']);
        const result = results.get(n) ?? {
          rows: [],
          head: Number(row['head']),
          ended: row['ended'] === true,
        };
        results.set(n, result);
        if (row['seq'] !== null) result.rows.push(decodeEntryRow(row));
      }
      for (const [index, { resolve }] of reads.entries()) resolve(results.get(index + 1));
    } catch (error) {
      // PostgreSQL refused one of them. Alone, each of the others gets its own result.
      if (reads.length > 1 && isRefused(error))
        for (const each of reads) await this.#answer([each]);
      else for (const { reject } of reads) reject(error);
    }
  }
}
