import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const ROOT = new URL('../../', import.meta.url);
const rows = readFileSync(new URL('docs/code-map.md', ROOT), 'utf8')
  .split('\n')
  .map((line) => /^\| (.+) \| `(.+)` \|$/.exec(line))
  .filter((match) => match !== null);

test('the code map answers at least thirty questions, each with a file that exists', () => {
  expect(rows.length).toBeGreaterThanOrEqual(30);
  const missing = rows
    .map(([, , file = '']) => file)
    .filter((file) => !existsSync(new URL(file, ROOT)));
  expect(missing).toEqual([]);
});
