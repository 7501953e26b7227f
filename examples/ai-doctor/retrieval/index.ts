import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DuolaneError } from 'duolane';
import { type Chunk, corpusHash } from './corpus.ts';
import { type Embedder, embedAll } from './embedder.ts';
import type { VectorEngine, VectorStore } from './engines/engine.ts';
import { flatEngine } from './engines/flat.ts';
import type { Fingerprint } from './shipped.ts';
import { type Database, openDatabase } from '../../support/sqlite.ts';
import { fillWords, searchWords, WORD_TABLE } from './words.ts';

export interface Hit {
  readonly chunk: Chunk;
  readonly score: number;
}

/**
 * Passages by words and by vectors. Searching may go on from any number of callers; disposing
 * closes the file; twice is fine.
 */
export interface GuidelineIndex extends Disposable {
  readonly size: number;
  readonly embedder: string;
  /** Best first. An empty query finds nothing. */
  search(query: string, options?: SearchOptions): Promise<readonly Hit[]>;
}

export interface SearchOptions {
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

export interface IndexOptions {
  readonly chunks: readonly Chunk[];
  readonly embedder: Embedder;
  /** How much a rank among the vectors counts against one among the words. */
  readonly vectorWeight?: number;
  /** What of a chunk becomes its vector. */
  readonly textOf?: (chunk: Chunk) => string;
  /**
   * Where the index is kept; without it in memory. Rebuilt when corpus or embedder are not those it
   * was built from.
   */
  readonly file?: string;
  /** What keeps and searches the vectors; without it the index's own file, for up to 50,000. */
  readonly engine?: VectorEngine;
  /** Vectors made earlier, if there are any of this fingerprint. */
  readonly known?: (fingerprint: Fingerprint) => Promise<readonly Float32Array[] | undefined>;
  readonly signal?: AbortSignal;
}

/** How deep each list is read before they are joined. */
const DEPTH = 50;
/**
 * Small, so that the first places of a list weigh much more than the rest; 60 is usual for long
 * lists.
 */
const RRF_K = 2;
const MAX_QUERY_CHARS = 2000;

/** Short phrases: the encoder places them much better than sentences full of drug names. */
export const subjectOf = ({ title, topics, text }: Chunk): string =>
  topics.length > 0 ? `${title}: ${topics.join(', ')}` : `${title}. ${text}`;

/** Opens the index of some chunks, building what is missing or outdated. */
export async function openIndex(options: IndexOptions): Promise<GuidelineIndex> {
  const { chunks, embedder, file = ':memory:', vectorWeight = 0.4 } = options;
  const { textOf = subjectOf, known, signal } = options;
  if (chunks.length === 0)
    throw new DuolaneError('invalid', 'the corpus is empty: nothing to search');
  const database = openFile(file);
  const engine = options.engine ?? flatEngine(database);
  try {
    const corpus = corpusHash(chunks);
    buildWords(database, chunks, corpus);
    const words = searchWords(database);
    const built = database.prepare('select corpus from words_of');
    const fingerprint = { corpus, embedder: embedder.id, dimensions: embedder.dimensions };
    const vectors = await engine.open({
      fingerprint,
      size: chunks.length,
      ...(signal && { signal }),
      make: async () =>
        (await known?.(fingerprint)) ?? embedAll(embedder, chunks.map(textOf), signal),
    });
    let closed = false;
    return {
      size: chunks.length,
      embedder: embedder.id,
      async search(query, { limit = 5, signal } = {}) {
        const asked = query.slice(0, MAX_QUERY_CHARS).trim();
        if (asked === '') return [];
        if (built.get()?.['corpus'] !== corpus)
          throw new DuolaneError(
            'conflict',
            `another process has built ${file} anew from another corpus: open it again, or give each a file of its own`,
          );
        const near = await searchVectors(vectors, embedder, asked, signal);
        return fuse([
          { places: words(asked, DEPTH), weight: 1 },
          { places: near, weight: vectorWeight },
        ])
          .slice(0, limit)
          .flatMap(({ at, score }) => {
            const found = chunks[at];
            return found ? [{ chunk: found, score }] : [];
          });
      },
      [Symbol.dispose]() {
        if (closed) return;
        closed = true;
        vectors[Symbol.dispose]();
        database.close();
      },
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

async function searchVectors(
  store: VectorStore,
  embedder: Embedder,
  query: string,
  signal: AbortSignal | undefined,
): Promise<readonly number[]> {
  const [vector] = await embedder.embed([query], 'query', signal);
  return vector ? (await store.search(vector, DEPTH, signal)).map(({ at }) => at) : [];
}

/** Reciprocal rank fusion: only ranks count, so scores of different kinds need no common scale. */
export function fuse(
  lists: readonly { readonly places: readonly number[]; readonly weight: number }[],
): readonly { readonly at: number; readonly score: number }[] {
  const scores = new Map<number, number>();
  for (const { places, weight } of lists)
    places.forEach((at, rank) =>
      scores.set(at, (scores.get(at) ?? 0) + weight / (RRF_K + rank + 1)),
    );
  return Array.from(scores, ([at, score]) => ({ at, score })).toSorted(
    (a, b) => b.score - a.score || a.at - b.at,
  );
}

/**
 * Opens the file, and creates it with its folder. While another process builds it, this one waits.
 */
function openFile(file: string): Database {
  try {
    if (file !== ':memory:') mkdirSync(dirname(file), { recursive: true });
    const database = openDatabase(file);
    database.exec(
      'pragma busy_timeout = 60000; create table if not exists words_of(corpus text not null)',
    );
    return database;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `no index can be kept in ${file}: ${why}`, { cause });
  }
}

/** The words of the corpus, in one transaction, unless the file has those of the same corpus. */
function buildWords(database: Database, chunks: readonly Chunk[], corpus: string): void {
  const isBuilt = (): boolean =>
    database.prepare('select corpus from words_of').get()?.['corpus'] === corpus;
  if (isBuilt()) return;
  database.exec('begin immediate');
  if (!isBuilt()) {
    database.exec(`drop table if exists words; delete from words_of; ${WORD_TABLE}`);
    fillWords(database, chunks);
    database.prepare('insert into words_of(corpus) values (?)').run(corpus);
  }
  database.exec('commit');
}
