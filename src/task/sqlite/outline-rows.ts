import type { Snapshot } from '../../event/types.ts';
import { decodeSnapshot, encodeSnapshot } from '../store/line-codec.ts';
import { outlineOf } from '../store/task-outline.ts';
import type { Database, SqliteStatement } from './driver.ts';

/** The outlines of tasks for lists, by the keys of the tasks, as of their last change. */
export class SqliteOutlines {
  readonly #put: SqliteStatement;
  readonly #get: SqliteStatement;

  constructor(db: Database) {
    this.#put = db.prepare('insert or replace into outlines values(?, ?)');
    this.#get = db.prepare('select line from outlines where task = ?');
  }

  put(key: number, snapshot: Snapshot): void {
    this.#put.run(key, encodeSnapshot(outlineOf(snapshot)));
  }

  /** Undefined for a short task, and for one that has not changed since the schema has outlines. */
  get(key: number): Snapshot | undefined {
    const row = this.#get.get(key);
    return row && decodeSnapshot(String(row['line']));
  }
}
