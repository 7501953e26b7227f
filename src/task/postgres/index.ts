export { postgresBlobs, type PostgresBlobOptions } from '../blobs/postgres-blobs.ts';
export {
  natsBus,
  postgresDatabase,
  postgresLog,
  postgresSessionStore,
  type WakeupBus,
  type WakeupListener,
  type NatsBusOptions,
  type NatsConnectionLike,
  type PgClient,
  type PgPool,
  type PostgresLogOptions,
  type PostgresOptions,
  type PostgresSessionStore,
  type PostgresSessionStoreOptions,
  type SqlRow,
} from './postgres-log.ts';
