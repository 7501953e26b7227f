export { postgresBlobs, type PostgresBlobOptions } from '../blobs/postgres-blobs.ts';
export {
  natsBus,
  postgresDatabase,
  postgresLog,
  type WakeupBus,
  type WakeupListener,
  type NatsBusOptions,
  type NatsConnectionLike,
  type PgClient,
  type PgPool,
  type PostgresAddress,
  type PostgresLogOptions,
  type PostgresOptions,
  type SqlRow,
} from './postgres-log.ts';
