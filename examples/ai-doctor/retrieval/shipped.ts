import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { unit } from './embedder.ts';

/**
 * What vectors belong to: other chunks, another embedder or another layout make another
 * fingerprint.
 */
export interface Fingerprint {
  readonly corpus: string;
  readonly embedder: string;
  readonly dimensions: number;
}

const VectorFile = z.object({
  fingerprint: z.object({ corpus: z.string(), embedder: z.string(), dimensions: z.number() }),
  int8: z.string(),
});

export const SHIPPED_VECTORS: URL = new URL('../data/vectors.json', import.meta.url);

export const isSame = (one: Fingerprint, other: Fingerprint): boolean =>
  one.corpus === other.corpus &&
  one.embedder === other.embedder &&
  one.dimensions === other.dimensions;

/** The vectors that come with the corpus, if they belong to this fingerprint. */
export async function readShipped(
  wanted: Fingerprint,
): Promise<readonly Float32Array[] | undefined> {
  const { fingerprint, int8 } = VectorFile.parse(
    JSON.parse(await readFile(SHIPPED_VECTORS, 'utf8')),
  );
  return isSame(fingerprint, wanted) ? unpack(int8, wanted.dimensions) : undefined;
}

/** As text: a byte per dimension, which costs less than a hundredth of the cosine. */
export function pack(vectors: readonly Float32Array[]): string {
  const rows = vectors.map((vector) => {
    const scale = 127 / vector.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    return Buffer.from(Int8Array.from(vector, (value) => Math.round(value * scale)).buffer);
  });
  return Buffer.concat(rows).toString('base64');
}

export function unpack(int8: string, dimensions: number): readonly Float32Array[] {
  const bytes = Buffer.from(int8, 'base64');
  const all = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: all.length / dimensions }, (_, row) =>
    unit(all.subarray(row * dimensions, (row + 1) * dimensions)),
  );
}
