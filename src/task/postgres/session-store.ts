import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import {
  ANSWER_MS,
  checkSchema,
  openPool,
  PgConnections,
  type PostgresOptions,
  type SqlRow,
} from './connections.ts';
import { migrate } from './schema.ts';

/** Identifies a transcript, as in `SessionStore` of the host. */
interface TranscriptKey {
  readonly projectKey: string;
  readonly sessionId: string;
  readonly subpath?: string;
}

/** A `SessionStore` in PostgreSQL. Dispose it to close its connections. */
export interface PostgresSessionStore extends AsyncDisposable {
  append(key: TranscriptKey, entries: readonly JsonObject[]): Promise<void>;
  load(key: TranscriptKey): Promise<readonly JsonObject[] | null>;
  listSessions(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]>;
  delete(key: TranscriptKey): Promise<void>;
  listSubkeys(key: TranscriptKey): Promise<readonly string[]>;
}

export type PostgresSessionStoreOptions = Pick<
  PostgresOptions,
  'connectionString' | 'pool' | 'schema' | 'answerMs'
>;

/**
 * Opens a `SessionStore` for the option `sessionStore` of sessions, in PostgreSQL 14 or later, so
 * that any machine can resume them. `cli()` in a served agent does not need one: its sessions are
 * in the task log. Needs the package `pg`.
 *
 * @example
 * ```ts
 * await using sessionStore = await postgresSessionStore({
 *   connectionString: 'postgres://localhost/app',
 * });
 * await using session = await openSession({ sessionStore });
 * ```
 */
export async function postgresSessionStore(
  options: PostgresSessionStoreOptions,
): Promise<PostgresSessionStore> {
  const { schema = 'duolane', answerMs = ANSWER_MS } = options;
  checkSchema(schema);
  const { pool, close } = await openPool('postgresSessionStore', options);
  const connections = new PgConnections(pool, answerMs);
  const closeAll = async (): Promise<void> => {
    await connections.close();
    await close();
  };
  try {
    await migrate(connections, schema);
  } catch (error) {
    await closeAll();
    throw error;
  }
  return new SessionRows(connections, schema, closeAll);
}

class SessionRows implements PostgresSessionStore {
  readonly #connections: PgConnections;
  readonly #table: string;
  readonly #close: () => Promise<void>;
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#close());

  constructor(connections: PgConnections, schema: string, close: () => Promise<void>) {
    this.#connections = connections;
    this.#table = `${schema}.session_entries`;
    this.#close = close;
  }

  async append(key: TranscriptKey, entries: readonly JsonObject[]): Promise<void> {
    if (entries.length === 0) return;
    await this.#query(
      `insert into ${this.#table}(project, session, subpath, entries) values($1, $2, $3, $4)`,
      [...valuesOf(key), JSON.stringify(entries)],
    );
  }

  async load(key: TranscriptKey): Promise<readonly JsonObject[] | null> {
    const rows = await this.#query(
      `select entries from ${this.#table}
       where project = $1 and session = $2 and subpath = $3 order by seq`,
      valuesOf(key),
    );
    if (rows.length === 0) return null;
    return rows.flatMap((row) => JSON.parse(String(row['entries'])) as JsonObject[]);
  }

  async listSessions(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]> {
    const rows = await this.#query(
      `select session, floor(extract(epoch from max(at)) * 1000) as mtime from ${this.#table}
       where project = $1 and subpath = '' group by session`,
      [projectKey],
    );
    return rows.map((row) => ({ sessionId: String(row['session']), mtime: Number(row['mtime']) }));
  }

  async delete(key: TranscriptKey): Promise<void> {
    await this.#query(
      `delete from ${this.#table}
       where project = $1 and session = $2 and ($3 = '' or subpath = $3)`,
      valuesOf(key),
    );
  }

  async listSubkeys({ projectKey, sessionId }: TranscriptKey): Promise<readonly string[]> {
    const rows = await this.#query(
      `select distinct subpath from ${this.#table}
       where project = $1 and session = $2 and subpath <> '' order by subpath`,
      [projectKey, sessionId],
    );
    return rows.map((row) => String(row['subpath']));
  }

  #query(text: string, values: readonly unknown[]): Promise<SqlRow[]> {
    return this.#connections.read({ text }, values);
  }
}

function valuesOf({ projectKey, sessionId, subpath = '' }: TranscriptKey): readonly string[] {
  const values = [projectKey, sessionId, subpath];
  if (values.some((value) => value.includes('\0')))
    throw new DuolaneError('invalid', 'invalid key of a transcript: expected text without NUL');
  return values;
}
