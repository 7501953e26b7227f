import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { importsOf } from '../source.ts';
import { verifies } from '../verifies.ts';

const text = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

interface Layer {
  readonly layer: string;
  readonly file: string;
  readonly name: string;
  readonly tests: string;
}

/** The table of docs/guides/host.md, from the top layer to the lowest. */
const LAYERS: readonly Layer[] = text('docs/guides/host.md')
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
  .filter((cells) => /^src\/.*\.ts$/.test(cells[3] ?? ''))
  .map(([, layer = '', , file = '', name = '', tests = '']) => ({ layer, file, name, tests }));

/** All files that a file loads, directly or indirectly. */
function loadedBy(file: string, seen: Set<string> = new Set()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const { target, kind } of importsOf(file.replace(/^src\//, '')))
    if (target !== undefined && kind === 'static') loadedBy(`src/${target}`, seen);
  return seen;
}

verifies('S5', 'the module map names entry, session, router, parser and transport', () => {
  expect(LAYERS.map(({ layer }) => layer)).toEqual([
    'entry',
    'session',
    'message reader',
    'control router',
    'MCP bridge',
    'gate',
    'turns',
    'control machine',
    'message parser',
    'transport',
  ]);
  // The session loads neither the entry above it nor the bridge and the transport, which it is
  // given.
  const loaded = loadedBy('src/host/session/agent-session.ts');
  expect(LAYERS.filter(({ file }) => !loaded.has(file)).map(({ layer }) => layer)).toEqual([
    'entry',
    'MCP bridge',
    'transport',
  ]);
});

describe.each(LAYERS)('$layer', ({ layer, file, name, tests }) => {
  const index = LAYERS.findIndex((each) => each.file === file);

  verifies('S5', `${layer} loads nothing of the layers above it`, () => {
    const above = LAYERS.slice(0, index).map((each) => each.file);
    const loaded = loadedBy(file);
    expect(loaded).toContain(file);
    expect(above.filter((each) => loaded.has(each))).toEqual([]);
  });

  test(`has tests that use ${name} itself`, () => {
    expect(text(file)).toMatch(
      new RegExp(`export (?:async )?(?:class|function|const) ${name}\\b|class AgentSession\\b`),
    );
    expect(text(tests)).toMatch(new RegExp(`\\b${name}\\(|\\bplayedSession\\(`));
  });
});
