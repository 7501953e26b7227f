import type { JsonObject } from '../../json.ts';
import type { Bookmark } from '../types.ts';
import type { Database, SqliteStatement } from './driver.ts';

/** The bookmarks of all tasks, by the id of the task and their name. */
export class BookmarkRows {
  readonly #put: SqliteStatement;
  readonly #delete: SqliteStatement;
  readonly #all: SqliteStatement;
  readonly #ofTask: SqliteStatement;

  constructor(db: Database) {
    this.#put = db.prepare('insert or replace into bookmarks values(?, ?, ?, ?)');
    this.#delete = db.prepare('delete from bookmarks where task = ? and name = ?');
    this.#all = db.prepare(
      'select * from bookmarks where (task, name) > (?, ?) order by task, name limit ?',
    );
    this.#ofTask = db.prepare(
      'select * from bookmarks where task = ? and (task, name) > (?, ?) order by name limit ?',
    );
  }

  /** Writes a bookmark. Without `data`, deletes it. */
  put({ task, name, after, data }: Bookmark): void {
    if (data === undefined) this.#delete.run(task, name);
    else this.#put.run(task, name, after, JSON.stringify(data));
  }

  /** Returns the bookmarks after a position, of one task or of all. */
  page(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
    limit: number,
  ): Bookmark[] {
    const position = [after?.task ?? '', after?.name ?? ''];
    const rows =
      task === undefined
        ? this.#all.all(...position, limit)
        : this.#ofTask.all(task, ...position, limit);
    return rows.map((row) => ({
      task: String(row['task']),
      name: String(row['name']),
      after: Number(row['after']),
      data: JSON.parse(String(row['data'])) as JsonObject,
    }));
  }
}
