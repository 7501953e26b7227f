import { readFile } from 'node:fs/promises';
import { z } from 'zod';

export type Kind = 'keyword' | 'natural' | 'hard';

/** A question and the passages that answer it. */
export interface LabelledQuery {
  readonly query: string;
  readonly gold: readonly string[];
  readonly kind: Kind;
}

export interface QuerySet {
  readonly tuning: readonly LabelledQuery[];
  readonly heldOut: readonly LabelledQuery[];
  /** Queries of an author who had not seen the topics of the passages. */
  readonly stranger: readonly LabelledQuery[];
}

const Query: z.ZodType<LabelledQuery> = z.strictObject({
  query: z.string(),
  gold: z.array(z.string()).min(1),
  kind: z.enum(['keyword', 'natural', 'hard']),
});
const QueryFile = z.strictObject({
  about: z.string(),
  tuning: z.array(Query),
  heldOut: z.array(Query),
  stranger: z.array(Query),
});

export async function loadQueries(): Promise<QuerySet> {
  const text = await readFile(new URL('./queries.json', import.meta.url), 'utf8');
  const { tuning, heldOut, stranger } = QueryFile.parse(JSON.parse(text));
  return { tuning, heldOut, stranger };
}

/** Ids of passages, best first. */
export type Search = (query: string) => Promise<readonly string[]>;

export interface Score {
  /** The share of queries with a correct passage among the first three. */
  readonly recall: Readonly<Record<Kind | 'all', number>>;
  /** The mean of 1 divided by the rank of the first correct passage. */
  readonly mrr: number;
  readonly p50Ms: number;
  readonly misses: readonly LabelledQuery[];
}

/** Runs every query once, sequentially. */
export async function measure(search: Search, queries: readonly LabelledQuery[]): Promise<Score> {
  const misses: LabelledQuery[] = [];
  const times: number[] = [];
  let reciprocal = 0;
  for (const each of queries) {
    const start = performance.now();
    const found = await search(each.query);
    times.push(performance.now() - start);
    const place = found.findIndex((id) => each.gold.includes(passageOf(id)));
    if (place === -1 || place >= 3) misses.push(each);
    if (place !== -1) reciprocal += 1 / (place + 1);
  }
  const recall = (kind?: Kind): number => {
    const asked = queries.filter((each) => kind === undefined || each.kind === kind);
    return 1 - misses.filter((each) => asked.includes(each)).length / asked.length;
  };
  return {
    recall: {
      all: recall(),
      keyword: recall('keyword'),
      natural: recall('natural'),
      hard: recall('hard'),
    },
    mrr: reciprocal / queries.length,
    p50Ms: times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0,
    misses,
  };
}

/** The passage that a chunk is a part of. */
const passageOf = (id: string): string => id.replace(/\.\d+$/, '');
