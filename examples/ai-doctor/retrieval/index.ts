import { DuolaneError } from 'duolane';
import { type Chunk, corpusHash } from './corpus.ts';
import { type Embedder, embedAll } from './embedder.ts';
import type { Fingerprint } from './shipped.ts';
import { type Database, openDatabase } from '../../support/sqlite.ts';
import { flatStore, type VectorStore } from './vectors.ts';
import { fillWords, searchWords, WORD_TABLE } from './words.ts';

export interface Hit {
  readonly chunk: Chunk;
  readonly score: number;
}

/** Passages by words and by vectors. Searching may go on from any number of callers; disposing closes the file; twice is fine. */
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
  /** Where the index is kept; without it in memory. Rebuilt when corpus or embedder are not those it was built from. */
  readonly file?: string;
  /** Vectors made earlier, if there are any of this fingerprint. */
  readonly known?: (fingerprint: Fingerprint) => Promise<readonly Float32Array[] | undefined>;
  readonly signal?: AbortSignal;
}

/** How deep each list is read before they are joined. */
const DEPTH = 50;
/** Small, so that the first places of a list weigh much more than the rest; 60 is usual for long lists. */
const RRF_K = 2;
const MAX_QUERY_CHARS = 2000;

/** Short phrases: the encoder places them much better than sentences full of drug names. */
export const subjectOf = ({ title, topics, text }: Chunk): string =>
  topics.length > 0 ? `${title}: ${topics.join(', ')}` : `${title}. ${text}`;

/** Opens the index of some chunks, building what is missing or outdated. */
export async function openIndex(options: IndexOptions): Promise<GuidelineIndex> {
  const { chunks, embedder, file = ':memory:', vectorWeight = 0.4 } = options;
  if (chunks.length === 0)
    throw new DuolaneError('invalid', 'the corpus is empty: nothing to search');
  const database = openDatabase(file);
  try {
    const vectors = flatStore(await buildOrLoad(database, options));
    const words = searchWords(database);
    let closed = false;
    return {
      size: chunks.length,
      embedder: embedder.id,
      async search(query, { limit = 5, signal } = {}) {
        const asked = query.slice(0, MAX_QUERY_CHARS).trim();
        if (asked === '') return [];
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
        if (!closed) database.close();
        closed = true;
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

async function buildOrLoad(
  database: Database,
  { chunks, embedder, textOf = subjectOf, known, signal }: IndexOptions,
): Promise<readonly Float32Array[]> {
  const fingerprint: Fingerprint = {
    corpus: corpusHash(chunks),
    embedder: embedder.id,
    dimensions: embedder.dimensions,
  };
  const name = JSON.stringify(fingerprint);
  database.exec('create table if not exists built(fingerprint text not null)');
  if (database.prepare('select fingerprint from built').get()?.['fingerprint'] === name)
    return load(database);
  const vectors =
    (await known?.(fingerprint)) ?? (await embedAll(embedder, chunks.map(textOf), signal));
  // One transaction: whoever opens the file finds the old index or the new one, never half of it.
  database.exec('begin immediate');
  database.exec(`drop table if exists words; drop table if exists vectors; delete from built;
    create table vectors(at integer primary key, vector blob not null); ${WORD_TABLE};`);
  fillWords(database, chunks);
  const insert = database.prepare('insert into vectors(at, vector) values (?, ?)');
  vectors.forEach((vector, at) =>
    insert.run(at, new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)),
  );
  database.prepare('insert into built(fingerprint) values (?)').run(name);
  database.exec('commit');
  return vectors;
}

const load = (database: Database): readonly Float32Array[] =>
  database
    .prepare('select vector from vectors order by at')
    .all()
    .map(({ vector }) => new Float32Array(Uint8Array.from(vector as Uint8Array).buffer));
