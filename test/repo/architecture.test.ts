import { expect, test } from 'vitest';
import { runTool } from '../../scripts/setup.mjs';
import { LAYERS, LOADERS, PACKAGES, PORTABLE, PURE, STRANGERS } from '../layers.ts';
import { type Import, importsOf, readSource, sourceFiles } from '../source.ts';

const IO = /^node:(fs|net|tls|http|https|http2|dgram|dns|worker_threads)\b/;
const imports = sourceFiles().flatMap((file) => importsOf(file));

/** `host/session/agent-session.ts` is of part `host`, `errors.ts` of part `errors`. */
function partOf(file: string): string {
  return file.split('/', 1)[0]?.replace(/\.ts$/, '') ?? '';
}

function isWithin(file: string, path: string): boolean {
  return file === `${path}.ts` || file.startsWith(`${path}/`);
}

function lineOf(file: string): readonly string[] | undefined {
  const paths = Object.keys(LAYERS).filter((path) => isWithin(file, path));
  return LAYERS[paths.toSorted((a, b) => b.length - a.length)[0] ?? ''];
}

/** `zod/v4` is of package `zod`, `@scope/name/x` of `@scope/name`, `node:fs/promises` itself. */
function packageOf(specifier: string): string {
  if (specifier.startsWith('node:')) return specifier;
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

/** Why an import is wrong, or `undefined`. */
function judge({ file, specifier, target, kind }: Import): string | undefined {
  if (target !== undefined) {
    const to = partOf(target);
    if (target.startsWith('..')) return 'leaves src/';
    if (STRANGERS.some((pair) => knows(pair, file, target))) return 'knows both sides of a bridge';
    return to === partOf(file) || lineOf(file)?.includes(to) ? undefined : 'not in its layer';
  }
  if (kind === 'computed')
    return LOADERS.some((path) => isWithin(file, path)) ? undefined : 'not in LOADERS';
  const rule = PACKAGES[packageOf(specifier)];
  if (rule === undefined) {
    if (!specifier.startsWith('node:')) return 'a package without a line in PACKAGES';
    return PURE.includes(partOf(file)) && IO.test(specifier)
      ? 'a pure part does no I/O'
      : undefined;
  }
  const allowed = [...(rule.loads ?? []), ...(kind === 'static' ? [] : (rule.lazily ?? []))];
  return allowed.some((path) => isWithin(file, path)) ? undefined : `must not import it ${kind}`;
}

function knows(pair: readonly [string, string], file: string, target: string): boolean {
  return pair.some((a) => isWithin(file, a) && pair.some((b) => b !== a && isWithin(target, b)));
}

function wrongIn(found: readonly Import[]): string[] {
  return found.flatMap((one) => {
    const reason = judge(one);
    return reason === undefined ? [] : [`${one.file} imports ${one.specifier}: ${reason}`];
  });
}

test('every import is one that the layer table allows', () => {
  expect(imports.length).toBeGreaterThan(10);
  expect(wrongIn(imports)).toEqual([]);
});

test('every folder and file at the top of src has a line in the table', () => {
  const parts = new Set(sourceFiles().map(partOf));
  expect([...parts].filter((part) => LAYERS[part] === undefined)).toEqual([]);
});

test('the table itself has no cycle, and nothing may import the command', () => {
  const order: string[] = [];
  for (const [path, line] of Object.entries(LAYERS)) {
    expect(line.filter((to) => LAYERS[to] === undefined)).toEqual([]);
    expect(line).not.toContain('cli');
    // A line for a folder inside a part may name a later part; the line of the part itself may not.
    if (path.includes('/')) continue;
    expect(line.filter((to) => !order.includes(to))).toEqual([]);
    order.push(path);
  }
});

test('no folder reaches itself through others', () => {
  const graph = new Map<string, Set<string>>();
  for (const { file, target } of imports) {
    const [from, to] = [partOf(file), partOf(target ?? file)];
    if (from !== to) graph.set(from, (graph.get(from) ?? new Set()).add(to));
  }
  const reaches = (from: string, goal: string, seen: Set<string>): boolean =>
    [...(graph.get(from) ?? [])].some(
      (to) => to === goal || (!seen.has(to) && reaches(to, goal, seen.add(to))),
    );
  expect([...graph.keys()].filter((part) => reaches(part, part, new Set()))).toEqual([]);
});

/** Every import in the graph of a file, except those of types. */
function graphOf(file: string, seen = new Set<string>()): readonly Import[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const found = imports.filter((each) => each.file === file && each.kind !== 'type');
  return found.flatMap((each) => [each, ...(each.target ? graphOf(each.target, seen) : [])]);
}

test.each(PORTABLE)('nothing that the door %s loads is a module of Node', (door) => {
  const graph = graphOf(`${door}/index.ts`);
  expect(graph.length).toBeGreaterThan(20);
  const others = graph.filter(({ target }) => target === undefined);
  expect(others.map(({ file, specifier }) => `${file} imports ${specifier}`)).toEqual([]);
});

test.each(PORTABLE)(
  'the door %s and what it loads compile without the types of Node',
  async (door) => {
    // So neither `Buffer` nor `process` is used, and a page needs no types of Node to use the door.
    const options = {
      lib: ['es2023', 'dom', 'dom.iterable', 'esnext.disposable'],
      types: [],
      module: 'nodenext',
      target: 'es2023',
      strict: true,
      skipLibCheck: false,
      noEmit: true,
      allowImportingTsExtensions: true,
    };
    const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const files = [`src/${door}/index.ts`];
    const result = await runTool('typescript', ['--ignoreConfig', ...flags, ...files], {
      quiet: true,
    });
    expect(result).toMatchObject({ code: 0, output: '' });
  },
);

test('no source is longer than 400 lines', () => {
  const written = sourceFiles().filter((file) => !file.includes('/gen/'));
  const long = written.filter((file) => readSource(file).split('\n').length > 401);
  expect(long).toEqual([]);
});

test.each([
  ['stream/x.ts', `import { z } from '../wire/index.ts'`],
  ['errors.ts', `import type { JsonObject } from './json.ts'`],
  ['host/x.ts', `import { spawn } from 'node:child_process'`],
  ['host/x.ts', `import { z } from 'zod'`],
  ['host/x.ts', `const { z } = await import('zod')`],
  ['mcp/x.ts', `import { z } from 'zod/v4'`],
  ['mcp/x.ts', `export { z } from 'zod'`],
  ['wire/x.ts', `import { readFileSync } from 'node:fs'`],
  ['agent-cli/x.ts', `type S = import('../host/types.ts').Session`],
  ['mcp/json-rpc/http.ts', `import { startChild } from '../../process/index.ts'`],
  ['mcp/grpc/bridge.ts', `import { offerStdio } from '../json-rpc/stdio.ts'`],
  ['serve/x.ts', `import { main } from '../cli/duolane.ts'`],
  ['serve/x.ts', `import hello from '../../examples/hello.ts'`],
  ['trace/x.ts', `import leftPad from 'left-pad'`],
  ['host/x.ts', 'const addOn = await import(name)'],
  ['task/memory/memory-log.ts', `const sqlite = require('node:sqlite')`],
])('the rules refuse, in %s: %s', (file, source) => {
  expect(wrongIn(importsOf(file, source))).toHaveLength(1);
});

test.each([
  ['mcp/schema/compile-schema.ts', `const { z } = await import('zod')`],
  ['mcp/schema/compile-schema.ts', `import type { ZodType } from 'zod'`],
  ['mcp/json-rpc/stdio.ts', `import { startChild } from '../../process/index.ts'`],
  ['adapters/cli-agent.ts', `import { openSession } from '../host/index.ts'`],
  ['cli/agents/load-agent.ts', 'const agent = await import(pathToFileURL(path).href)'],
  ['process/child.ts', `import { spawn } from 'node:child_process'`],
  ['task/sqlite/sqlite-log.ts', `import { DatabaseSync } from '@photostructure/sqlite'`],
])('the rules allow, in %s: %s', (file, source) => {
  expect(wrongIn(importsOf(file, source))).toEqual([]);
});
