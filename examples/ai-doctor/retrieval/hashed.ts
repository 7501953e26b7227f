import { type Embedder, unit } from './embedder.ts';

const DIMENSIONS = 1024;

/**
 * Vectors without a model: the words and the character trigrams of a text, hashed into 1024 places
 * and weighed by their logarithm. It finds spellings that are alike, not meanings.
 */
export const hashedEmbedder: Embedder = {
  id: 'hashed-ngrams-1',
  dimensions: DIMENSIONS,
  maxBatch: 1000,
  embed: async (texts) => texts.map(hashed),
};

function hashed(text: string): Float32Array {
  const counts = new Float32Array(DIMENSIONS);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    if (word.length < 3 && !/\d/.test(word)) continue;
    add(counts, word, 1);
    for (let at = 0; at + 3 <= word.length + 2; at++)
      add(counts, `^${word}$`.slice(at, at + 3), 0.4);
  }
  return unit(counts.map((count) => Math.sign(count) * Math.log1p(Math.abs(count))));
}

function add(counts: Float32Array, feature: string, weight: number): void {
  let hash = 0x811c9dc5; // FNV-1a
  for (let at = 0; at < feature.length; at++) {
    hash = Math.imul(hash ^ feature.charCodeAt(at), 0x01000193);
  }
  // The top bit is the sign, so that collisions cancel out instead of adding up.
  const place = (hash >>> 0) % DIMENSIONS;
  counts[place] = (counts[place] ?? 0) + (hash < 0 ? -weight : weight);
}
