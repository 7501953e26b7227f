import { statSync } from 'node:fs';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { StoreRules } from '../store/store-rules.ts';
import { type Database, openDatabase, type SqliteStatement } from './driver.ts';
import { lockFile, writeHolder } from './file-lock.ts';
import { prepareDatabase } from './schema.ts';
import { SqliteStorage } from './sqlite-storage.ts';
import type { ThreadCall, Done, ThreadReply } from './thread-protocol.ts';
import { heapShare, snapshotChars } from '../text-budget.ts';
import type { Snapshot } from '../../event/types.ts';
import { callStoreMethod, STORE_METHODS, type StorePage, type ReadResult } from '../store/store.ts';

/** The database and the store rules, without a thread: what the worker runs. */
export class SqliteEngine {
  readonly #file: string;
  /** Identifies the file on its disk. */
  readonly #inode: string | undefined;
  readonly #lock: Database;
  readonly #db: Database;
  readonly #storage: SqliteStorage;
  readonly #rules: StoreRules;
  readonly #begin: SqliteStatement;
  readonly #commit: SqliteStatement;
  /**
   * The limit for all replies to the reads of a message: a small request may have a reply of
   * megabytes.
   */
  readonly #maxAnswerChars = heapShare() / 4;

  /**
   * Opens the file. Throws `conflict` while another process has it open; when it throws, it has
   * released the file. `again`: this process had it open before, so the claims in it are its own.
   */
  constructor(file: string, { again = false }: { readonly again?: boolean } = {}) {
    this.#file = file;
    this.#lock = lockFile(file);
    try {
      this.#db = openDatabase(file);
    } catch (error) {
      this.#lock.close();
      throw error;
    }
    try {
      prepareDatabase(this.#db, file);
      writeHolder(this.#db);
      this.#storage = new SqliteStorage(this.#db);
      if (!again) this.#storage.endLeases();
      this.#rules = new StoreRules(this.#storage);
      this.#begin = this.#db.prepare('begin immediate');
      this.#commit = this.#db.prepare('commit');
      this.#inode = inodeOf(file);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Runs the calls of a message: the writes in one commit with one fsync, then the reads. */
  run(calls: readonly ThreadCall[]): readonly Done[] {
    const done = this.#write(calls.filter(({ method }) => STORE_METHODS[method] === 'write'));
    let chars = 0;
    for (const call of calls) {
      if (STORE_METHODS[call.method] !== 'read') continue;
      const reply: ThreadReply =
        chars > this.#maxAnswerChars ? { id: call.id, again: true } : this.#answer(call);
      if ('value' in reply) chars += answerChars(call.method, reply.value);
      done.push({ reply, commits: [] });
    }
    return done;
  }

  close(): void {
    this.#db.close();
    this.#lock.close();
  }

  #write(calls: readonly ThreadCall[]): Done[] {
    if (calls.length === 0) return [];
    const lost = this.#lostFile();
    if (lost) return calls.map((call) => ({ reply: refusal(call, lost), commits: [] }));
    try {
      this.#begin.run();
      const done = calls.map((call): Done => {
        const reply = this.#answer(call, true);
        return { reply, commits: this.#rules.takeCommits() };
      });
      this.#commit.run();
      return done;
    } catch (error) {
      this.#rollback();
      const [only] = calls;
      if (only && calls.length === 1) return [{ reply: refusal(only, error), commits: [] }];
      // One of them broke the commit. Alone, each of the others gets its own reply.
      return calls.flatMap((call) => this.#write([call]));
    }
  }

  /**
   * The error if the file was deleted or replaced. SQLite would go on writing to the file that has
   * no name any more, and everything would be lost at the end of this process.
   */
  #lostFile(): DuolaneError | undefined {
    if (inodeOf(this.#file) === this.#inode) return undefined;
    return new DuolaneError(
      'server',
      `the file ${this.#file} of the task store was deleted or replaced while it was open; restore it and restart`,
    );
  }

  // The rules refuse before they write. Any other error may come after a write, so the commit must
  // be rolled back.
  #answer(call: ThreadCall, rethrow = false): ThreadReply {
    try {
      return { id: call.id, value: callStoreMethod(this.#rules, call.method, call.args) };
    } catch (error) {
      if (rethrow && !(error instanceof DuolaneError && error.code !== 'server')) throw error;
      return refusal(call, error);
    }
  }

  #rollback(): void {
    this.#rules.takeCommits();
    this.#storage.forget();
    try {
      this.#db.exec('rollback');
    } catch {
      // The database has rolled back already, as it does when the disk is full.
    }
  }
}

function inodeOf(file: string): string | undefined {
  const { dev, ino } = statSync(file, { bigint: true, throwIfNoEntry: false }) ?? {};
  return ino === undefined ? undefined : `${dev}/${ino}`;
}

/** Returns roughly how long a reply is; only the replies that may be long are counted. */
function answerChars(method: ThreadCall['method'], value: unknown): number {
  if (value === undefined) return 0;
  switch (method) {
    case 'get':
      return snapshotChars(value as Snapshot);
    case 'page':
      return (value as StorePage).snapshots.reduce((sum, each) => sum + snapshotChars(each), 0);
    case 'read':
      return (value as ReadResult).rows.reduce((sum, { line }) => sum + line.length, 0);
    default:
      return 0;
  }
}

function refusal({ id }: ThreadCall, error: unknown): ThreadReply {
  if (error instanceof DuolaneError) return { id, failure: error.toJSON() };
  const message = `the task store failed: ${errorMessage(error)}`;
  return { id, failure: new DuolaneError('server', message).toJSON() };
}
