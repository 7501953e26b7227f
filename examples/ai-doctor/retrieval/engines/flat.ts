import { DuolaneError } from 'duolane';
import type { Database } from '../../../support/sqlite.ts';
import { checkWidth, type Near, type VectorEngine, type VectorStore } from './engine.ts';

const MAX_CHUNKS = 50_000;

/** Vectors as rows of the index's own file, read into memory and compared one by one. */
export const flatEngine = (database: Database): VectorEngine => ({
  async open({ fingerprint, make }) {
    const name = JSON.stringify(fingerprint);
    database.exec(`create table if not exists vectors(at integer primary key, vector blob not null);
      create table if not exists vectors_of(fingerprint text not null)`);
    if (database.prepare('select fingerprint from vectors_of').get()?.['fingerprint'] === name)
      return flatStore(load(database));
    const vectors = await make();
    const store = flatStore(vectors);
    database.exec('begin immediate; delete from vectors; delete from vectors_of');
    const insert = database.prepare('insert into vectors(at, vector) values (?, ?)');
    vectors.forEach((vector, at) =>
      insert.run(at, new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)),
    );
    database.prepare('insert into vectors_of(fingerprint) values (?)').run(name);
    database.exec('commit');
    return store;
  },
});

const load = (database: Database): readonly Float32Array[] =>
  database
    .prepare('select vector from vectors order by at')
    .all()
    .map(({ vector }) => new Float32Array(Uint8Array.from(vector as Uint8Array).buffer));

/**
 * Every vector in one array, compared one by one: exact, and at 512 dimensions some 50 ms for
 * 50,000. More than that is refused with `too_large`: it needs an engine with an index.
 */
export function flatStore(
  vectors: readonly Float32Array[],
  maxVectors: number = MAX_CHUNKS,
): VectorStore {
  if (vectors.length > maxVectors)
    throw new DuolaneError(
      'too_large',
      `${vectors.length} vectors are more than the ${maxVectors} that are compared one by one: give the index the engine of zvec, pgvector or Qdrant`,
    );
  const width = vectors[0]?.length ?? 0;
  const flat = new Float32Array(vectors.length * width);
  vectors.forEach((vector, at) => flat.set(vector, at * width));
  return {
    size: vectors.length,
    async search(query, limit, signal) {
      signal?.throwIfAborted();
      if (vectors.length === 0) return [];
      checkWidth(query, width);
      const best: Near[] = [];
      for (let at = 0, from = 0; at < vectors.length; at++, from += width) {
        const score = product(flat, from, query);
        if (best.length === limit && score <= (best.at(-1)?.score ?? -1)) continue;
        const place = best.findIndex((other) => other.score < score);
        best.splice(place === -1 ? best.length : place, 0, { at, score });
        if (best.length > limit) best.pop();
      }
      return best;
    },
    [Symbol.dispose]() {},
  };
}

/** Four sums at a time, which is much faster than one; the rest of the width after them. */
function product(flat: Float32Array, from: number, query: Float32Array): number {
  const width = query.length;
  const even = width - (width % 4);
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0, at = from; i < even; i += 4, at += 4) {
    a += (flat[at] as number) * (query[i] as number);
    b += (flat[at + 1] as number) * (query[i + 1] as number);
    c += (flat[at + 2] as number) * (query[i + 2] as number);
    d += (flat[at + 3] as number) * (query[i + 3] as number);
  }
  for (let i = even; i < width; i++) a += (flat[from + i] as number) * (query[i] as number);
  return a + b + c + d;
}
