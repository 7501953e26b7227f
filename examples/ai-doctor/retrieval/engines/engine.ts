import { DuolaneError } from 'duolane';
import type { Fingerprint } from '../shipped.ts';

/** A place in the list of chunks, and how near it is: the cosine, at most 1. */
export interface Near {
  readonly at: number;
  readonly score: number;
}

/** Vectors that can be searched, from any number of callers at once; disposing gives back what was opened. */
export interface VectorStore extends Disposable {
  readonly size: number;
  /** The nearest first, at most `limit`. A query of another width is refused with `invalid`. */
  search(query: Float32Array, limit: number, signal?: AbortSignal): Promise<readonly Near[]>;
}

/** The vectors that an index wants to search. */
export interface VectorSource {
  readonly fingerprint: Fingerprint;
  readonly size: number;
  /** Makes them, which is dear: only for an engine that does not have them yet. One per place, of unit length. */
  readonly make: () => Promise<readonly Float32Array[]>;
  readonly signal?: AbortSignal;
}

/**
 * Keeps vectors and searches them. `open` takes those of the same fingerprint as they are and else
 * replaces them; whoever opens at the same time finds the old ones or the new ones, never half.
 */
export interface VectorEngine {
  open(source: VectorSource): Promise<VectorStore>;
}

export function checkWidth(query: Float32Array, width: number): void {
  if (query.length !== width)
    throw new DuolaneError(
      'invalid',
      `the query has ${query.length} dimensions, the index ${width}: it was built with another embedder`,
    );
}
