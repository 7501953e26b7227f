import type * as fs from 'node:fs/promises';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parseRule } from '../../permissions/permission-rules.ts';
import type { ToolRun } from '../types.ts';
import type { Workspace } from './workspace.ts';

/** Paths that cannot be opened. They are simulated, since root may open every file. */
const closed = new Set<string>();
vi.mock('node:fs/promises', async (importActual) => {
  const actual = await importActual<typeof fs>();
  const guard = (path: unknown): void => {
    const name = String(path).split('/').at(-1) ?? '';
    if (!closed.has(name)) return;
    throw Object.assign(new Error(`EACCES: ${name}`), { code: 'EACCES', syscall: 'open' });
  };
  return {
    ...actual,
    opendir: async (path: string) => {
      guard(path);
      return actual.opendir(path);
    },
    open: async (path: string, flags: number, mode: number) => {
      guard(path);
      return actual.open(path, flags, mode);
    },
  };
});

// Test files share their modules: one that has loaded these before would keep the real file system.
vi.resetModules();
const { globTool, grepTool } = await import('./search.ts');
afterAll(() => vi.resetModules());

let cwd: string;
let place: Workspace;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'duolane-search-'));
  place = {
    cwd,
    env: {},
    directories: () => [cwd],
    policy: () => ({ mode: 'default', allow: [], deny: [], ask: [] }),
  };
});
afterEach(async () => {
  closed.clear();
  await rm(cwd, { recursive: true, force: true });
});

const run = (signal = new AbortController().signal): ToolRun => ({
  id: 'x',
  signal,
  progress: () => {},
});
/** Takes longer than anybody waits: 2^60 ways to fail. */
const EVIL = { pattern: '^(a+)+$' };
const evilFile = (): Promise<void> => writeFile(join(cwd, 'a.txt'), `${'a'.repeat(60)}!`);

test('Glob and Grep skip folders and files that cannot be read, and report them', async () => {
  await mkdir(join(cwd, 'closed'));
  await writeFile(join(cwd, 'closed/in.txt'), 'needle');
  await writeFile(join(cwd, 'a.txt'), 'needle');
  await writeFile(join(cwd, 'vanished.txt'), 'needle');
  closed.add('closed').add('vanished.txt');
  const found = await grepTool(place).call({ pattern: 'needle' }, run());
  expect(found).toMatchObject({ isError: false });
  expect(found.content).toBe('a.txt:1:needle\n(2 files or folders could not be read)');
  const listed = await globTool(place).call({ pattern: '**' }, run());
  expect(listed.content).toBe('a.txt\nvanished.txt\n(1 files or folders could not be read)');
});

test('a missing root folder is an error', async () => {
  await expect(globTool(place).call({ pattern: '**', path: 'none' }, run())).rejects.toThrow(
    'ENOENT',
  );
});

test('a regular expression that backtracks ends at the timeout', async () => {
  await evilFile();
  const ended = await grepTool(place, { limitMs: 300 }).call(EVIL, run());
  expect(ended).toMatchObject({
    isError: true,
    content: expect.stringContaining('timed out after 300 ms'),
  });
});

test('a regular expression that backtracks ends on an abort', async () => {
  await evilFile();
  const controller = new AbortController();
  const ended = grepTool(place).call(EVIL, run(controller.signal));
  // Long enough that the thread is at it; if it is not, the test still holds.
  setTimeout(() => controller.abort(new Error('enough')), 500);
  await expect(ended).rejects.toThrow('enough');
});

test('the time of a path pattern is bounded', async () => {
  await writeFile(join(cwd, 'a'.repeat(200)), '');
  const listed = await globTool(place).call({ pattern: `${'**a'.repeat(60)}b` }, run());
  expect(listed.content).toBe('No files found');
  const folders = await globTool(place).call({ pattern: `${'**/'.repeat(60)}b` }, run());
  expect(folders.content).toBe('No files found');
  const choices = await globTool(place).call({ pattern: '{a,b}'.repeat(20) }, run());
  expect(choices).toMatchObject({ isError: true });
});

test.each([
  ['Grep', grepTool],
  ['Glob', globTool],
] as const)('a deny rule of %s applies to files below the searched folder', async (name, make) => {
  await mkdir(join(cwd, 'secret'));
  await writeFile(join(cwd, 'secret/in.txt'), 'needle');
  await writeFile(join(cwd, 'a.txt'), 'needle');
  const deny = [{ tool: name, content: 'secret/**' }];
  const guarded = { ...place, policy: () => ({ ...place.policy(), deny }) };
  const pattern = name === 'Grep' ? 'needle' : '**';
  const { content } = await make(guarded).call({ pattern }, run());
  expect(content).toContain('a.txt');
  expect(content).not.toContain('in.txt');
});

test('a link that changes after the permission does not move the rules of Read', async () => {
  for (const name of ['vault/secret', 'other']) await mkdir(join(cwd, name), { recursive: true });
  await writeFile(join(cwd, 'vault/secret/key.txt'), 'needle');
  await symlink('vault', join(cwd, 'link'));
  const guarded: Workspace = {
    ...place,
    policy: () => ({
      mode: 'default',
      allow: [],
      ask: [],
      deny: [parseRule('Read(vault/secret)')],
    }),
  };
  for (const tool of [grepTool(guarded), globTool(guarded)]) {
    const input = { pattern: tool.spec.name === 'Grep' ? 'needle' : '**', path: 'link' };
    const path = tool.facts(input).path?.real as string;
    await rm(join(cwd, 'link'));
    await symlink('other', join(cwd, 'link'));
    const found = await tool.call(input, { ...run(), path });
    expect(JSON.stringify(found)).not.toContain('key.txt');
    await rm(join(cwd, 'link'));
    await symlink('vault', join(cwd, 'link'));
  }
});
