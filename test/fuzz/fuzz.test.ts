import { readdirSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { parsers } from './parsers.ts';
import { routes } from './routes.ts';
import { fuzz, seedsOf } from './run.ts';

const server = await routes();
const targets = [...(await parsers()), ...server.targets];
afterAll(() => server[Symbol.asyncDispose]());

/** A few seconds of `npm run fuzz`, always with the same inputs. */
describe('a hostile input causes a typed error, never a crash, a 5xx or a changed prototype', () => {
  test.each(targets.map((target) => [target.name, target] as const))('%s', async (_, target) => {
    await expect(fuzz(target)).resolves.toBeUndefined();
  });
});

test('every file of seeds belongs to a target and has inputs', () => {
  const names = readdirSync(new URL('seeds', import.meta.url)).map(
    (file) => file.split('.json')[0]!,
  );
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => !targets.some((target) => target.name === name))).toEqual([]);
  for (const name of names) expect(seedsOf(name).length).toBeGreaterThan(0);
});
