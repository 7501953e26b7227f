import { createRequire } from 'node:module';

/** The part of the `node:sqlite` API that we use. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

export interface SqliteStatement {
  run(...values: SqliteValue[]): {
    readonly changes: number | bigint;
    readonly lastInsertRowid: number | bigint;
  };
  get(...values: SqliteValue[]): SqliteRow | undefined;
  all(...values: SqliteValue[]): SqliteRow[];
  iterate(...values: SqliteValue[]): Iterable<SqliteRow>;
}

export type SqliteValue = string | number | null;
export type SqliteRow = Readonly<Record<string, SqliteValue>>;

type DatabaseClass = new (file: string, options?: { readonly readOnly?: boolean }) => Database;

/**
 * Opens a file with the built-in module (Node 22.13 and later), or with a package of the same API.
 */
export function openDatabase(
  file: string,
  options: { readonly readOnly?: boolean } = {},
): Database {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite');
  const { DatabaseSync } = (builtIn ??
    createRequire(import.meta.url)('@photostructure/sqlite')) as { DatabaseSync: DatabaseClass };
  return new DatabaseSync(file, options);
}
