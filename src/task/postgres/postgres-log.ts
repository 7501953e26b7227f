import { DuolaneError } from '../../errors.ts';
import type { WakeupBus } from './wakeup-bus.ts';
import { openLog } from '../log/task-log.ts';
import type { PgPool } from './connections.ts';
import { openPostgresStore } from './postgres-store.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export type { WakeupBus, BusListener } from './wakeup-bus.ts';
export { natsBus, type NatsBusOptions, type NatsConnectionLike } from './nats-bus.ts';
export type { PgClient, PgPool, SqlRow } from './connections.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host/database`; a pool is made for it and closed with the log. */
  readonly connectionString?: string;
  /** Instead of it, a `Pool` of the `pg` package, closed by whoever made it. The log keeps two of its connections. */
  readonly pool?: PgPool;
  /** Where the tables are; made if it is not there. Logs in different schemas know nothing of each other. */
  readonly schema?: string;
  /** Connections of the pool that is made: one writes, one listens, the others read. */
  readonly connections?: number;
  /** After so long without an answer a connection is given up and made anew. */
  readonly answerMs?: number;
  /**
   * How many runs of one owner, or of one tenant where tasks have no owner, all replicas may claim
   * together. Runs that wait for a person do not count.
   */
  readonly maxRunsPerParty?: number;
  /** Carries the wake-ups instead of LISTEN and NOTIFY; closed with the log. */
  readonly bus?: WakeupBus;
}

export interface PostgresLogOptions extends LogOptions, PostgresOptions {}

const HEARTBEAT_MS = 5000;
const ANSWER_MS = 5000;
const LEAST_CONNECTIONS = 3;

/**
 * A log in PostgreSQL 14 or later, shared by as many replicas as you like: each may submit, read,
 * cancel and run any task. Nothing that was acknowledged is lost; what is committed on one replica is
 * heard on the others within milliseconds, and within `pollMs` (5 s) if notifications do not come.
 *
 * A claim lives for three heartbeats. A replica that cannot reach the database keeps its runs for
 * as long as their claims live, with what they say held back in memory up to a limit, and then stops
 * them: another replica may have them by then. Needs the package `pg`.
 */
export async function postgresLog(options: PostgresLogOptions): Promise<TaskLog> {
  const { heartbeatMs = HEARTBEAT_MS, leaseMs = 3 * heartbeatMs } = options;
  const store = await postgresDatabase(options);
  return openLog(store, { ...options, heartbeatMs, leaseMs });
}

/** The store of `postgresLog`, for several logs over one set of connections in one process. */
export async function postgresDatabase(
  options: PostgresOptions & Pick<LogOptions, 'pollMs'>,
): Promise<Store> {
  const { schema = 'duolane', answerMs = ANSWER_MS, pollMs = 5000, bus } = options;
  const { maxRunsPerParty = Number.MAX_SAFE_INTEGER } = options;
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema))
    throw new DuolaneError(
      'invalid',
      `the schema ${JSON.stringify(schema)} must be up to 40 small letters, digits and underscores`,
    );
  const { pool, close } = await openPool(options);
  return openPostgresStore(pool, close, { schema, answerMs, pollMs, maxRunsPerParty, bus });
}

async function openPool({
  connectionString,
  pool,
  connections = 8,
  answerMs = ANSWER_MS,
}: PostgresOptions): Promise<{ readonly pool: PgPool; readonly close: () => Promise<void> }> {
  if (pool) {
    const max = pool.options?.max;
    if (max !== undefined && max < LEAST_CONNECTIONS)
      throw new DuolaneError(
        'invalid',
        `invalid pool with max ${max}: expected at least ${LEAST_CONNECTIONS} connections, since one writes and one listens`,
      );
    return { pool, close: async () => {} };
  }
  if (connectionString === undefined)
    throw new DuolaneError('invalid', 'postgresLog() needs a connectionString or a pool');
  if (connections < LEAST_CONNECTIONS)
    throw new DuolaneError(
      'invalid',
      `connections must be at least ${LEAST_CONNECTIONS}, got ${connections}`,
    );
  const pg = await import('pg').catch((cause: unknown) => {
    throw new DuolaneError('unsupported', 'a PostgreSQL log needs the package pg: npm install pg', {
      cause,
    });
  });
  const made: PgPool & { end(): Promise<void> } = new pg.default.Pool({
    connectionString,
    max: connections,
    // Else a connection that is never answered would keep its place in the pool.
    connectionTimeoutMillis: answerMs,
    keepAlive: true,
    application_name: 'duolane',
  });
  // Until its last connection has ended, not only as long as the log.
  made.on('error', () => {});
  return { pool: made, close: () => made.end() };
}
