// Writes data/vectors.json: `npx tsx examples/ai-doctor/evaluation/embed.ts`. Needs the encoder.
import { writeFile } from 'node:fs/promises';
import { chunk, corpusHash, loadCorpus } from '../retrieval/corpus.ts';
import { embedAll } from '../retrieval/embedder.ts';
import { openEncoder } from '../retrieval/encoder.ts';
import { subjectOf } from '../retrieval/index.ts';
import { pack, SHIPPED_VECTORS } from '../retrieval/shipped.ts';

const chunks = chunk(await loadCorpus());
await using encoder = await openEncoder();
const vectors = await embedAll(encoder, chunks.map(subjectOf));
const fingerprint = {
  corpus: corpusHash(chunks),
  embedder: encoder.id,
  dimensions: encoder.dimensions,
};
await writeFile(
  SHIPPED_VECTORS,
  `${JSON.stringify({ fingerprint, int8: pack(vectors) }, null, 2)}\n`,
);
console.log(`${chunks.length} vectors of ${encoder.id}`);
