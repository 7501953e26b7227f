import { DuolaneError, type Failure } from '../errors.ts';
import { Ledger } from './ledger.ts';
import { type Database, openDatabase } from './sqlite-driver.ts';
import { lockFile, writeHolder } from './sqlite-lock.ts';
import { prepareDatabase } from './sqlite-schema.ts';
import { SqliteTables } from './sqlite-tables.ts';
import { type Commit, invoke, METHODS, type StoreMethods } from './store.ts';

export interface Call {
  readonly id: number;
  readonly method: keyof StoreMethods;
  readonly args: readonly unknown[];
}

export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: Failure };

export interface Outcome {
  readonly commits: readonly Commit[];
  readonly replies: readonly Reply[];
}

/** The database and the rules over it, without a thread: what the worker runs. */
export class SqliteEngine {
  readonly #lock: Database;
  readonly #db: Database;
  readonly #tables: SqliteTables;
  readonly #ledger: Ledger;

  /**
   * Throws `conflict` while another process has the file. When it throws, it has let go of the file.
   * `again`: this process had it open before, and the claims in it are still its own.
   */
  constructor(file: string, { again = false }: { readonly again?: boolean } = {}) {
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
      this.#tables = new SqliteTables(this.#db);
      if (!again) this.#tables.endLeases();
      this.#ledger = new Ledger(this.#tables);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Everything that waited: the writes in one commit with one fsync, then the reads, which see it. */
  run(calls: readonly Call[]): Outcome {
    const writes = calls.filter(({ method }) => METHODS[method] === 'write');
    const reads = calls.filter(({ method }) => METHODS[method] === 'read');
    const written = this.#write(writes);
    return {
      commits: written.commits,
      replies: [...written.replies, ...reads.map((call) => this.#answer(call))],
    };
  }

  close(): void {
    this.#db.close();
    this.#lock.close();
  }

  #write(calls: readonly Call[]): Outcome {
    if (calls.length === 0) return { commits: [], replies: [] };
    try {
      this.#db.exec('begin immediate');
      const replies = calls.map((call) => this.#answer(call, true));
      this.#db.exec('commit');
      return { commits: this.#ledger.takeCommits(), replies };
    } catch (error) {
      this.#rollback();
      const [only] = calls;
      if (only && calls.length === 1) return { commits: [], replies: [refusal(only, error)] };
      // One of them broke the commit; alone, each of the others gets its own answer.
      const each = calls.map((call) => this.#write([call]));
      return {
        commits: each.flatMap(({ commits }) => commits),
        replies: each.flatMap(({ replies }) => replies),
      };
    }
  }

  // A refusal by the rules came before anything was written. Any other error may have come after.
  #answer(call: Call, rethrow = false): Reply {
    try {
      return { id: call.id, value: invoke(this.#ledger, call.method, call.args) };
    } catch (error) {
      if (rethrow && !(error instanceof DuolaneError && error.code !== 'server')) throw error;
      return refusal(call, error);
    }
  }

  #rollback(): void {
    this.#ledger.takeCommits();
    this.#tables.forget();
    try {
      this.#db.exec('rollback');
    } catch {
      // The database has rolled back by itself, as it does when the disk is full.
    }
  }
}

function refusal({ id }: Call, error: unknown): Reply {
  if (error instanceof DuolaneError) return { id, failure: error.toJSON() };
  const reason = error instanceof Error ? error.message : String(error);
  return { id, failure: new DuolaneError('server', `the task store failed: ${reason}`).toJSON() };
}
