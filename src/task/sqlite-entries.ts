import type { Seq } from '../event/types.ts';
import type { Database, SqlRow, Statement } from './sqlite-driver.ts';
import type { Row } from './store.ts';

/** The logs of all tasks, by their keys. */
export class SqliteEntries {
  readonly #insert: Statement;
  readonly #after: Statement;
  readonly #delete: Statement;

  constructor(db: Database) {
    // One row at a time: for several at once SQLite first copies every page that it may have to undo.
    this.#insert = db.prepare('insert into entries values(?, ?, ?, ?)');
    this.#after = db.prepare(
      'select seq, note, line from entries where task = ? and seq > ? order by seq',
    );
    this.#delete = db.prepare('delete from entries where task = ? and seq = ?');
  }

  /** Throws when an entry with that number is there already: somebody else has written it. */
  append(key: number, rows: readonly Row[]): void {
    for (const { seq, note, line } of rows) this.#insert.run(key, seq, note ? 1 : 0, line);
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
    for (const row of this.#after.iterate(key, after)) yield toRow(row);
  }

  delete(key: number, seqs: readonly Seq[]): void {
    for (const seq of seqs) this.#delete.run(key, seq);
  }
}

const toRow = (row: SqlRow): Row => ({
  seq: Number(row['seq']),
  note: row['note'] === 1,
  line: String(row['line']),
});
