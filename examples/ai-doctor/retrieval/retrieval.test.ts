import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { openDatabase } from '../../support/sqlite.ts';
import { type Chunk, chunk, corpusHash, loadCorpus, sentences } from './corpus.ts';
import { type Embedder, unit } from './embedder.ts';
import { openGuidelines } from './guidelines.ts';
import { hashedEmbedder } from './hashed.ts';
import { fuse, openIndex } from './index.ts';
import { isSame, pack, readShipped, unpack } from './shipped.ts';
import { flatStore } from './engines/flat.ts';

const folder = mkdtempSync(join(tmpdir(), 'guidelines-'));
afterAll(() => rmSync(folder, { recursive: true }));

const note = (id: string, text: string): Chunk => ({
  id,
  title: id,
  section: 'Management',
  text,
  topics: [],
});

/** Counts its calls, under any id. */
function counting(id = 'counting', dimensions = 4): Embedder & { calls: number } {
  const embedder = {
    id,
    dimensions,
    maxBatch: 2,
    calls: 0,
    async embed(texts: readonly string[], kind: 'query' | 'document') {
      if (kind === 'document') embedder.calls += texts.length;
      expect(texts.length).toBeLessThanOrEqual(2);
      return texts.map((text) =>
        unit(Array.from({ length: dimensions }, (_, i) => text.length + i)),
      );
    },
  };
  return embedder;
}

describe('the corpus', () => {
  test('has at least 150 passages, each with its source, and no id twice', async () => {
    const passages = await loadCorpus();
    expect(passages.length).toBeGreaterThanOrEqual(150);
    expect(new Set(passages.map(({ id }) => id)).size).toBe(passages.length);
    expect(passages.every(({ topics, section }) => topics.length > 0 && section !== '')).toBe(true);
  });

  test('a file that is invalid, empty or repeats a passage is refused by name', async () => {
    const write = (name: string, text: string): URL => {
      writeFileSync(join(folder, name), text);
      return pathToFileURL(join(folder, name));
    };
    const source = { publisher: 'p', note: 'n' };
    const passage = { id: 'a', title: 't', section: 's', text: 'x', topics: [], source: 'o' };
    const file = (passages: unknown[]): string =>
      JSON.stringify({ about: '', sources: { o: source }, passages });
    await expect(loadCorpus([write('broken.json', '{')])).rejects.toThrow(
      /broken\.json is not valid JSON/,
    );
    await expect(loadCorpus([write('empty.json', file([]))])).rejects.toThrow(
      /empty\.json is not a valid corpus/,
    );
    await expect(loadCorpus([write('twice.json', file([passage, passage]))])).rejects.toThrow(
      'repeats the passage a',
    );
    await expect(
      loadCorpus([write('lost.json', file([{ ...passage, source: 'q' }]))]),
    ).rejects.toThrow('a names an unknown source: q');
  });

  test('chunks contain every sentence, keep the size limit and have unique ids', () => {
    const sentence = fc.integer({ min: 1, max: 90 }).map((length) => `A${'b'.repeat(length)}.`);
    fc.assert(
      fc.property(fc.array(sentence, { minLength: 1, maxLength: 30 }), (all) => {
        const text = all.join(' ');
        const parts = chunk([{ ...note('p', text), source: 'o' }], 120);
        expect(parts.every((part) => part.text.length <= 120)).toBe(true);
        expect(new Set(parts.map(({ id }) => id)).size).toBe(parts.length);
        const kept = parts.flatMap((part) => sentences(part.text));
        expect(all.every((each) => kept.includes(each))).toBe(true);
      }),
    );
  });
});

