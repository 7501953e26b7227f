import { chunk, loadCorpus } from '../retrieval/corpus.ts';
import { hasEncoder, openEncoder } from '../retrieval/encoder.ts';
import { SPELLING } from '../retrieval/guidelines.ts';
import { hashedEmbedder } from '../retrieval/hashed.ts';
import { openIndex } from '../retrieval/index.ts';
import { readShipped } from '../retrieval/shipped.ts';
import { openDatabase } from '../../support/sqlite.ts';
import { fillWords, searchWords, WORD_TABLE } from '../retrieval/words.ts';
import type { Search } from './measure.ts';

const LIMIT = 10;

/** The search methods that are compared; `close` releases their resources. */
export interface Methods {
  /** FTS5 over title and text: the baseline. */
  readonly plain: Search;
  /** FTS5 over title, text and topics. */
  readonly words: Search;
  /** With hashed vectors, which are used without the encoder. */
  readonly hashed: Search;
  /** With vectors of the encoder, if it is installed. */
  readonly encoder?: Search;
  close(): Promise<void>;
}

export async function openMethods(): Promise<Methods> {
  const chunks = chunk(await loadCorpus());
  const database = openDatabase(':memory:');
  database.exec(WORD_TABLE);
  fillWords(database, chunks);
  const byWords = (columns?: readonly ('title' | 'text' | 'topics')[]): Search => {
    const search = searchWords(database, columns);
    return async (query) => search(query, LIMIT).map((at) => chunks[at]?.id ?? '');
  };
  const hashed = await openIndex({ chunks, embedder: hashedEmbedder, ...SPELLING });
  const encoder = hasEncoder() ? await openEncoder() : undefined;
  const hybrid = encoder && (await openIndex({ chunks, embedder: encoder, known: readShipped }));
  const byIndex =
    (index: typeof hashed): Search =>
    async (query) =>
      (await index.search(query, { limit: LIMIT })).map((hit) => hit.chunk.id);
  return {
    plain: byWords(['title', 'text']),
    words: byWords(),
    hashed: byIndex(hashed),
    ...(hybrid && { encoder: byIndex(hybrid) }),
    async close() {
      database.close();
      hashed[Symbol.dispose]();
      hybrid?.[Symbol.dispose]();
      await encoder?.[Symbol.asyncDispose]();
    },
  };
}
