import { createRequire } from 'node:module';
import { DuolaneError } from '../../errors.ts';

const PACKAGE = '@photostructure/sqlite';

/** Node before 22.13 needs a package that most installations do not, so users install it. */
const MISSING_DRIVER = `Node ${process.versions.node} has no SQLite of its own; use Node 22.13 or later, or install the driver: npm install ${PACKAGE}@1`;

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
 * Throws `unsupported` if this Node has no such module and the package is not installed.
 */
export function openDatabase(
  file: string,
  options: { readonly readOnly?: boolean } = {},
): Database {
  const { DatabaseSync } = loadDriver();
  return new DatabaseSync(file, options);
}

function loadDriver(): { readonly DatabaseSync: DatabaseClass } {
  const builtIn: unknown = process.getBuiltinModule('node:sqlite');
  try {
    return (builtIn ?? createRequire(import.meta.url)(PACKAGE)) as {
      readonly DatabaseSync: DatabaseClass;
    };
  } catch (cause) {
    throw new DuolaneError('unsupported', MISSING_DRIVER, { cause });
  }
}
