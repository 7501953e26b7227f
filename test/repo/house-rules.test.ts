import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { FOLDERS, ONE_WAY } from '../layers.ts';
import { importsOf, type Node, sourceFiles } from '../source.ts';
import {
  bannedIdentifiers,
  bannedIn,
  bannedProse,
  errorTexts,
  type Parsed,
  parseFile,
  type Violation,
  wideComments,
} from './prose-rules.ts';
import ratchets from './ratchets.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '../..');
const MAX_FILES = 16;

const list = (folder: string): readonly string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => `${folder}/${file.replaceAll('\\', '/')}`)
    .filter((file) => !/\/(gen|node_modules)\//.test(file));
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

const shipped = ['src', 'web/src'].flatMap(list);
const typescript = shipped.filter((file) => /\.tsx?$/.test(file));
const sources = typescript.filter((file) => !file.includes('.test.'));
const others = ['test', 'examples', 'bench', 'scripts'].flatMap(list);
const parsed: readonly Parsed[] = [
  ...typescript,
  ...others.filter((file) => /\.tsx?$/.test(file) && !file.endsWith('prose-rules.ts')),
].map((file) => parseFile(file, read(file)));
const parsedSources = parsed.filter(({ file }) => sources.includes(file));

test('every folder is small', () => {
  const counted = sources.filter((file) => !/\/(index|types)\.ts$/.test(file));
  const large = [...groupBy(counted, dirname)].filter(([, files]) => files.length > MAX_FILES);
  expect(large.map(([folder]) => folder)).toEqual([]);
});

test('every folder has its sentence in the layer table', () => {
  const folders = new Set(shipped.filter((file) => /\.(tsx?|css|mjs)$/.test(file)).map(dirname));
  expect([...folders].toSorted()).toEqual(Object.keys(FOLDERS).toSorted());
});

test('folders of one part import in one direction', () => {
  const within = (file: string, folder: string): boolean => file.startsWith(`${folder}/`);
  // A door has no code of its own: it may re-export from every folder of its part.
  const wrong = sourceFiles()
    .filter((file) => !file.endsWith('/index.ts'))
    .flatMap((file) => importsOf(file))
    .filter(({ file, target }) =>
      ONE_WAY.some(([from, to]) => within(file, from) && within(target ?? '', to)),
    );
  expect(wrong.map(({ file, target }) => `${file} imports ${target}`)).toEqual([]);
});

/** Parts that are not public and that several other parts import. */
const INTERNAL_DOORS: readonly string[] = ['src/grpc/index.ts', 'src/metrics/index.ts'];

test('an index file belongs to a door of the package and only re-exports', () => {
  const doors = Object.values(
    (JSON.parse(read('package.json')) as { exports: Record<string, string> }).exports,
  ).map((path) => path.replace('./dist/', 'src/').replace(/\.js$/, '.ts'));
  for (const file of sources.filter((each) => posix.basename(each) === 'index.ts')) {
    expect([...doors, ...INTERNAL_DOORS], file).toContain(file);
    const tree = parsed.find((each) => each.file === file)?.nodes[0]?.['body'] as Node[];
    const own = tree.filter(
      ({ type, source }) => !type.startsWith('Export') || source === null || source === undefined,
    );
    expect(own.map(({ type }) => `${file}: ${type}`)).toEqual([]);
  }
});

test('a test stands beside its file, or in the folder that it tests', () => {
  const lost = typescript
    .filter((file) => file.includes('.test.'))
    .filter((file) => {
      const [name = ''] = posix.basename(file).split('.');
      const folder = dirname(file);
      return !(
        [`${name}.ts`, `${name}.tsx`].some((beside) => existsSync(join(ROOT, folder, beside))) ||
        posix.basename(folder) === name
      );
    });
  expect(lost).toEqual([]);
});

/** Folders of this name collect what has no other place. */
const BUCKETS = /(^|\/)(utils?|helpers?|common|misc)(\/|\.)/;

test('file names are in kebab case and name no bucket', () => {
  const wrong = sources.filter(
    (file) => !/^[a-z0-9]+([-.][a-z0-9]+)*\.tsx?$/.test(posix.basename(file)) || BUCKETS.test(file),
  );
  expect(wrong).toEqual([]);
});

test('no two exported symbols share a name', () => {
  const declared = new Map<string, Set<string>>();
  for (const { file, nodes } of parsedSources)
    for (const name of declaredExports(nodes[0]?.['body'] as Node[]))
      declared.set(name, (declared.get(name) ?? new Set()).add(file));
  const shared = [...declared].filter(([, files]) => files.size > 1);
  expect(shared.map(([name, files]) => `${name}: ${[...files].join(', ')}`)).toEqual([]);
});

/** The names that the statements of a module declare and export; re-exports do not count. */
function declaredExports(statements: readonly Node[]): readonly string[] {
  return statements.flatMap((statement) => {
    const declaration =
      statement.type === 'ExportNamedDeclaration'
        ? (statement['declaration'] as Node | null)
        : null;
    if (!declaration) return [];
    const declarators = (declaration['declarations'] ?? [declaration]) as Node[];
    return declarators.map((each) => String((each['id'] as Node)['name']));
  });
}

test('a path relative to a module leads to a file', () => {
  const broken = parsedSources.flatMap(({ file, nodes }) =>
    nodes
      .filter(({ type, callee }) => type === 'NewExpression' && (callee as Node)['name'] === 'URL')
      .map((node) => (node['arguments'] as Node[])[0]?.['value'])
      .filter((path): path is string => typeof path === 'string' && path.startsWith('.'))
      .filter((path) => !existsSync(join(ROOT, dirname(file), path)))
      .map((path) => `${file}: ${path}`),
  );
  expect(broken).toEqual([]);
});

const areaOf = (place: string): string =>
  (place.split(':', 1)[0] ?? '').split('/').slice(0, 2).join('/');

/** Violations allowed in an area. A number may only fall. */
type Limits = Readonly<Record<string, number>>;

/** Fails where an area has more violations than `ratchets.json` allows. */
function expectRatchet(limits: Limits, violations: readonly Violation[]): void {
  const grown = [...groupBy(violations, areaOf)].filter(
    ([area, found]) => found.length > (limits[area] ?? 0),
  );
  expect(
    grown.flatMap(([area, found]) => [
      `${area}: ${found.length}, allowed are ${limits[area] ?? 0}`,
      ...found,
    ]),
  ).toEqual([]);
}

function groupBy(items: readonly string[], key: (item: string) => string): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

test('no comment, message or test title has a banned word', () => {
  expectRatchet(ratchets.words, parsed.flatMap(bannedProse));
});

test('no declared name has a banned word', () => {
  expectRatchet(ratchets.identifiers, parsedSources.flatMap(bannedIdentifiers));
});

test('error messages have their form', () => {
  expectRatchet(ratchets.errors, parsedSources.flatMap(errorTexts));
});

test('comments have at most 100 columns', () => {
  expectRatchet(ratchets.comments, parsedSources.flatMap(wideComments));
});

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  ...['docs', 'examples'].flatMap(list).filter((file) => file.endsWith('.md')),
];

