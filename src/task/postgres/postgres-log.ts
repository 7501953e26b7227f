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

/** Where a database is, and how it is reached. */
export interface PostgresAddress {
  /** `postgres://user:password@host/database`. A pool is created for it, and closed with it. */
  readonly connectionString?: string;
  /**
   * A `Pool` of the `pg` package instead, which the caller closes. A log keeps two connections.
   */
  readonly pool?: PgPool;
  /**
   * The schema of the tables, created if it is missing; `duolane` by default. Schemas are separate.
   */
  readonly schema?: string;
  /**
   * The size of the created pool. Of the 8 connections of a log one writes, one listens and the
   * others read; blobs use up to 4.
   */
  readonly connections?: number;
  /** After so long without a reply, a connection is destroyed and replaced. */
  readonly answerMs?: number;
}

export interface PostgresOptions extends PostgresAddress {
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
/** The default of `answerMs`. */
export const ANSWER_MS = 5000;

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
  const { answerMs = ANSWER_MS, pollMs = 5000, bus } = options;
  const { maxRunsPerParty = Number.MAX_SAFE_INTEGER } = options;
  const schema = readSchema(options.schema);
  const { pool, close } = await openPool(options, LOG_POOL);
  return openPostgresStore(pool, close, { schema, answerMs, pollMs, maxRunsPerParty, bus });
}

/** Returns the name of a schema, which is part of statements. Throws `invalid` for other text. */
export function readSchema(schema = 'duolane'): string {
  if (/^[a-z_][a-z0-9_]{0,39}$/.test(schema)) return schema;
  throw new DuolaneError(
    'invalid',
    `invalid schema ${JSON.stringify(schema)}: expected up to 40 lower-case letters, digits and underscores`,
  );
}

interface PoolUse {
  /** The function whose options are read, for messages. */
  readonly name: string;
  readonly connections: number;
  /** How many connections it needs at least, and why. */
  readonly least: number;
  readonly why: string;
}

const LOG_POOL: PoolUse = {
  name: 'postgresLog()',
  connections: 8,
  least: 3,
  why: 'since one writes and one listens',
};

/** Returns the pool of the options, or creates one; `close` closes only a created one. */
export async function openPool(
  options: PostgresAddress,
  use: PoolUse,
): Promise<{ readonly pool: PgPool; readonly close: () => Promise<void> }> {
  const { connectionString, pool, connections = use.connections, answerMs = ANSWER_MS } = options;
  if (pool) {
    const max = pool.options?.max;
    if (max !== undefined && max < use.least)
      throw new DuolaneError(
        'invalid',
        `invalid pool with max ${max}: expected at least ${use.least} connections, ${use.why}`,
      );
    return { pool, close: async () => {} };
  }
  if (connectionString === undefined)
    throw new DuolaneError(
      'invalid',
      `missing option of ${use.name}: expected connectionString or pool`,
    );
  if (connections < use.least)
    throw new DuolaneError(
      'invalid',
      `invalid connections ${connections}: expected at least ${use.least}, ${use.why}`,
    );
  const pg = await import('pg').catch((cause: unknown) => {
    throw new DuolaneError('unsupported', `${use.name} needs the package pg: npm install pg`, {
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
