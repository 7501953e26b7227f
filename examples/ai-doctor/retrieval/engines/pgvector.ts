import { checkWidth, type VectorEngine } from './engine.ts';

/**
 * One connection to a PostgreSQL with pgvector 0.7 or later: a `Client` of `pg`, or PGlite. No
 * pool: the transaction and the depth of a search belong to the connection.
 */
export interface PgConnection {
  query(
    sql: string,
    values?: unknown[],
  ): Promise<{ readonly rows: readonly Readonly<Record<string, unknown>>[] }>;
}

export interface PgVectorOptions {
  /**
   * The table, made when it is missing. Its owner in the database must be allowed to use the
   * extension.
   */
  readonly table?: string;
}

const ROWS_AT_ONCE = 1000;
/**
 * How many candidates a search looks at, and so the most that it can give. The default of 40 is
 * less than we ask for.
 */
const CANDIDATES = 100;

/** Vectors as 16-bit floats with an HNSW index, in a database that many processes may share. */
export function pgvectorEngine(
  connection: PgConnection,
  { table = 'guideline_vectors' }: PgVectorOptions = {},
): VectorEngine {
  const rows = quote(table);
  const made = quote(`${table}_of`);
  const index = quote(`${table}_hnsw`);
  const isBuilt = async (name: string): Promise<boolean> =>
    (await connection.query(`select fingerprint from ${made}`)).rows[0]?.['fingerprint'] === name;

  return {
    async open({ fingerprint, size, make, signal }) {
      const name = JSON.stringify(fingerprint);
      await connection.query('create extension if not exists vector');
      await connection.query(`create table if not exists ${made}(fingerprint text not null)`);
      if (!(await isBuilt(name))) {
        const vectors = await make();
        await connection.query('begin');
        try {
          // Another process that opens the index waits here and then finds it complete.
          await connection.query(`lock table ${made} in exclusive mode`);
          if (!(await isBuilt(name))) {
            await connection.query(`drop table if exists ${rows}`);
            await connection.query(
              `create table ${rows}(at integer primary key, vector halfvec(${fingerprint.dimensions}) not null)`,
            );
            for (let from = 0; from < vectors.length; from += ROWS_AT_ONCE) {
              signal?.throwIfAborted();
              const part = vectors.slice(from, from + ROWS_AT_ONCE);
              await connection.query(
                `insert into ${rows} select at, vector::halfvec from unnest($1::int[], $2::text[]) as part(at, vector)`,
                [part.map((_, i) => from + i), part.map(literal)],
              );
            }
            await connection.query(
              `create index ${index} on ${rows} using hnsw (vector halfvec_cosine_ops)`,
            );
            await connection.query(`delete from ${made}`);
            await connection.query(`insert into ${made} values ($1)`, [name]);
          }
          await connection.query('commit');
        } catch (error) {
          await connection.query('rollback');
          throw error;
        }
      }
      await connection.query(`set hnsw.ef_search = ${CANDIDATES}`);
      return {
        size,
        async search(query, limit, abort) {
          abort?.throwIfAborted();
          checkWidth(query, fingerprint.dimensions);
          const { rows: found } = await connection.query(
            `select at, 1 - (vector <=> $1::halfvec) as score from ${rows} order by vector <=> $1::halfvec limit $2`,
            [literal(query), limit],
          );
          return found.map(({ at, score }) => ({ at: Number(at), score: Number(score) }));
        },
        [Symbol.dispose]() {}, // the caller owns the connection
      };
    },
  };
}

const literal = (vector: Float32Array): string => `[${vector.join(',')}]`;
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;
