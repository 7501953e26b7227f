/**
 * Turns texts into vectors of unit length. `id` names model and version: vectors of different ids
 * are never compared. Abort ends the call; what was sent may still be computed.
 */
export interface Embedder {
  readonly id: string;
  readonly dimensions: number;
  readonly maxBatch: number;
  embed(
    texts: readonly string[],
    kind: 'query' | 'document',
    signal?: AbortSignal,
  ): Promise<readonly Float32Array[]>;
}

/** All texts, in batches that the embedder takes. */
export async function embedAll(
  embedder: Embedder,
  texts: readonly string[],
  signal?: AbortSignal,
): Promise<readonly Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < texts.length; at += embedder.maxBatch) {
    signal?.throwIfAborted();
    const batch = texts.slice(at, at + embedder.maxBatch);
    vectors.push(...(await embedder.embed(batch, 'document', signal)));
  }
  return vectors;
}

/** The vector of length one in the same direction; the zero vector stays. */
export function unit(values: ArrayLike<number>): Float32Array {
  const vector = Float32Array.from(values);
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
