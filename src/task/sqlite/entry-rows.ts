import type { Seq } from '../../event/types.ts';
import type { Database, SqliteRow, SqliteStatement } from './driver.ts';
import { takeRows } from '../store/storage-engine.ts';
import type { EntryRow } from '../store/store.ts';

/** The limit of a row, since a read of a few of its lines reads all of it. */
const MAX_ROW_CHARS = 64 * 1024;

/**
 * The entries of all tasks, by the keys of the tasks. Entries that are appended together are one
 * row, with the number of the first entry and a line for each: most of the cost of an entry is its
 * row. A line is JSON and has no line break in it.
 */
export class EntryRows {
  readonly #insert: SqliteStatement;
  readonly #after: SqliteStatement;
  readonly #notes: SqliteStatement;
  readonly #holding: SqliteStatement;
  readonly #delete: SqliteStatement;

  constructor(db: Database) {
    // One row at a time: for several rows SQLite first copies every page that it may have to undo.
    this.#insert = db.prepare('insert into entries values(?, ?, ?, ?)');
    this.#after = db.prepare(
      `select seq, note, line from entries where task = ? and seq >=
       coalesce((select max(seq) from entries where task = ? and seq <= ?), 0) order by seq`,
    );
    this.#notes = db.prepare('select seq, note, line from entries where task = ? and note = 1');
    this.#holding = db.prepare(
      'select seq, note, line from entries where task = ? and seq <= ? order by seq desc limit 1',
    );
    this.#delete = db.prepare('delete from entries where task = ? and seq = ?');
  }

  /** Appends rows. Throws if a row with that number exists: another process has written it. */
  append(key: number, rows: readonly EntryRow[]): void {
    for (let from = 0; from < rows.length;) {
      const { seq, note, line } = rows[from] as EntryRow;
      let lines = line;
      for (from++; from < rows.length; from++) {
        const next = rows[from] as EntryRow;
        if (next.note !== note || lines.length + next.line.length > MAX_ROW_CHARS) break;
        lines += `\n${next.line}`;
      }
      this.#insert.run(key, seq, note ? 1 : 0, lines);
    }
  }

  rows(key: number, after: Seq, maxRows: number, maxBytes: number): EntryRow[] {
    return takeRows(this.after(key, after), maxRows, maxBytes);
  }

  *after(key: number, after: Seq): Generator<EntryRow> {
    // The last row that begins before the position may end after it.
    for (const row of this.#after.iterate(key, key, after + 1))
      for (const entry of entriesOf(row)) if (entry.seq > after) yield entry;
  }

  /** Yields the notes only; the other rows, which may be long, are not read. */
  *notes(key: number): Generator<EntryRow> {
    for (const row of this.#notes.iterate(key)) yield* entriesOf(row);
  }

  /**
   * Deletes entries. The remaining lines of their rows become single rows, since they have gaps.
   */
  delete(key: number, seqs: readonly Seq[]): void {
    const gone = new Set(seqs);
    for (const seq of gone) {
      const row = this.#holding.get(key, seq);
      if (!row) continue;
      this.#delete.run(key, Number(row['seq']));
      for (const entry of entriesOf(row)) if (!gone.delete(entry.seq)) this.append(key, [entry]);
    }
  }
}

function entriesOf(row: SqliteRow): EntryRow[] {
  const first = Number(row['seq']);
  const note = row['note'] === 1;
  const lines = String(row['line']).split('\n');
  return lines.map((line, index): EntryRow => ({ seq: first + index, note, line }));
}
