// Prints the cost of a search over many passages: `npx tsx examples/ai-doctor/evaluation/scale.ts
// [passages …]`. Passages are shuffled sentences of the corpus, vectors are mixed from those of the
// encoder: for time and memory, not for quality. Random vectors would not do: all of them are
// equally far from each other, and to build an index of that takes ten times as long.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensurePeer } from '../../../scripts/peers.mjs';
import { chunk, corpusHash, loadCorpus, sentences } from '../retrieval/corpus.ts';
import { unit } from '../retrieval/embedder.ts';
import { ENCODER } from '../retrieval/encoder.ts';
import { openDatabase } from '../../support/sqlite.ts';
import { flatStore } from '../retrieval/engines/flat.ts';
import { type Zvec, zvecEngine } from '../retrieval/engines/zvec.ts';
import { readShipped } from '../retrieval/shipped.ts';
import { fillWords, searchWords, WORD_TABLE } from '../retrieval/words.ts';
import { loadQueries } from './measure.ts';

const random = mulberry(1);
const shipped = await shippedVectors();
const all = (await loadCorpus()).flatMap(({ text }) => sentences(text));
const pick = (): string => all[Math.floor(random() * all.length)] ?? '';
const { heldOut } = await loadQueries();
const peer = await ensurePeer('vectors');
const zvec = peer.available ? ((await peer.import('@zvec/zvec')) as unknown as Zvec) : undefined;

const given = process.argv.slice(2).map(Number);
for (const size of given.length > 0 ? given : [225, 10_000, 50_000, 100_000]) {
  const passages = Array.from({ length: size }, (_, at) => ({
    id: `p${at}`,
    title: pick().slice(0, 40),
    section: 'Management',
    text: `${pick()} ${pick()} ${pick()}`,
    topics: [pick().slice(0, 30)],
    source: 'synthetic',
  }));
  const store = flatStore(Array.from({ length: size }, vector), size);
  const database = openDatabase(':memory:');
  const start = performance.now();
  database.exec(`${WORD_TABLE}; begin`);
  fillWords(database, chunk(passages));
  database.exec('commit');
  const built = performance.now() - start;
  const search = searchWords(database);
  const words = await timed(async (query) => search(query, 50));
  const wanted = vector();
  const vectors = await timed(async () => store.search(wanted, 50));
  const memory = Math.round(process.memoryUsage().rss / 1e6);
  console.log(
    `${size} passages: words built in ${(built / 1000).toFixed(1)} s; words ${words}, vectors ${vectors} ms (best, p50); process ${memory} MB`,
  );
  database.close();
  if (zvec) await measureZvec(zvec, size);
}

/** The same with an index. */
async function measureZvec(module: Zvec, size: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'scale-'));
  const vectors = Array.from({ length: size }, vector);
  const start = performance.now();
  const source = {
    fingerprint: { corpus: `${size}`, embedder: 'mixed', dimensions: ENCODER.dimensions },
    size,
    make: async () => vectors,
  };
  {
    using store = await zvecEngine(module, folder).open(source);
    const built = performance.now() - start;
    const wanted = vector();
    const times = await timed(async () => store.search(wanted, 50));
    console.log(`  zvec: built in ${(built / 1000).toFixed(1)} s; ${times} ms (best, p50)`);
  }
  rmSync(folder, { recursive: true });
}

/** A random mix of three vectors of the encoder, with some noise. */
function vector(): Float32Array {
  const parts = Array.from({ length: 3 }, () => ({
    of: shipped[Math.floor(random() * shipped.length)] as Float32Array,
    much: random(),
  }));
  return unit(
    Array.from({ length: ENCODER.dimensions }, (_, i) =>
      parts.reduce((sum, { of, much }) => sum + much * (of[i] ?? 0), (random() - 0.5) * 0.01),
    ),
  );
}

async function shippedVectors(): Promise<readonly Float32Array[]> {
  const chunks = chunk(await loadCorpus());
  const { id: embedder, dimensions } = ENCODER;
  const vectors = await readShipped({ corpus: corpusHash(chunks), embedder, dimensions });
  if (!vectors) throw new Error('data/vectors.json is not current; run evaluation/embed.ts');
  return vectors;
}

async function timed(search: (query: string) => Promise<unknown>): Promise<string> {
  const times: number[] = [];
  for (const { query } of heldOut) {
    const start = performance.now();
    await search(query);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return [0, Math.floor(times.length / 2)].map((at) => times[at]?.toFixed(1)).join(' / ');
}

/** A seeded random generator, so that two runs compare the same data. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
