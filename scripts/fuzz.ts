// `npm run fuzz -- [--minutes 10] [--seed N] [target…]`: hostile inputs for every parser and route.
// An input that fails is shrunk and printed. Add it to test/fuzz/seeds/<target>.json with the fix,
// so that `npm test` tries it in every run.
import { parseArgs } from 'node:util';
import { parsers } from '../test/fuzz/parsers.ts';
import { routes } from '../test/fuzz/routes.ts';
import { fuzz } from '../test/fuzz/run.ts';

const { values, positionals } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, seed: { type: 'string' } },
  allowPositionals: true,
});
const server = await routes();
const all = [...(await parsers()), ...server.targets];
const chosen = all.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const end = Date.now() + Number(values.minutes) * 60_000;
let seed = values.seed === undefined ? Date.now() & 0x7fffffff : Number(values.seed);
const counts = new Map<string, number>();
const broken = new Set<string>();

while (Date.now() < end && broken.size < chosen.length) {
  for (const target of chosen.filter(({ name }) => !broken.has(name))) {
    try {
      await fuzz(target, { seed });
      counts.set(target.name, (counts.get(target.name) ?? 0) + target.tries);
    } catch (error) {
      broken.add(target.name);
      const { message, cause } = error as Error;
      console.error(`FAILED ${target.name} (--seed ${seed}): ${message.slice(0, 4000)}`);
      console.error(cause);
    }
  }
  seed += 1;
}
for (const [name, count] of counts) console.log(`${name.padEnd(20)} ${count} inputs`);
console.log(`${broken.size} of ${chosen.length} targets failed`);
await server[Symbol.asyncDispose]();
process.exitCode = broken.size === 0 ? 0 : 1;
