import { createRequire } from 'node:module';

/** What we use of the `node:sqlite` API. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

export interface Statement {
  run(...values: Value[]): {
    readonly changes: number | bigint;
    readonly lastInsertRowid: number | bigint;
  };
  get(...values: Value[]): SqlRow | undefined;
  all(...values: Value[]): SqlRow[];
  iterate(...values: Value[]): Iterable<SqlRow>;
}

export type Value = string | number | null;
export type SqlRow = Readonly<Record<string, Value>>;

type DatabaseClass = new (file: string, options?: { readonly readOnly?: boolean }) => Database;

/** The built-in module where there is one (Node 22.13 and later), else the package with the same API. */
export function openDatabase(
  file: string,
  options: { readonly readOnly?: boolean } = {},
): Database {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite');
  const { DatabaseSync } = (builtIn ??
    createRequire(import.meta.url)('@photostructure/sqlite')) as { DatabaseSync: DatabaseClass };
  return new DatabaseSync(file, options);
}
