import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError } from 'duolane';
import { literal, sampleSql } from './data.ts';
import { type DuckDb, type DuckDbConnection, loadDuckDb } from './duckdb.ts';
import { previewOf, type Row } from './preview.ts';

export interface WarehouseLimits {
  /** More rows than this are refused. */
  readonly maxRows?: number;
  /** For one query, its result included. */
  readonly memoryMb?: number;
  readonly timeoutMs?: number;
}

/** What a query gave. Disposing deletes the file. */
export interface QueryResult extends AsyncDisposable {
  /** A Parquet file with all rows. */
  readonly file: string;
  readonly rowCount: number;
  readonly columns: readonly string[];
  /** The first rows, as many as are easy to send; long values are cut. */
  readonly preview: readonly Row[];
}

/** The database. Queries see it as it was when it was opened, and change nothing. */
export interface Warehouse extends AsyncDisposable {
  /** Its tables and their columns, one line each, for the author of the SQL. */
  readonly schema: string;
  /**
   * Runs one SELECT. `invalid` for anything else and for what the database refuses, `too_large`
   * beyond the limits, `timeout`; all say what to do. Aborting interrupts the query.
   */
  query(sql: string, options?: { readonly signal?: AbortSignal }): Promise<QueryResult>;
}

const PREVIEW_ROWS = 40;
const MAX_SQL_CHARS = 20_000;
const INTERRUPT_MS = 50;
/** DuckDB's number for a SELECT among the types of statements. */
const SELECT = 1;

/** The sample data in a database of its own, in a temporary folder that disposing deletes. */
export async function openWarehouse({
  maxRows = 100_000,
  memoryMb = 64,
  timeoutMs = 30_000,
}: WarehouseLimits = {}): Promise<Warehouse> {
  const duckDb = await loadDuckDb();
  const folder = await mkdtemp(join(tmpdir(), 'text-to-sql-'));
  const file = join(folder, 'shop.duckdb');
  const schema = await create(duckDb, file);

  return {
    schema,
    async query(sql, { signal } = {}) {
      const limit = AbortSignal.timeout(timeoutMs);
      const scope = signal ? AbortSignal.any([signal, limit]) : limit;
      scope.throwIfAborted();
      const place = await mkdtemp(join(folder, 'query-'));
      const remove = (): Promise<void> => rm(place, { recursive: true, force: true });
      const instance = await duckDb.DuckDBInstance.create(file, {
        access_mode: 'READ_ONLY',
        memory_limit: `${memoryMb}MB`,
        temp_directory: '',
        threads: '2',
        autoinstall_known_extensions: 'false',
        autoload_known_extensions: 'false',
      });
      try {
        const connection = await instance.connect();
        using _ = interrupting(connection, scope);
        try {
          scope.throwIfAborted(); // it may have been while the database was opened
          const result = await run(connection, sql, place, maxRows);
          scope.throwIfAborted();
          return { ...result, [Symbol.asyncDispose]: remove };
        } finally {
          connection.closeSync();
        }
      } catch (error) {
        await remove();
        signal?.throwIfAborted();
        throw limit.aborted
          ? new DuolaneError(
              'timeout',
              `the query took longer than ${timeoutMs / 1000} s; ask for less`,
            )
          : explain(error, memoryMb);
      } finally {
        instance.closeSync();
      }
    },
    async [Symbol.asyncDispose]() {
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/**
 * Interrupts the running statement on an abort, and repeats it: an interrupt before the start is
 * lost.
 */
function interrupting(connection: DuckDbConnection, signal: AbortSignal): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    connection.interrupt();
    timer = setInterval(() => connection.interrupt(), INTERRUPT_MS);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    [Symbol.dispose]() {
      signal.removeEventListener('abort', onAbort);
      clearInterval(timer);
    },
  };
}

async function create({ DuckDBInstance }: DuckDb, file: string): Promise<string> {
  const instance = await DuckDBInstance.create(file);
  const connection = await instance.connect();
  try {
    await connection.run(sampleSql());
    const tables = await connection.runAndReadAll(
      `select table_name as t, string_agg(column_name || ' ' || lower(data_type), ', ' order by ordinal_position) as c
       from information_schema.columns group by table_name order by table_name`,
    );
    return tables
      .getRowObjectsJson()
      .map(({ t, c }) => `${String(t)}(${String(c)})`)
      .join('\n');
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

async function run(
  connection: DuckDbConnection,
  given: string,
  place: string,
  maxRows: number,
): Promise<Omit<QueryResult, keyof AsyncDisposable>> {
  // From here on no statement reaches a file outside of this query's own, empty folder.
  await connection.run(
    `set allowed_directories = [${literal(place)}]; set enable_external_access = false; set lock_configuration = true`,
  );
  const sql = given.trim().replace(/;\s*$/, '');
  await checkSelect(connection, sql);
  const file = join(place, 'query_results.parquet');
  await connection.run(
    `copy (select * from (\n${sql}\n) limit ${maxRows + 1}) to ${literal(file)} (format parquet)`,
  );
  const source = `read_parquet(${literal(file)})`;
  const counted = await connection.runAndReadAll(`select count(*)::integer as n from ${source}`);
  const rowCount = Number(counted.getRowObjectsJson()[0]?.['n']);
  if (rowCount > maxRows)
    throw new DuolaneError(
      'too_large',
      `the result has more than ${maxRows} rows; narrow it down, or end the query with a LIMIT`,
    );
  const first = await connection.runAndReadAll(`select * from ${source} limit ${PREVIEW_ROWS}`);
  const types = first.columnTypes().map(String);
  const columns = first.columnNames();
  const numeric = new Set(
    columns.filter((_, i) => /INT|DECIMAL|DOUBLE|FLOAT/.test(types[i] ?? '')),
  );
  const preview = previewOf(first.getRowObjectsJson(), numeric);
  return { file, rowCount, columns, preview };
}

/** One statement, and one that only reads. The parser of the database decides, not a pattern. */
async function checkSelect(connection: DuckDbConnection, sql: string): Promise<void> {
  if (sql.length > MAX_SQL_CHARS)
    throw new DuolaneError('too_large', `a query has at most ${MAX_SQL_CHARS} characters`);
  const statements = await connection.extractStatements(sql);
  if (statements.count !== 1)
    throw new DuolaneError(
      'invalid',
      `only one statement may run, and this has ${statements.count}`,
    );
  const statement = await statements.prepare(0);
  const { statementType } = statement;
  statement.destroySync();
  if (statementType !== SELECT)
    throw new DuolaneError('invalid', 'only a SELECT may run: this database is read-only');
}

function explain(error: unknown, memoryMb: number): DuolaneError {
  if (error instanceof DuolaneError) return error;
  const text = error instanceof Error ? error.message : String(error);
  if (text.includes('Out of Memory'))
    return new DuolaneError(
      'too_large',
      `the query needs more than ${memoryMb} MB; ask for fewer rows or columns, or end it with a LIMIT`,
      { cause: error },
    );
  const [first = text] = text.replace(/^Failed to extract statements: /, '').split('\n');
  const why = first.includes('file system operations are disabled')
    ? 'a query may read the tables of this database and no file'
    : first;
  return new DuolaneError('invalid', `the query was refused: ${why}`, { cause: error });
}
