import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { exportsOf, sourceFiles } from '../source.ts';
import pinned from './doors.json' with { type: 'json' };

/**
 * The public surface: for each door of package.json, every name that it exports, types included.
 * A change here is a change for users: it belongs into CHANGELOG.md as well.
 */
const DOORS: Readonly<Record<string, readonly string[]>> = pinned;

/** Packages that a door may load on import. The others load nothing until they are used. */
const MAY_LOAD: Readonly<Record<string, readonly string[]>> = {
  './a2a/grpc': ['@bufbuild/protobuf'],
  './mcp/grpc': ['@bufbuild/protobuf'],
};

/** Doors that load the means to start a process; the host loads them with its first session. */
const MAY_SPAWN: readonly string[] = ['./adapters/acp', './mcp', './process'];

const { exports: entries } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { exports: Record<string, string> };
const doors = Object.keys(entries).filter((door) => door !== './package.json');

/** `./dist/stream/index.js` is made from `stream/index.ts`. */
function sourceOf(door: string): string {
  return entries[door]?.replace(/^\.\/dist\//, '').replace(/\.js$/, '.ts') ?? '';
}

// Prints the address of every module as it is loaded, CommonJS entry points included.
const HOOK = `
  import { writeSync } from 'node:fs';
  export async function load(url, context, next) { writeSync(1, url + '\\n'); return next(url, context); }
`;
const REGISTER = `
  import { register } from 'node:module';
  register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(HOOK)}`)});
`;

async function loadedBy(door: string): Promise<string[]> {
  const entry = new URL(`../../${entries[door] ?? ''}`, import.meta.url).href;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    `data:text/javascript,${encodeURIComponent(REGISTER)}`,
    '--input-type=module',
    '--eval',
    `await import(${JSON.stringify(entry)})`,
  ]);
  return stdout.split('\n');
}

test('every door of package.json is pinned, and no other', () => {
  expect(doors.filter((door) => door !== './host')).toEqual(Object.keys(DOORS));
});

test.each(doors)('the door %s is an index.ts', (door) => {
  expect(sourceFiles()).toContain(sourceOf(door));
  expect(sourceOf(door)).toMatch(/^([a-z0-9/-]+\/)?index\.ts$/);
});

test.each(Object.keys(DOORS))('the door %s exports exactly its pinned names', (door) => {
  expect(exportsOf(sourceOf(door))).toEqual(DOORS[door]?.toSorted());
});

test('the door ./host exports names of the main door only', () => {
  expect(exportsOf('host/index.ts').filter((name) => !DOORS['.']?.includes(name))).toEqual([]);
});

test.each(doors)('importing the door %s loads no package that it may not', async (door) => {
  const loaded = await loadedBy(door);
  expect(loaded).toContain(new URL(`../../${entries[door] ?? ''}`, import.meta.url).href);
  const packages = loaded.flatMap(
    (url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [],
  );
  const allowed = MAY_LOAD[door] ?? [];
  expect(packages.filter((name) => !allowed.includes(name))).toEqual([]);
  expect(loaded).not.toContain('node:sqlite');
  expect(loaded.includes('node:child_process')).toBe(MAY_SPAWN.includes(door));
});
