import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8').trimEnd();

/** A block of code with the path of its file: `<!-- path -->` on the line before it. */
const BLOCK = /<!-- (\S+) -->\n```\w+\n(.*?)\n```/gs;

const GUIDES = ['adapters', 'evals', 'host', 'mcp', 'mental-models', 'outputs', 'tools'];

test.each(['README.md', ...GUIDES.map((guide) => `docs/guides/${guide}.md`)])(
  '%s shows programs that equal the files that tests run',
  (page) => {
    const blocks = [...read(page).matchAll(BLOCK)];
    for (const [, file = '', code] of blocks) expect(code).toBe(read(file));
    expect(blocks.length).toBeGreaterThan(0);
  },
);

test.each(readdirSync(new URL('../../docs/guides', import.meta.url)))(
  'docs/guides/%s has a code block in its first 40 lines',
  (page) => {
    const screen = read(`docs/guides/${page}`).split('\n').slice(0, 40);
    expect(screen.some((line) => line.startsWith('```'))).toBe(true);
  },
);
