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
  /** Without it, a client that is given out anew for each use collects listeners. */
  off?(event: 'error', listener: (what?: object) => void): unknown;
  release(destroy?: boolean): void;
}

/** What we use of a `Pool` of the `pg` package. */
export interface PgPool {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
  on(event: 'error', listener: () => void): unknown;
  off(event: 'error', listener: () => void): unknown;
  readonly options?: { readonly max?: number | undefined };
}

export interface PgStatement {
  /** Prepared once per connection under this name. */
  readonly name?: string;
  readonly text: string;
}

/**
 * The connections of one replica: one that writes, kept as long as it works, and any of the pool to
 * read. A connection that fails or does not answer in time is thrown away, so nothing waits for a
 * database that is gone; whether the statement was done is then unknown.
 */
export class PgConnections {
  readonly #pool: PgPool;
  readonly #answerMs: number;
  #writer: PgClient | undefined;
  #closed = false;

  constructor(pool: PgPool, answerMs: number) {
    this.#pool = pool;
    this.#answerMs = answerMs;
    listenToPool(pool);
  }

  /** On the connection that writes. One at a time: whoever calls it waits for the one before. */
  async write(
    statement: PgStatement,
    values: readonly unknown[] = [],
    answerMs: number = this.#answerMs,
  ): Promise<SqlRow[]> {
    const client = (this.#writer ??= await this.#openWriter());
    try {
      return await this.#ask(client, statement, values, answerMs);
    } catch (error) {
      if (this.#writer === client) this.#writer = undefined;
      letGo(client, true);
      throw error;
    }
  }

  async read(statement: PgStatement, values: readonly unknown[] = []): Promise<SqlRow[]> {
    const client = await this.connect();
    let failed = true;
    try {
      const rows = await this.#ask(client, statement, values, this.#answerMs);
      failed = false;
      return rows;
    } finally {
      letGo(client, failed);
    }
  }

  /** A connection of one's own; the caller gives it back with `letGo`. */
  async connect(): Promise<PgClient> {
    const connecting = this.#pool.connect();
    try {
      const client = await inTime(connecting, this.#answerMs);
      listenTo(client);
      return client;
    } catch (error) {
      connecting.then(
        (late) => late.release(true),
        () => {}, // it has failed already, and its failure is thrown here
      );
      throw failure(error);
    }
  }

  async close(): Promise<void> {
    if (this.#writer) letGo(this.#writer, true);
    this.#writer = undefined;
    if (!this.#closed) leavePool(this.#pool);
    this.#closed = true;
  }

  // Everything it does goes by key. A plan that was made while the tables were small is kept for long,
  // and must not read all of them once they are large.
  async #openWriter(): Promise<PgClient> {
    const client = await this.connect();
    try {
      await this.#ask(client, { text: 'set enable_seqscan = off' }, [], this.#answerMs);
      return client;
    } catch (error) {
      letGo(client, true);
      throw error;
    }
  }

  async #ask(
    client: PgClient,
    statement: PgStatement,
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

// A connection that breaks is noticed by the next query, an idle one is replaced by the pool; without a
// listener either would end the process.
function ignoreError(): void {}

/** How many logs use each pool: a pool has one listener of ours, not one for each log. */
const pools = new WeakMap<PgPool, number>();

function listenToPool(pool: PgPool): void {
  const logs = pools.get(pool) ?? 0;
  pools.set(pool, logs + 1);
  if (logs === 0) pool.on('error', ignoreError);
}

function leavePool(pool: PgPool): void {
  const logs = (pools.get(pool) ?? 1) - 1;
  pools.set(pool, logs);
  if (logs === 0) pool.off('error', ignoreError);
}

/** Clients that cannot be left, and have our listener for good. */
const known = new WeakSet<PgClient>();

function listenTo(client: PgClient): void {
  if (known.has(client)) return;
  client.on('error', ignoreError);
  if (!client.off) known.add(client);
}

/** Gives a connection back to its pool, without our listener: other users of the pool have their own. */
export function letGo(client: PgClient, destroy: boolean): void {
  // One that is destroyed may still fail on its way out.
  if (!destroy) client.off?.('error', ignoreError);
  client.release(destroy);
}

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
