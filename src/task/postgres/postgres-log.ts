import { openOwnLog } from '../log/task-log.ts';
import { ANSWER_MS, checkSchema, openPool, type PostgresOptions } from './connections.ts';
import { openPostgresStore } from './postgres-store.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export type { WakeupBus, WakeupListener } from './wakeup-bus.ts';
export { natsBus, type NatsBusOptions, type NatsConnectionLike } from './nats-bus.ts';
export type { PgClient, PgPool, PostgresOptions, SqlRow } from './connections.ts';
export {
  postgresSessionStore,
  type PostgresSessionStore,
  type PostgresSessionStoreOptions,
} from './session-store.ts';

export interface PostgresLogOptions extends LogOptions, PostgresOptions {}

const HEARTBEAT_MS = 5000;

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
  checkSchema(schema);
  const { pool, close } = await openPool('postgresLog', options);
  return openPostgresStore(pool, close, { schema, answerMs, pollMs, maxRunsPerParty, bus });
}
