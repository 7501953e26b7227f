// Prints what a search costs at many passages: `npx tsx examples/ai-doctor/evaluation/scale.ts [passages …]`.
// Passages are shuffled sentences of the corpus, vectors are random: for time and memory, not for quality.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensurePeer } from '../../../scripts/peers.mjs';
import { chunk, loadCorpus, sentences } from '../retrieval/corpus.ts';
import { unit } from '../retrieval/embedder.ts';
import { openDatabase } from '../../support/sqlite.ts';
import { flatStore } from '../retrieval/engines/flat.ts';
import { type Zvec, zvecEngine } from '../retrieval/engines/zvec.ts';
import { fillWords, searchWords, WORD_TABLE } from '../retrieval/words.ts';
import { loadQueries } from './measure.ts';

const DIMENSIONS = 512;
const random = mulberry(1);
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
  const vector = (): Float32Array => unit(Array.from({ length: DIMENSIONS }, () => random() - 0.5));
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
  if (zvec) await measureZvec(zvec, size, vector);
}

/** The same with an index; the vectors are made on the way, so that only one copy is held. */
async function measureZvec(module: Zvec, size: number, vector: () => Float32Array): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'scale-'));
  const start = performance.now();
  const source = {
    fingerprint: { corpus: `${size}`, embedder: 'random', dimensions: DIMENSIONS },
    size,
    make: async () => Array.from({ length: size }, vector),
  };
  {
    using store = await zvecEngine(module, folder).open(source);
    const built = performance.now() - start;
    const wanted = vector();
    const vectors = await timed(async () => store.search(wanted, 50));
    console.log(`  zvec: built in ${(built / 1000).toFixed(1)} s; ${vectors} ms (best, p50)`);
  }
  rmSync(folder, { recursive: true });
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

/** A small random generator, so that two runs compare the same. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
