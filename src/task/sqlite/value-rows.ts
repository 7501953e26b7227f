import { afterPrefix } from '../store/stored-values.ts';
import type { StoredValueChange } from '../store/store.ts';
import type { StoredValue } from '../types.ts';
import type { Database, SqliteStatement } from './driver.ts';

/** The values that agents keep with their tasks, by the id of the task and the key. */
export class ValueRows {
  readonly #set: SqliteStatement;
  readonly #delete: SqliteStatement;
  readonly #read: SqliteStatement;

  constructor(db: Database) {
    this.#set = db.prepare('insert or replace into task_values values(?, ?, ?)');
    this.#delete = db.prepare('delete from task_values where task = ? and key = ?');
    this.#read = db.prepare(
      'select key, value from task_values where task = ? and key > ? and key >= ? and key < ? order by key',
    );
  }

  set(task: string, values: readonly StoredValueChange[]): void {
    for (const { key, value } of values)
      if (value === undefined) this.#delete.run(task, key);
      else this.#set.run(task, key, value);
  }

  read(task: string, prefix: string, after: string, maxBytes: number): StoredValue[] {
    const found: StoredValue[] = [];
    let bytes = 0;
    for (const row of this.#read.iterate(task, after, prefix, afterPrefix(prefix))) {
      const value = String(row['value']);
      found.push({ key: String(row['key']), value });
      bytes += value.length;
      if (bytes >= maxBytes) break;
    }
    return found;
  }
}
