export {
  natsBus,
  postgresDatabase,
  postgresLog,
  type Bus,
  type BusListener,
  type NatsBusOptions,
  type NatsConnectionLike,
  type PgClient,
  type PgPool,
  type PostgresLogOptions,
  type PostgresOptions,
  type SqlRow,
} from './postgres-log.ts';
