import { DuolaneError } from '../../errors.ts';

export type SqlRow = Readonly<Record<string, unknown>>;

/** What we use of a client of the `pg` package. */
export interface PgClient {
  query(config: {
    readonly name?: string;
    readonly text: string;
    readonly values?: unknown[];
  }): Promise<{ readonly rows: SqlRow[] }>;
  on(event: 'notification' | 'error' | 'end', listener: (what?: object) => void): unknown;
  release(destroy?: boolean): void;
}

/** What we use of a `Pool` of the `pg` package. */
export interface PgPool {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
  on(event: 'error', listener: () => void): unknown;
  off(event: 'error', listener: () => void): unknown;
}

export interface Statement {
  /** Prepared once per connection under this name. */
  readonly name?: string;
  readonly text: string;
}

/**
 * The connections of one replica: one that writes, kept as long as it works, and any of the pool to
 * read. A connection that fails or does not answer in time is thrown away, so nothing waits for a
 * database that is gone; whether the statement was done is then unknown.
 */
export class Connections {
  readonly #pool: PgPool;
  readonly #answerMs: number;
  readonly #known = new WeakSet<PgClient>();
  #writer: PgClient | undefined;

  constructor(pool: PgPool, answerMs: number) {
    this.#pool = pool;
    this.#answerMs = answerMs;
    pool.on('error', onIdleError);
  }

  /** On the connection that writes. One at a time: whoever calls it waits for the one before. */
  async write(
    statement: Statement,
    values: readonly unknown[] = [],
    answerMs: number = this.#answerMs,
  ): Promise<SqlRow[]> {
    const client = (this.#writer ??= await this.#openWriter());
    try {
      return await this.#ask(client, statement, values, answerMs);
    } catch (error) {
      if (this.#writer === client) this.#writer = undefined;
      client.release(true);
      throw error;
    }
  }

  async read(statement: Statement, values: readonly unknown[] = []): Promise<SqlRow[]> {
    const client = await this.connect();
    let failed = true;
    try {
      const rows = await this.#ask(client, statement, values, this.#answerMs);
      failed = false;
      return rows;
    } finally {
      client.release(failed);
    }
  }

  /** A connection of one's own; whoever asks gives it back with `release`. */
  async connect(): Promise<PgClient> {
    const connecting = this.#pool.connect();
    try {
      const client = await inTime(connecting, this.#answerMs);
      // Noticed by the next query; without a listener it would end the process.
      if (!this.#known.has(client)) client.on('error', () => {});
      this.#known.add(client);
      return client;
    } catch (error) {
      connecting.then(
        (late) => late.release(true),
        () => {},
      );
      throw failure(error);
    }
  }

  async close(): Promise<void> {
    this.#writer?.release(true);
    this.#writer = undefined;
    this.#pool.off('error', onIdleError);
  }

  // Everything it does goes by key. A plan that was made while the tables were small is kept for long,
  // and must not read all of them once they are large.
  async #openWriter(): Promise<PgClient> {
    const client = await this.connect();
    try {
      await this.#ask(client, { text: 'set enable_seqscan = off' }, [], this.#answerMs);
      return client;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async #ask(
    client: PgClient,
    statement: Statement,
    values: readonly unknown[],
    answerMs: number,
  ): Promise<SqlRow[]> {
    try {
      const asked = client.query({ ...statement, values: [...values] });
      return (await inTime(asked, answerMs)).rows;
    } catch (error) {
      throw failure(error);
    }
  }
}

// An idle connection that breaks is replaced by the pool; without a listener it would end the process.
function onIdleError(): void {}

async function inTime<T>(promise: Promise<T>, ms: number): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(late));
  });
}

/** The five characters by which PostgreSQL names what it refused; undefined when it did not answer at all. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { readonly cause?: { readonly code?: unknown } }).cause?.code;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

// What PostgreSQL cannot hold in a text: a zero character, half a character.
const UNFIT = new Set(['22021', '22P05']);

function failure(error: unknown): DuolaneError {
  const reason = error instanceof Error ? error.message || error.name : String(error);
  const state = sqlState({ cause: error });
  if (state !== undefined && UNFIT.has(state))
    return new DuolaneError('invalid', `PostgreSQL cannot store this: ${reason}`, { cause: error });
  return new DuolaneError('server', `PostgreSQL failed: ${reason}`, { cause: error });
}
