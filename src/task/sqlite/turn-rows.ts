import { decodeEntry } from '../../event/entry-codec.ts';
import type { Seq } from '../../event/types.ts';
import { isDamage } from '../store/page-builder.ts';
import { type TurnKey, turnKeyOf } from '../store/storage-engine.ts';
import type { EntryRow } from '../store/store.ts';
import type { Database, SqliteStatement } from './driver.ts';

/** The turns that were submitted, by their keys for idempotency. */
export class TurnRows {
  readonly #get: SqliteStatement;
  readonly #put: SqliteStatement;
  readonly #delete: SqliteStatement;
  readonly #deleteTask: SqliteStatement;

  constructor(db: Database) {
    this.#get = db.prepare(
      `select t.id as id, turns.seq as seq from turns join tasks t on t.key = turns.task
       where turns.owner = ? and turns.agent = ? and message_id = ?`,
    );
    this.#put = db.prepare('insert or replace into turns values(?, ?, ?, ?, ?)');
    this.#delete = db.prepare(
      'delete from turns where owner = ? and agent = ? and message_id = ? and task = ?',
    );
    this.#deleteTask = db.prepare('delete from turns where task = ?');
  }

  get({ owner, agent, messageId }: TurnKey): { task: string; seq: Seq } | undefined {
    const row = this.#get.get(owner, agent, messageId);
    return row && { task: String(row['id']), seq: Number(row['seq']) };
  }

  put({ owner, agent, messageId }: TurnKey, key: number, seq: Seq): void {
    this.#put.run(owner, agent, messageId, key, seq);
  }

  /** Deletes the turns of a task, which its notes name: the table has no index on tasks. */
  deleteTask(key: number, notes: Iterable<EntryRow>): void {
    try {
      for (const { line } of notes) {
        const entry = decodeEntry(line);
        if (entry.type !== 'turn.submitted') continue;
        const { owner, agent, messageId } = turnKeyOf(entry.turn);
        this.#delete.run(owner, agent, messageId, key);
      }
    } catch (error) {
      if (!isDamage(error)) throw error;
      // The notes cannot be read, so search the table. It is slow, and damage is rare.
      this.#deleteTask.run(key);
    }
  }
}
