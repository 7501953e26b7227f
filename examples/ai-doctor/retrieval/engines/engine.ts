import { DuolaneError } from 'duolane';
import type { Fingerprint } from '../shipped.ts';

/** A place in the list of chunks, and how near it is: the cosine, at most 1. */
export interface Near {
  readonly at: number;
  readonly score: number;
}

/**
 * Vectors that any number of callers may search concurrently; disposing releases what was opened.
 */
export interface VectorStore extends Disposable {
  readonly size: number;
  /** The nearest first, at most `limit`. A query of another width is refused with `invalid`. */
  search(query: Float32Array, limit: number, signal?: AbortSignal): Promise<readonly Near[]>;
}

/** The vectors that an index wants to search. */
export interface VectorSource {
  readonly fingerprint: Fingerprint;
  readonly size: number;
  /**
   * Computes the vectors, which is expensive: only for an engine without them. One per position, of
   * unit length.
   */
  readonly make: () => Promise<readonly Float32Array[]>;
  readonly signal?: AbortSignal;
}

/**
 * Stores vectors and searches them. `open` uses stored vectors with the same fingerprint and
 * replaces others. A concurrent `open` finds the old vectors or the new ones, never a part of them.
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
