import { DuolaneError, errorMessage } from '../../errors.ts';
import { withTimeout } from '../../stream/abort.ts';

export type SqlRow = Readonly<Record<string, unknown>>;

/** The part of a client of the `pg` package that we use. */
export interface PgClient {
  query(config: {
    readonly name?: string;
    readonly text: string;
    readonly values?: unknown[];
  }): Promise<{ readonly rows: SqlRow[] }>;
  on(event: 'notification' | 'error' | 'end', listener: (what?: object) => void): unknown;
  /** Without it, a client that the pool hands out again and again collects listeners. */
  off?(event: 'error', listener: (what?: object) => void): unknown;
  release(destroy?: boolean): void;
}

/** The part of a `Pool` of the `pg` package that we use. */
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
 * The connections of one replica: one that writes, kept as long as it works, and any of the pool
 * for reads. A connection that fails or does not reply in time is destroyed, so that no call waits
 * for a lost database; it is then unknown whether its statement was done.
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

  /** Runs a statement on the connection that writes. The caller runs one at a time. */
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
      release(client, true);
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
      release(client, failed);
    }
  }

  /** Takes a connection from the pool; the caller returns it with `release`. */
  async connect(): Promise<PgClient> {
    const connecting = this.#pool.connect();
    try {
      const client = await withTimeout(connecting, this.#answerMs, () => timeout(this.#answerMs));
      listenTo(client);
      return client;
    } catch (error) {
      connecting.then(
        (late) => late.release(true),
        () => {}, // its failure is thrown below
      );
      throw failure(error);
    }
  }

  async close(): Promise<void> {
    if (this.#writer) release(this.#writer, true);
    this.#writer = undefined;
    if (!this.#closed) stopListening(this.#pool);
    this.#closed = true;
  }

  // All its statements use keys. PostgreSQL keeps a plan that it made while the tables were small,
  // and that plan must not scan them once they are large.
  async #openWriter(): Promise<PgClient> {
    const client = await this.connect();
    try {
      await this.#ask(client, { text: 'set enable_seqscan = off' }, [], this.#answerMs);
      return client;
    } catch (error) {
      release(client, true);
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
      return (await withTimeout(asked, answerMs, () => timeout(answerMs))).rows;
    } catch (error) {
      throw failure(error);
    }
  }
}

// The next query notices a broken connection, and the pool replaces an idle one. Without a listener
// either error would end the process.
function ignoreError(): void {}

/** How many logs use each pool: a pool gets one listener of ours, not one for each log. */
const pools = new WeakMap<PgPool, number>();

function listenToPool(pool: PgPool): void {
  const logs = pools.get(pool) ?? 0;
  pools.set(pool, logs + 1);
  if (logs === 0) pool.on('error', ignoreError);
}

function stopListening(pool: PgPool): void {
  const logs = (pools.get(pool) ?? 1) - 1;
  pools.set(pool, logs);
  if (logs === 0) pool.off('error', ignoreError);
}

/** Clients without `off`, which keep our listener. */
const known = new WeakSet<PgClient>();

function listenTo(client: PgClient): void {
  if (known.has(client)) return;
  client.on('error', ignoreError);
  if (!client.off) known.add(client);
}

/**
 * Returns a connection to its pool, without our listener: other users of the pool have their own.
 */
export function release(client: PgClient, destroy: boolean): void {
  // A destroyed connection may still fail while it closes.
  if (!destroy) client.off?.('error', ignoreError);
  client.release(destroy);
}

const timeout = (ms: number): Error => new Error(`timed out after ${ms} ms: no reply`);

/** Returns the SQLSTATE of an error: five characters; undefined if PostgreSQL did not reply. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { readonly cause?: { readonly code?: unknown } }).cause?.code;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

// What a PostgreSQL text cannot have: a zero character, or half of a surrogate pair.
const UNFIT = new Set(['22021', '22P05']);

function failure(error: unknown): DuolaneError {
  // An error of several addresses (ECONNREFUSED) has a name and no message.
  const reason = errorMessage(error) || String(error);
  const state = sqlState({ cause: error });
  if (state !== undefined && UNFIT.has(state))
    return new DuolaneError(
      'invalid',
      `PostgreSQL cannot store this text: ${reason}; it must be valid Unicode without zero characters`,
      { cause: error },
    );
  return new DuolaneError('server', `PostgreSQL failed: ${reason}`, { cause: error });
}
