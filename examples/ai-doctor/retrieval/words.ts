import type { Chunk } from './corpus.ts';
import type { Database } from '../../support/sqlite.ts';

/** Words without meaning for a search. A query without them matches by its subject. */
const STOP = new Set(
  (
    'a,an,the,of,in,on,at,to,for,with,and,or,is,are,be,was,were,do,does,did,how,what,which,' +
    'when,who,whom,that,this,it,its,i,my,me,you,your,should,can,could,would,will,has,have,' +
    'had,from,by,as,not,no,any,some,than,then,there,they,them,their,he,she,his,her,if,into,' +
    'out,up,over,so,about,since,after,before,during,someone,somebody,patient,person,people'
  ).split(','),
);
/** Weights of title, text and topics: a match in the text counts least. */
const WEIGHTS = '3, 1, 3';

export const WORD_TABLE = `create virtual table words using fts5(title, text, topics, tokenize = 'porter unicode61')`;

export function fillWords(database: Database, chunks: readonly Chunk[]): void {
  const insert = database.prepare(
    'insert into words(rowid, title, text, topics) values (?, ?, ?, ?)',
  );
  chunks.forEach(({ title, text, topics }, at) =>
    insert.run(at + 1, title, text, topics.join(', ')),
  );
}

/** Places of the chunks that share words with a query, the best first, by BM25 over stems. */
export function searchWords(
  database: Database,
  columns: readonly ('title' | 'text' | 'topics')[] = ['title', 'text', 'topics'],
): (query: string, limit: number) => readonly number[] {
  const select = database.prepare(
    `select rowid - 1 as at from words where words match ? order by bm25(words, ${WEIGHTS}) limit ?`,
  );
  return (query, limit) => {
    const all = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    const telling = all.filter((word) => !STOP.has(word));
    const words = telling.length > 0 ? telling : all;
    if (words.length === 0) return [];
    const match = `{${columns.join(' ')}} : (${words.map((word) => `"${word}"`).join(' OR ')})`;
    return select.all(match, limit).map(({ at }) => Number(at));
  };
}
