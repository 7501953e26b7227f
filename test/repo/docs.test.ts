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

/**
 * Where the links of a page lead, as paths from the root; those that leave the repository are left
 * out.
 */
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

test.each(pages)('every link of %s has a target', (page) => {
  for (const link of linksOf(page)) {
    const [path = '', anchor] = link.split('#');
    expect(existsSync(join(ROOT, path)), `${page}: ${link}`).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(path), `${page}: ${link}`).toContain(anchor);
  }
});

verifies('S269', 'the index links to every page, and the guides to each other', () => {
  const index = linksOf('docs/README.md');
  for (const page of pages)
    if (page.startsWith('docs/') && page !== 'docs/README.md') expect(index).toContain(page);
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

verifies('S270', 'each misconception has its row, and each fault can be run', () => {
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

/** Words that the glossary replaces. `docs/glossary.md` and `docs/style.md` may name them. */
const BANNED =
  /\b(?:told|tells?|hears?|heard|ears?|deaf|dear|lest|heeds?|roads?|nobody|somebody|whoever|whom|lawful|unlawful|seals?|eras?|mend(?:s|ed)?|patience|goodbye|farewell|is none|is no(?! longer)|in words|as good as|at once|let go|be had|who waits|next to nothing|in vain)\b/i;

/** The help texts of the command are the source of `cli.md`. */
const prose = pages.filter((page) => !/(?:glossary|style|reference\/cli)\.md$/.test(page));

/** The lines of a page outside of its code blocks, with their numbers. */
const textLines = (page: string): readonly (readonly [number, string])[] => {
  let inCode = false;
  return read(page)
    .split('\n')
    .map((line, index) => [index + 1, line] as const)
    .filter(([, line]) => {
      const isFence = line.trimStart().startsWith('```');
      if (isFence) inCode = !inCode;
      return !isFence && !inCode;
    });
};

test.each(prose)('%s uses the words of the glossary', (page) => {
  const found = textLines(page).filter(([, line]) =>
    // Code, addresses of links, and titles of tests that a page cites are not prose.
    BANNED.test(line.replaceAll(/`[^`]*\.ts`: ".*?"(?= \||$)|`[^`]*`|\]\([^)]*\)/g, ' ')),
  );
  expect(found).toEqual([]);
});

test.each(prose)('paragraphs of %s have lines of at most 140 columns', (page) => {
  const long = textLines(page).filter(
    ([, line]) => line.length > 140 && !/^\s*(?:\||[-*] |\d+\. )/.test(line),
  );
  expect(long).toEqual([]);
});
