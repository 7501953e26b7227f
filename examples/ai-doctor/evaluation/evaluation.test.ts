import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { peer } from '../../../test/peers.ts';
import { suite } from '../../../test/verifies.ts';
import { chunk, corpusHash, loadCorpus } from '../retrieval/corpus.ts';
import { embedAll } from '../retrieval/embedder.ts';
import { hasEncoder, openEncoder } from '../retrieval/encoder.ts';
import { openGuidelines } from '../retrieval/guidelines.ts';
import { subjectOf } from '../retrieval/index.ts';
import { readShipped } from '../retrieval/shipped.ts';
import { loadQueries, measure, type QuerySet, type Search } from './measure.ts';
import { type Methods, openMethods } from './methods.ts';
import { slowness } from '../../../test/support/busy.ts';

// The encoder is opt-in (32 MB): `npm ci --prefix peers/encoder`, or DUOLANE_ENCODER=1 to have it
// installed here.
const missing =
  hasEncoder() || process.env['DUOLANE_ENCODER'] === '1'
    ? (await peer('encoder')).reason
    : 'the encoder is not installed: npm ci --prefix peers/encoder';

let methods: Methods;
let queries: QuerySet;
beforeAll(async () => {
  [methods, queries] = await Promise.all([openMethods(), loadQueries()]);
});
afterAll(() => methods.close());

/** The minimum recall and rank of the README for queries that were not used for tuning. */
const UNSEEN = { heldOut: [0.91, 0.86], stranger: [0.81, 0.74] } as const;

/** Checks that hold for these queries with any vectors. */
async function checkUnseen(search: Search): Promise<void> {
  for (const [set, [recall, mrr]] of Object.entries(UNSEEN)) {
    const asked = queries[set as keyof typeof UNSEEN];
    const [score, plain, words] = [
      await measure(search, asked),
      await measure(methods.plain, asked),
      await measure(methods.words, asked),
    ];
    expect(score.recall.keyword).toBeGreaterThanOrEqual(0.9);
    expect(score.recall.keyword).toBeGreaterThanOrEqual(
      Math.max(plain.recall.keyword, words.recall.keyword),
    );
    expect(score.recall.all).toBeGreaterThanOrEqual(plain.recall.all + 0.04);
    // The topics improve the result, not the vectors: compared to FTS5 with topics, they must not
    // be worse.
    expect(score.recall.all).toBeGreaterThanOrEqual(words.recall.all);
    expect(score.recall.all).toBeGreaterThanOrEqual(recall);
    expect(score.mrr).toBeGreaterThanOrEqual(mrr);
  }
}

test('the queries are labelled with passages that exist, at least 60 of them held out', async () => {
  const ids = new Set((await loadCorpus()).map(({ id }) => id));
  const { tuning, heldOut, stranger } = queries;
  expect(Math.min(heldOut.length, stranger.length)).toBeGreaterThanOrEqual(60);
  const all = [...tuning, ...heldOut, ...stranger];
  expect(new Set(all.map(({ query }) => query)).size).toBe(all.length);
  expect(all.flatMap(({ gold }) => gold).filter((id) => !ids.has(id))).toEqual([]);
});

test('without the encoder, recall and rank are as in the README', async () => {
  await checkUnseen(methods.hashed);
  expect((await measure(methods.hashed, queries.heldOut)).p50Ms).toBeLessThan(
    30 * (await slowness()),
  );
});

suite('encoder', missing, () => {
  test('with the encoder, recall, rank and cost of a query are as in the README', async () => {
    const { encoder } = methods;
    if (!encoder) throw new Error('the encoder was installed after the methods were opened');
    await checkUnseen(encoder);
    const before = process.cpuUsage();
    await measure(encoder, queries.heldOut);
    // CPU time: 16 ms per query on an idle core, up to twice that on a shared one.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000 / queries.heldOut.length).toBeLessThan(50);
  });

  test('the shipped vectors equal those of the encoder', async () => {
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

  test('an abort ends the wait for an embedding, and the next one works', async () => {
    await using encoder = await openEncoder();
    const abort = new AbortController();
    const reason = new Error('enough');
    const running = encoder.embed(['one', 'two', 'three'], 'query', abort.signal);
    abort.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect((await encoder.embed(['four'], 'query'))[0]).toHaveLength(512);
  });

  test('a request during or after disposal is refused immediately', async () => {
    const encoder = await openEncoder();
    const [running] = await Promise.allSettled([
      encoder.embed(['one'], 'query'),
      encoder[Symbol.asyncDispose](),
    ]);
    expect(running).toMatchObject({ reason: { message: expect.stringContaining('has ended') } });
    await expect(encoder.embed(['two'], 'query')).rejects.toMatchObject({ code: 'closed' });
  });

  test.each(['/tmp/100%', '/tmp/a#b', '/tmp/ein Ordner'])('is found from %s', (folder) => {
    const spy = vi.spyOn(process, 'cwd').mockReturnValue(folder);
    try {
      expect(hasEncoder()).toBe(true);
    } finally {
      spy.mockRestore();
    }
  });
});
