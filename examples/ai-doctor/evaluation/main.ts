// Prints how well the guidelines are found: `npx tsx examples/ai-doctor/evaluation/main.ts
// [--misses]`.
import { loadQueries, measure } from './measure.ts';
import { openMethods } from './methods.ts';

const queries = await loadQueries();
const compared = await openMethods();
const methods = {
  'FTS5, title and text': compared.plain,
  'FTS5, with topics': compared.words,
  'FTS5 + hashed vectors': compared.hashed,
  'FTS5 + encoder vectors': compared.encoder,
};
for (const [set, asked] of Object.entries(queries)) {
  console.log(`\n${set}: ${asked.length} queries`);
  console.log(`${''.padEnd(24)}recall@3  keyword  natural  hard   MRR    p50 ms`);
  for (const [name, search] of Object.entries(methods)) {
    if (!search) continue;
    const { recall, mrr, p50Ms, misses } = await measure(search, asked);
    const cells = [recall.all, recall.keyword, recall.natural, recall.hard, mrr];
    const figures = cells.map((value) => value.toFixed(3));
    console.log(
      `${name.padEnd(24)}${figures[0]}     ${figures[1]}    ${figures[2]}    ${figures[3]}  ${figures[4]}  ${p50Ms.toFixed(1)}`,
    );
    if (process.argv.includes('--misses'))
      for (const { kind, query } of misses) console.log(`    missed (${kind}): ${query}`);
  }
}
if (!compared.encoder) console.log('\nThe encoder is not installed: npm ci --prefix peers/encoder');
await compared.close();
