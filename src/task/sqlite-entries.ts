import type { Seq } from '../event/types.ts';
import type { Database, SqlRow, Statement, Value } from './sqlite-driver.ts';
import type { Row } from './store.ts';

/** How many entries one statement writes, the most that fit first. */
const AT_ONCE = [32, 8, 1] as const;
const COLUMNS = 4;

/**
 * The logs of all tasks, by their keys. What is appended waits until somebody reads, deletes or calls
 * `flush`, at the latest before the commit: then one statement writes the entries of many tasks,
 * and the call into the database is the dearest part of a short one.
 */
export class SqliteEntries {
  readonly #inserts: readonly { readonly rows: number; readonly statement: Statement }[];
  readonly #after: Statement;
  readonly #delete: Statement;
  #waiting: Value[] = [];

  constructor(db: Database) {
    this.#inserts = AT_ONCE.map((rows) => {
      const values = Array.from({ length: rows }, () => '(?, ?, ?, ?)').join(', ');
      return { rows, statement: db.prepare(`insert into entries values ${values}`) };
    });
    this.#after = db.prepare(
      'select seq, note, line from entries where task = ? and seq > ? order by seq',
    );
    this.#delete = db.prepare('delete from entries where task = ? and seq = ?');
  }

  append(key: number, rows: readonly Row[]): void {
    for (const { seq, note, line } of rows) this.#waiting.push(key, seq, note ? 1 : 0, line);
  }

  /** Throws when an entry with that number is there already: somebody else has written it. */
  flush(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    let at = 0;
    for (const { rows, statement } of this.#inserts)
      for (const size = rows * COLUMNS; waiting.length - at >= size; at += size)
        statement.run(...waiting.slice(at, at + size));
  }

  /** Forgets what waits: its transaction is rolled back. */
  forget(): void {
    this.#waiting = [];
  }

  rows(key: number, after: Seq, maxRows: number, maxBytes: number): Row[] {
    const rows: Row[] = [];
    let bytes = 0;
    for (const row of this.after(key, after)) {
      rows.push(row);
      bytes += row.line.length;
      if (rows.length >= maxRows || bytes >= maxBytes) break;
    }
    return rows;
  }

  *after(key: number, after: Seq): Generator<Row> {
    this.flush();
    for (const row of this.#after.iterate(key, after)) yield toRow(row);
  }

  delete(key: number, seqs: readonly Seq[]): void {
    this.flush();
    for (const seq of seqs) this.#delete.run(key, seq);
  }
}

const toRow = (row: SqlRow): Row => ({
  seq: Number(row['seq']),
  note: row['note'] === 1,
  line: String(row['line']),
});
