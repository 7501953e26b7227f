import { DuolaneError, errorMessage } from '../../errors.ts';
import { withTimeout } from '../../stream/abort.ts';
import type { WakeupBus } from './wakeup-bus.ts';

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
 * for reads. One that is lost or does not reply in time is destroyed, so that no call waits for a
 * lost database; it is then unknown whether its statement was done.
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
      if (isUsable(error)) throw error;
      if (this.#writer === client) this.#writer = undefined;
      release(client, true);
      throw error;
    }
  }

  async read(statement: PgStatement, values: readonly unknown[] = []): Promise<SqlRow[]> {
    const client = await this.connect();
    let isLost = true;
    try {
      const rows = await this.#ask(client, statement, values, this.#answerMs);
      isLost = false;
      return rows;
    } catch (error) {
      isLost = !isUsable(error);
      throw error;
    } finally {
      release(client, isLost);
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

/**
 * Whether PostgreSQL refused the statement because of its values, and the connection can be used
 * again. If it were replaced, a caller could make a database open connections all the time. After
 * any other error it is replaced: another server may be the one that accepts writes.
 */
const isUsable = (error: unknown): boolean => /^(22|23|40|54)/.test(sqlState(error) ?? '');

/**
 * Whether PostgreSQL refused the statement. A lost server would fail every other statement alike.
 */
export const isRefused = (error: unknown): boolean => /^(?!57|08|53)/.test(sqlState(error) ?? '57');

// What a PostgreSQL text cannot have: a zero character, or half of a surrogate pair.
const UNFIT = new Set(['22021', '22P05']);

// A name that an index cannot have, or another limit that the statement would always exceed.
const TOO_LONG = '54000';

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
  if (state === TOO_LONG)
    return new DuolaneError('too_large', `PostgreSQL cannot store this: ${reason}`, {
      cause: error,
    });
  return new DuolaneError('server', `PostgreSQL failed: ${reason}`, { cause: error });
}

export interface PostgresOptions {
  /** `postgres://user:password@host/database`. The log creates a pool for it, and closes it. */
  readonly connectionString?: string;
  /**
   * A `Pool` of the `pg` package instead, which the caller closes. The log keeps two connections.
   */
  readonly pool?: PgPool;
  /**
   * The schema of the tables, created if it is missing; `duolane` by default. Schemas are separate.
   */
  readonly schema?: string;
  /** The size of the created pool: one connection writes, one listens, the others read. */
  readonly connections?: number;
  /** After so long without a reply, a connection is destroyed and replaced. */
  readonly answerMs?: number;
  /**
   * How many runs of one owner, or of one tenant for tasks without an owner, all replicas may claim
   * together. Runs that wait for a person do not count.
   */
  readonly maxRunsPerParty?: number;
  /** Carries the wake-ups instead of LISTEN and NOTIFY. The log closes it. */
  readonly bus?: WakeupBus;
}

/** How long a connection may take to reply, by default. */
export const ANSWER_MS = 5000;
const LEAST_CONNECTIONS = 3;

/** Refuses a schema name that would need quotes. */
export function checkSchema(schema: string): void {
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema))
    throw new DuolaneError(
      'invalid',
      `invalid schema ${JSON.stringify(schema)}: expected up to 40 lower-case letters, digits and underscores`,
    );
}

/** Takes the given pool, or creates one with the package `pg`. */
export async function openPool(
  caller: string,
  { connectionString, pool, connections = 8, answerMs = ANSWER_MS }: PostgresOptions,
  least: number = LEAST_CONNECTIONS,
): Promise<{ readonly pool: PgPool; readonly close: () => Promise<void> }> {
  if (pool) {
    const max = pool.options?.max;
    if (max !== undefined && max < least)
      throw new DuolaneError(
        'invalid',
        `invalid pool with max ${max}: expected at least ${least} connections, since one writes and one listens`,
      );
    return { pool, close: async () => {} };
  }
  if (connectionString === undefined)
    throw new DuolaneError(
      'invalid',
      `missing option of ${caller}(): expected connectionString or pool`,
    );
  if (connections < least)
    throw new DuolaneError(
      'invalid',
      `invalid connections ${connections}: expected at least ${least}, since one writes and one listens`,
    );
  const pg = await import('pg').catch((cause: unknown) => {
    throw new DuolaneError('unsupported', `${caller}() needs the package pg: npm install pg`, {
      cause,
    });
  });
  const made: PgPool & { end(): Promise<void> } = new pg.default.Pool({
    connectionString,
    max: connections,
    // Otherwise a connection without a reply would keep its slot in the pool.
    connectionTimeoutMillis: answerMs,
    keepAlive: true,
    application_name: 'duolane',
  });
  // The listener stays until the last connection has ended, which may be after the log is closed.
  made.on('error', () => {});
  return { pool: made, close: () => made.end() };
}
