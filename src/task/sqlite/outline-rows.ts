import type { Snapshot } from '../../event/types.ts';
import { decodeSnapshot, encodeSnapshot } from '../store/line-codec.ts';
import { outlineOf } from '../store/task-outline.ts';
import type { Database, SqliteStatement } from './driver.ts';

/** What lists show of tasks, by their keys, as of the last change of each. */
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

  /** Undefined for a task that has not changed since there are outlines, or is short. */
  get(key: number): Snapshot | undefined {
    const row = this.#get.get(key);
    return row && decodeSnapshot(String(row['line']));
  }
}
