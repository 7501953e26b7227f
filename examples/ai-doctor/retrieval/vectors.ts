import { DuolaneError } from 'duolane';

/** A place in the list of chunks, and how near it is: the cosine, at most 1. */
export interface Near {
  readonly at: number;
  readonly score: number;
}

/**
 * Where vectors are searched. This one compares all; pgvector, Qdrant or zvec would be others. May
 * be asked at any time; gives the nearest first.
 */
export interface VectorStore {
  readonly size: number;
  search(query: Float32Array, limit: number, signal?: AbortSignal): Promise<readonly Near[]>;
}

const MAX_CHUNKS = 50_000;

/**
 * Every vector in one array, compared one by one: exact, and at 512 dimensions some 50 ms for
 * 50,000. More than that is refused with `too_large`: it needs an index of another kind.
 */
export function flatStore(
  vectors: readonly Float32Array[],
  maxVectors: number = MAX_CHUNKS,
): VectorStore {
  if (vectors.length > maxVectors)
    throw new DuolaneError(
      'too_large',
      `${vectors.length} vectors are more than the ${maxVectors} that are compared one by one: put another VectorStore behind the index`,
    );
  const width = vectors[0]?.length ?? 0;
  const flat = new Float32Array(vectors.length * width);
  vectors.forEach((vector, at) => flat.set(vector, at * width));
  return {
    size: vectors.length,
    async search(query, limit, signal) {
      signal?.throwIfAborted();
      if (vectors.length === 0) return [];
      if (query.length !== width)
        throw new DuolaneError(
          'invalid',
          `the query has ${query.length} dimensions, the index ${width}: it was built with another embedder`,
        );
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
