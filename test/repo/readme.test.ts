import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8').trimEnd();

/** A block of code that says which file it is: `<!-- path -->` on the line before it. */
const BLOCK = /<!-- (\S+) -->\n```\w+\n(.*?)\n```/gs;

test.each(['README.md', 'docs/guides/host.md', 'docs/guides/tools.md'])(
  'code in %s is code that runs',
  (page) => {
    for (const [, file = '', code] of read(page).matchAll(BLOCK)) expect(code).toBe(read(file));
  },
);

test('the front page shows programs', () => {
  expect([...read('README.md').matchAll(BLOCK)].length).toBeGreaterThan(0);
});
