import { afterAll, beforeAll, expect, test } from 'vitest';
import { peer } from '../../../test/peers.ts';
import { suite } from '../../../test/verifies.ts';
import { chunk, corpusHash, loadCorpus } from '../retrieval/corpus.ts';
import { embedAll } from '../retrieval/embedder.ts';
import { hasEncoder, openEncoder } from '../retrieval/encoder.ts';
import { openGuidelines } from '../retrieval/guidelines.ts';
import { subjectOf } from '../retrieval/index.ts';
import { readShipped } from '../retrieval/shipped.ts';
import { loadQueries, measure, type QuerySet, type Score } from './measure.ts';
import { type Methods, openMethods } from './methods.ts';

// The encoder is opt-in (32 MB): `npm ci --prefix peers/encoder`, or DUOLANE_ENCODER=1 to have it installed here.
const missing =
  hasEncoder() || process.env['DUOLANE_ENCODER'] === '1'
    ? (await peer('encoder')).reason
    : 'the encoder is not installed: npm ci --prefix peers/encoder';

let methods: Methods;
let queries: QuerySet;
let plain: Score;
let words: Score;
beforeAll(async () => {
  [methods, queries] = await Promise.all([openMethods(), loadQueries()]);
  plain = await measure(methods.plain, queries.heldOut);
  words = await measure(methods.words, queries.heldOut);
});
afterAll(() => methods.close());

/** What holds on the held-out queries, whichever vectors are used. */
function checkHeldOut(score: Score): void {
  expect(score.recall.keyword).toBeGreaterThanOrEqual(0.9);
  expect(score.recall.keyword).toBeGreaterThanOrEqual(
    Math.max(plain.recall.keyword, words.recall.keyword),
  );
  expect(score.recall.all).toBeGreaterThanOrEqual(plain.recall.all + 0.04);
  // Topics win that, not vectors: next to FTS5 with the same topics they only must not lose.
  expect(score.recall.all).toBeGreaterThanOrEqual(words.recall.all);
  expect(score.recall.all).toBeGreaterThanOrEqual(0.91);
  expect(score.mrr).toBeGreaterThanOrEqual(0.86);
}

test('the queries are labelled with passages that exist, at least 60 of them held out', async () => {
  const ids = new Set((await loadCorpus()).map(({ id }) => id));
  expect(queries.heldOut.length).toBeGreaterThanOrEqual(60);
  const known = new Set(queries.tuning.map(({ query }) => query));
  expect(queries.heldOut.filter(({ query }) => known.has(query))).toEqual([]);
  const gold = [...queries.tuning, ...queries.heldOut].flatMap((each) => each.gold);
  expect(gold.filter((id) => !ids.has(id))).toEqual([]);
});

test('without the encoder, held-out recall and rank are what the README says', async () => {
  const score = await measure(methods.hashed, queries.heldOut);
  checkHeldOut(score);
  expect(score.p50Ms).toBeLessThan(30);
});

suite('encoder', missing, () => {
  test('with the encoder, held-out recall and rank are what the README says', async () => {
    const { encoder } = methods;
    if (!encoder) throw new Error('the encoder was installed after the methods were opened');
    const before = process.cpuUsage();
    checkHeldOut(await measure(encoder, queries.heldOut));
    // Computing, not waiting: 16 ms a query where nobody else has the core, up to twice that where somebody has.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000 / queries.heldOut.length).toBeLessThan(50);
  }, 120_000);

  test('the shipped vectors are what the encoder gives', async () => {
    const chunks = chunk(await loadCorpus()).slice(0, 24);
    await using encoder = await openEncoder();
    const fresh = await embedAll(encoder, chunks.map(subjectOf));
    await using guidelines = await openGuidelines();
    expect(guidelines.note).toContain(encoder.id);
    const shipped = await readShipped({
      corpus: corpusHash(chunk(await loadCorpus())),
      embedder: encoder.id,
      dimensions: encoder.dimensions,
    });
    fresh.forEach((vector, at) => {
      const cosine = vector.reduce((sum, value, i) => sum + value * (shipped?.[at]?.[i] ?? 0), 0);
      expect(cosine).toBeGreaterThan(0.99);
    });
  });

  test('abort leaves an embedding that runs, and the next one works', async () => {
    await using encoder = await openEncoder();
    const abort = new AbortController();
    const reason = new Error('enough');
    const running = encoder.embed(['one', 'two', 'three'], 'query', abort.signal);
    abort.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect((await encoder.embed(['four'], 'query'))[0]).toHaveLength(512);
  });
});
