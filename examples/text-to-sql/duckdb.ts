import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { DuolaneError } from 'duolane';

export const PACKAGE = '@duckdb/node-api';

/** What we use of DuckDB's Node API. */
export interface DuckDb {
  readonly DuckDBInstance: {
    create(path: string, options?: Readonly<Record<string, string>>): Promise<DuckDbInstance>;
  };
}
export interface DuckDbInstance {
  connect(): Promise<DuckDbConnection>;
  closeSync(): void;
}
export interface DuckDbConnection {
  run(sql: string): Promise<unknown>;
  runAndReadAll(sql: string): Promise<DuckDbRows>;
  extractStatements(sql: string): Promise<{
    readonly count: number;
    prepare(index: number): Promise<{ readonly statementType: number; destroySync(): void }>;
  }>;
  interrupt(): void;
  closeSync(): void;
}
export interface DuckDbRows {
  columnNames(): readonly string[];
  columnTypes(): readonly { toString(): string }[];
  getRowObjectsJson(): readonly Readonly<Record<string, unknown>>[];
}

/** `scripts/peers.mjs` of the repository. */
interface PeerInstaller {
  ensurePeer(name: string, onStart: () => void): Promise<{ readonly reason?: string }>;
}

/** Beside the app that uses us, beside us, or the pinned copy of this repository. */
const PLACES = [
  pathToFileURL(`${process.cwd()}/package.json`),
  ...['./', '../../peers/duckdb/', '../../../peers/duckdb/'].map(
    (path) => new URL(`${path}package.json`, import.meta.url),
  ),
];
const INSTALLERS = ['../../scripts/peers.mjs', '../../../scripts/peers.mjs'].map(
  (path) => new URL(path, import.meta.url),
);

/**
 * DuckDB, which is 70 MB and so no dependency of the package. In the repository it is installed the
 * first time it is asked for; elsewhere `not_found` says how to get it.
 */
export async function loadDuckDb(): Promise<DuckDb> {
  const found = findDuckDb();
  if (found) return found;
  const installer = INSTALLERS.find((url) => existsSync(url));
  if (installer) {
    const peers = (await import(installer.href)) as PeerInstaller;
    const { reason } = await peers.ensurePeer('duckdb', () =>
      console.error('Installing DuckDB, once (70 MB) …'),
    );
    const installed = findDuckDb();
    if (installed) return installed;
    throw new DuolaneError('not_found', `DuckDB cannot be installed: ${reason ?? 'unknown'}`);
  }
  throw new DuolaneError('not_found', `DuckDB is not installed: npm install ${PACKAGE}`);
}

function findDuckDb(): DuckDb | undefined {
  for (const place of PLACES) {
    const require = createRequire(place);
    try {
      return require(PACKAGE) as DuckDb;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return undefined;
}
