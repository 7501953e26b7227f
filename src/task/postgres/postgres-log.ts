import { DuolaneError } from '../../errors.ts';
import type { WakeupBus } from './wakeup-bus.ts';
import { openOwnLog } from '../log/task-log.ts';
import type { PgPool } from './connections.ts';
import { openPostgresStore } from './postgres-store.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export type { WakeupBus, WakeupListener } from './wakeup-bus.ts';
export { natsBus, type NatsBusOptions, type NatsConnectionLike } from './nats-bus.ts';
export type { PgClient, PgPool, SqlRow } from './connections.ts';

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

export interface PostgresLogOptions extends LogOptions, PostgresOptions {}

const HEARTBEAT_MS = 5000;
const ANSWER_MS = 5000;
const LEAST_CONNECTIONS = 3;

/**
 * Opens a log in PostgreSQL 14 or later, which any number of replicas share: each may submit, read,
 * cancel and run any task. Nothing that was acknowledged is lost. A commit of one replica reaches
 * the others within milliseconds, and within `pollMs` (5 s) if notifications are lost.
 *
 * A claim lives for three heartbeats. A replica that cannot reach the database keeps its runs as
 * long as their claims live, with their events in memory up to a limit, and then stops them:
 * another replica may have claimed them. Needs the package `pg`.
 *
 * @example
 * ```ts
 * await using log = await postgresLog({ connectionString: 'postgres://localhost/app' });
 * ```
 */
export async function postgresLog(options: PostgresLogOptions): Promise<TaskLog> {
  const { heartbeatMs = HEARTBEAT_MS, leaseMs = 3 * heartbeatMs } = options;
  const store = await postgresDatabase(options);
  return openOwnLog(store, { ...options, heartbeatMs, leaseMs });
}

/**
 * Opens the store of `postgresLog`, for several logs over one set of connections in one process.
 */
export async function postgresDatabase(
  options: PostgresOptions & Pick<LogOptions, 'pollMs'>,
): Promise<Store> {
  const { schema = 'duolane', answerMs = ANSWER_MS, pollMs = 5000, bus } = options;
  const { maxRunsPerParty = Number.MAX_SAFE_INTEGER } = options;
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema))
    throw new DuolaneError(
      'invalid',
      `invalid schema ${JSON.stringify(schema)}: expected up to 40 lower-case letters, digits and underscores`,
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
    throw new DuolaneError(
      'invalid',
      'missing option of postgresLog(): expected connectionString or pool',
    );
  if (connections < LEAST_CONNECTIONS)
    throw new DuolaneError(
      'invalid',
      `invalid connections ${connections}: expected at least ${LEAST_CONNECTIONS}, since one writes and one listens`,
    );
  const pg = await import('pg').catch((cause: unknown) => {
    throw new DuolaneError('unsupported', 'postgresLog() needs the package pg: npm install pg', {
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