/** The glossary and the style page name the words that they ban. */
const NAMES_THEM = /docs\/(glossary|style)\.md/;

test('no page has a banned word', () => {
  expectRatchet(
    ratchets.pages,
    pages
      .filter((page) => !NAMES_THEM.test(page))
      .flatMap((page) =>
        prose(read(page)).flatMap(({ text, line }) =>
          bannedIn(text).map((word) => `${page}:${line}: "${word}"`),
        ),
      ),
  );
});

test('paragraphs of pages have at most 140 columns', () => {
  const wide = pages.flatMap((page) =>
    prose(read(page))
      .filter(({ text }) => text.length > 140 && !/^\s*([-*|]|\d+\.)|^\s{2,}|\]\(|:\/\//.test(text))
      .map(({ text, line }) => `${page}:${line}: ${text.length} columns`),
  );
  expectRatchet(ratchets.paragraphs, wide);
});

/** The lines of a page outside its code blocks. */
function prose(page: string): { readonly text: string; readonly line: number }[] {
  let isCode = false;
  return page.split('\n').flatMap((text, index) => {
    const fence = /^\s*```/.test(text);
    if (fence) isCode = !isCode;
    return fence || isCode ? [] : [{ text, line: index + 1 }];
  });
}

test('every guide has a program on its first screen', () => {
  const without = pages
    .filter((page) => page.startsWith('docs/guides/'))
    .filter(
      (page) =>
        !read(page)
          .split('\n')
          .slice(0, 40)
          .some((line) => line.startsWith('```')),
    );
  expect(without).toEqual([]);
});

/**
 * `Promise.race` leaks a listener or a timer unless it is written with care, so few files have one.
 */
test('only known files race promises', () => {
  const racing = sources
    .filter((file) => !file.startsWith('src/stream/') && read(file).includes('Promise.race('))
    .toSorted();
  expect(racing.filter((file) => !(ratchets.races as readonly string[]).includes(file))).toEqual(
    [],
  );
});

test('casts and conditional spreads do not grow', () => {
  const count = (pattern: RegExp): number =>
    sources.reduce((sum, file) => sum + (read(file).match(pattern)?.length ?? 0), 0);
  expect(count(/\bas unknown as\b/g)).toBeLessThanOrEqual(ratchets.casts);
  expect(count(/\.\.\.\([^()]* !== undefined && \{/g)).toBeLessThanOrEqual(ratchets.spreads);
});