describe('an index', () => {
  const chunks = [
    note('one', 'Apples and pears.'),
    note('two', 'Kidney function.'),
    note('three', 'Falls.'),
  ];

  test('on disk is built once, and again after a change of corpus, embedder or dimensions', async () => {
    const file = join(folder, 'index.sqlite');
    const open = async (embedder: ReturnType<typeof counting>, of = chunks): Promise<number> => {
      using index = await openIndex({ chunks: of, embedder, file });
      const [first] = await index.search('kidneys');
      expect(first?.chunk.id).toBe('two');
      return embedder.calls;
    };
    expect(await open(counting())).toBe(3);
    expect(await open(counting())).toBe(0);
    expect(await open(counting('another'))).toBe(3);
    expect(await open(counting('another', 8))).toBe(3);
    expect(await open(counting('another', 8), [...chunks, note('four', 'More.')])).toBe(4);
    expect(await open(counting('another', 8), [...chunks, note('four', 'Less.')])).toBe(4);
    expect(await open(counting('another', 8), [...chunks, note('four', 'Less.')])).toBe(0);
  });

  test('waits for another process that builds in the same file', async () => {
    const file = join(folder, 'shared.sqlite');
    openDatabase(file).close();
    const builder = new Worker(
      `const { parentPort, workerData: { file, path } } = require('node:worker_threads');
       const { DatabaseSync } = process.getBuiltinModule('node:sqlite') ?? require(path);
       const database = new DatabaseSync(file);
       database.exec('begin immediate');
       parentPort.postMessage('locked');
       setTimeout(() => { database.exec('commit'); database.close(); }, 300);`,
      {
        eval: true,
        workerData: {
          file,
          path: createRequire(import.meta.url).resolve('@photostructure/sqlite'),
        },
      },
    );
    await once(builder, 'message');
    using index = await openIndex({ chunks, embedder: hashedEmbedder, file });
    expect(await index.search('kidneys')).not.toEqual([]);
  });

  test('refuses to search a file that was rebuilt from another corpus', async () => {
    const file = join(folder, 'replaced.sqlite');
    using old = await openIndex({ chunks, embedder: hashedEmbedder, file });
    const others = [note('new', 'Quite another.'), ...chunks];
    using _ = await openIndex({ chunks: others, embedder: hashedEmbedder, file });
    await expect(old.search('kidneys')).rejects.toMatchObject({ code: 'conflict' });
  });

  test('creates the folder of its file, and names a file that is not an index', async () => {
    const file = join(folder, 'new', 'index.sqlite');
    using index = await openIndex({ chunks, embedder: hashedEmbedder, file });
    expect(index.size).toBe(chunks.length);
    const odd = join(folder, 'odd.sqlite');
    writeFileSync(odd, 'no database, but long enough to be taken for one'.repeat(50));
    await expect(openIndex({ chunks, embedder: hashedEmbedder, file: odd })).rejects.toThrow(
      `no index can be kept in ${odd}: file is not a database`,
    );
  });

  test('of an empty corpus is refused, and an empty query finds nothing', async () => {
    await expect(openIndex({ chunks: [], embedder: hashedEmbedder })).rejects.toThrow(
      'the corpus is empty',
    );
    using index = await openIndex({ chunks, embedder: hashedEmbedder });
    expect(await index.search('  ')).toEqual([]);
  });

  test('accepts any text as a query', async () => {
    using index = await openIndex({ chunks, embedder: hashedEmbedder });
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 60 }), async (query) => {
        expect((await index.search(query, { limit: 2 })).length).toBeLessThanOrEqual(2);
      }),
      { numRuns: 50 },
    );
    expect((await index.search('" OR title:* NEAR( - kidney')).at(0)?.chunk.id).toBe('two');
  });

  test('ranks a hit of both lists above the first hit of one list', () => {
    const order = fuse([
      { places: [1, 2, 3], weight: 1 },
      { places: [3, 2, 4], weight: 1 },
    ]).map(({ at }) => at);
    expect(order.slice(0, 2).toSorted((a, b) => a - b)).toEqual([2, 3]);
    expect(order).toHaveLength(4);
  });
});

describe('vectors', () => {
  test('of another width, or too many vectors, are refused with the reason', async () => {
    const store = flatStore([unit([1, 0]), unit([0, 1])]);
    expect((await store.search(unit([0.1, 1]), 1))[0]?.at).toBe(1);
    await expect(store.search(unit([1, 0, 0]), 1)).rejects.toThrow('built with another embedder');
    expect(() => flatStore([unit([1]), unit([1])], 1)).toThrow('more than the 1 that are compared');
  });

  test('lose almost no precision as bytes', () => {
    const component = fc.double({ min: -1, max: 1, noNaN: true });
    const rows = fc.array(fc.array(component, { minLength: 16, maxLength: 16 }), { minLength: 1 });
    fc.assert(
      fc.property(rows, (values) => {
        const vectors = values.map((row) => unit([...row, 1])); // never the zero vector
        unpack(pack(vectors), 17).forEach((vector, at) => {
          const cosine = vector.reduce((sum, value, i) => sum + value * (vectors[at]?.[i] ?? 0), 0);
          expect(cosine).toBeGreaterThan(0.999);
        });
      }),
    );
  });

  test('that are shipped belong to the shipped corpus; otherwise run evaluation/embed.ts', async () => {
    const chunks = chunk(await loadCorpus());
    const embedder = 'use-lite-512/energetic-ai-0.2.0';
    const wanted = { corpus: corpusHash(chunks), embedder, dimensions: 512 };
    expect(await readShipped(wanted)).toHaveLength(chunks.length);
    expect(await readShipped({ ...wanted, corpus: 'another' })).toBeUndefined();
    expect(isSame(wanted, { ...wanted, dimensions: 256 })).toBe(false);
  });
});

test('the guidelines report their search method', async () => {
  await using guidelines = await openGuidelines({ embedder: hashedEmbedder });
  expect(guidelines.note).toBe('words and vectors of hashed-ngrams-1');
  const hits = await guidelines.search('metformin renal dosing eGFR 45', { limit: 3 });
  expect(hits.map((hit) => hit.chunk.id)).toContain('dm-metformin-renal');
});
