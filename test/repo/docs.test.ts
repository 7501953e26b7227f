import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { FAULTS } from '../../src/cli/commands/demo/run-fault.ts';
import { verifies } from '../verifies.ts';

const ROOT = join(import.meta.dirname, '../..');
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...['docs', 'examples'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.md') && !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  ),
];
const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');

/** Where the links of a page lead, as paths from the root; those that leave the repository are left out. */
function linksOf(page: string): readonly string[] {
  const prose = read(page).replaceAll(/```.*?```/gs, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, to = '']) => to)
    .filter((to) => !/^\w+:/.test(to))
    .map((to) => {
      const [file = '', anchor] = to.split('#');
      const path = file === '' ? page : join(page, '..', file);
      return anchor === undefined ? path : `${path}#${anchor}`;
    });
}

const anchorsOf = (page: string): readonly string[] =>
  [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

test.each(pages)('every link of %s leads somewhere', (page) => {
  for (const link of linksOf(page)) {
    const [path = '', anchor] = link.split('#');
    expect(existsSync(join(ROOT, path)), `${page}: ${link}`).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(path), `${page}: ${link}`).toContain(anchor);
  }
});

verifies('S269', 'the index leads to every page, and the guides to each other', () => {
  const index = linksOf('docs/README.md');
  const guides = readdirSync(join(ROOT, 'docs')).filter((file) => file.endsWith('.md'));
  for (const guide of guides) if (guide !== 'README.md') expect(index).toContain(`docs/${guide}`);
  expect(linksOf('docs/guides/rag.md')).toEqual(
    expect.arrayContaining([
      'docs/guides/tools.md',
      'docs/guides/host.md',
      'examples/ai-doctor/README.md',
    ]),
  );
  expect(linksOf('docs/guides/tools.md')).toEqual(
    expect.arrayContaining([
      'docs/guides/host.md',
      'docs/guides/mcp.md',
      'docs/guides/rag.md',
      'examples/tickets/README.md',
    ]),
  );
  expect(linksOf('docs/guides/mcp.md')).toContain('docs/guides/tools.md');
});

verifies('S270', 'each misconception has its row, and each fault can be watched', () => {
  const [pictures = '', table = ''] = read('docs/guides/mental-models.md').split(
    '## The misconceptions',
  );
  for (const words of [
    'does not call a model',
    'two lanes',
    'through the input that you opened',
    'a message, not the end of the process',
    'a connection is only a reader',
  ])
    expect(pictures).toMatch(new RegExp(`\\*\\*[^*]*${words}[^*]*\\*\\*`));
  const rows = table.split('\n').filter((line) => line.startsWith('| "'));
  const watched = rows.map((row) => /`([^`]+)`\s*\|$/.exec(row)?.[1] ?? '');
  expect(watched).toEqual(expect.arrayContaining([...FAULTS]));
  for (const words of ['text prompt', 'error at shutdown', 'talks to the model'])
    expect(rows.filter((row) => row.includes(words))).toHaveLength(1);
});
