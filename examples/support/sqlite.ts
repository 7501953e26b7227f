import { createRequire } from 'node:module';

export type Value = string | number | null | Uint8Array;
export type Row = Readonly<Record<string, Value>>;

/** What we use of the `node:sqlite` API. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): {
    run(...values: Value[]): unknown;
    get(...values: Value[]): Row | undefined;
    all(...values: Value[]): Row[];
  };
  close(): void;
}

/**
 * The built-in module where there is one (Node 22.13 and later), else the package with the same
 * API.
 */
export function openDatabase(file: string): Database {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite');
  const { DatabaseSync } = (builtIn ??
    createRequire(import.meta.url)('@photostructure/sqlite')) as {
    readonly DatabaseSync: new (file: string) => Database;
  };
  return new DatabaseSync(file);
}
