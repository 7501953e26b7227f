import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DuolaneError } from 'duolane';
import { checkWidth, type VectorEngine } from './engine.ts';

/** The part of `@zvec/zvec` that this engine uses. */
export interface Zvec {
  readonly ZVecCollectionSchema: new (schema: {
    readonly name: string;
    readonly vectors: object;
  }) => object;
  ZVecCreateAndOpen(path: string, schema: object): Collection;
  ZVecOpen(path: string, options: { readonly readOnly: boolean }): Collection;
}
interface Collection {
  insertSync(docs: readonly object[]): readonly { readonly ok: boolean }[];
  optimize(): Promise<void>;
  query(query: object): Promise<readonly { readonly id: string; readonly score: number }[]>;
  closeSync(): void;
}

const FIELD = 'vector';
const ROWS_AT_ONCE = 1000;
// Numbers of its enumerations, which are part of its files.
const VECTOR_FP32 = 23;
const HNSW = 1;
const INNER_PRODUCT = 2;
const INT8 = 2;

/**
 * An HNSW index in a folder of its own, for more passages than can be compared one by one. Opened for
 * reading, by any number of processes; built beside and moved into its place when it is whole.
 * Give it the module: `zvecEngine(await import('@zvec/zvec'), './vectors')`.
 */
export const zvecEngine = (zvec: Zvec, folder: string): VectorEngine => ({
  async open({ fingerprint, size, make, signal }) {
    const name = createHash('sha256').update(JSON.stringify(fingerprint)).digest('hex');
    const path = join(folder, name.slice(0, 32));
    await mkdir(folder, { recursive: true });
    if (!(await readdir(folder)).includes(name.slice(0, 32))) {
      const draft = join(folder, `draft-${randomUUID()}`);
      try {
        await build(zvec, draft, fingerprint.dimensions, await make(), signal);
        await rename(draft, path).catch(ignoreTaken);
      } finally {
        await rm(draft, { recursive: true, force: true });
      }
    }
    const collection = zvec.ZVecOpen(path, { readOnly: true });
    let closed = false;
    return {
      size,
      async search(query, limit, abort) {
        abort?.throwIfAborted();
        checkWidth(query, fingerprint.dimensions);
        const params = { indexType: HNSW, isUsingRefiner: true };
        const found = await collection.query({
          fieldName: FIELD,
          vector: query,
          topk: limit,
          params,
        });
        return found.map(({ id, score }) => ({ at: Number(id), score }));
      },
      [Symbol.dispose]() {
        if (!closed) collection.closeSync();
        closed = true;
      },
    };
  },
});

async function build(
  zvec: Zvec,
  path: string,
  dimension: number,
  vectors: readonly Float32Array[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const indexParams = {
    indexType: HNSW,
    metricType: INNER_PRODUCT,
    m: 16,
    efConstruction: 100,
    quantizeType: INT8,
  };
  const schema = new zvec.ZVecCollectionSchema({
    name: 'vectors',
    vectors: { name: FIELD, dataType: VECTOR_FP32, dimension, indexParams },
  });
  const collection = zvec.ZVecCreateAndOpen(path, schema);
  try {
    for (let from = 0; from < vectors.length; from += ROWS_AT_ONCE) {
      signal?.throwIfAborted();
      const part = vectors.slice(from, from + ROWS_AT_ONCE);
      const docs = part.map((vector, i) => ({ id: `${from + i}`, vectors: { [FIELD]: vector } }));
      if (collection.insertSync(docs).some(({ ok }) => !ok))
        throw new DuolaneError('server', `zvec did not take all vectors from ${from} on`);
    }
    await collection.optimize();
  } finally {
    collection.closeSync();
  }
}

/** Ignores that another process created the same index first. */
function ignoreTaken(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
}
