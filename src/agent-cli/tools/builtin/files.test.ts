import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { evaluatePolicy } from '../../permissions/permission-policy.ts';
import { parseRule } from '../../permissions/permission-rules.ts';
import type { AgentTool, ToolRun } from '../types.ts';
import { editTool, readTool, writeTool } from './files.ts';
import type { Workspace } from './workspace.ts';

let cwd: string;
let place: Workspace;
beforeEach(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), 'duolane-files-')));
  place = {
    cwd,
    env: {},
    directories: () => [cwd],
    policy: () => ({ mode: 'default', allow: [], deny: [], ask: [] }),
  };
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

const decided = (tool: AgentTool, file_path: string, deny: string): string =>
  evaluatePolicy(
    {
      tool: tool.spec.name,
      builtin: true,
      readOnly: tool.readOnly,
      ...tool.facts({ file_path }),
    },
    { mode: 'bypassPermissions', allow: [], ask: [], deny: [parseRule(deny)] },
  ).behavior;

test.each([
  ['Edit(secret/**)', writeTool],
  ['Write(secret/**)', editTool],
  // Whether a text occurs in a file says something about the file.
  ['Read(secret/**)', editTool],
])('a rule with a path applies to every tool with the same effect: %s', (rule, make) => {
  expect(decided(make(place), 'secret/a', rule)).toBe('deny');
  expect(decided(make(place), 'open/a', rule)).toBe('allow');
});

test.each([
  ['.git/config', 'ask'],
  ['.git/hooks/pre-commit', 'ask'],
  ['sub/.git', 'ask'],
  ['sub/.GIT/config', 'ask'],
  ['.g\u200cit/config', 'ask'],
  ['.claude/settings.json', 'ask'],
  ['.vscode/tasks.json', 'ask'],
  ['.hg/hgrc', 'ask'],
  ['.bashrc', 'ask'],
  ['.gitignore', 'allow'],
  ['.gemini/settings.json', 'ask'],
  ['sub/.codex/config.toml', 'ask'],
  ['.roo/mcp.json', 'ask'],
  ['.pre-commit-config.yaml', 'ask'],
  ['lefthook.yml', 'ask'],
  ['.github/workflows/test.yml', 'allow'],
  ['src/git/config', 'allow'],
])('the mode acceptEdits does not allow files that other programs run: %s', (path, expected) => {
  for (const tool of [writeTool(place), editTool(place)]) {
    const facts = tool.facts({ file_path: path });
    const call = { tool: tool.spec.name, builtin: true, readOnly: false, ...facts };
    const policy = { mode: 'acceptEdits', allow: [], ask: [], deny: [] } as const;
    expect(evaluatePolicy(call, policy).behavior).toBe(expected);
  }
});

test('a config in the home directory that names programs is not an ordinary file', () => {
  const tool = writeTool({ ...place, directories: () => [homedir()] });
  expect(tool.facts({ file_path: join(homedir(), '.claude.json') }).edit).toBe(false);
  expect(tool.facts({ file_path: join(homedir(), 'notes.json') }).edit).toBe(true);
});

test('a link to a file that other programs run does not hide it', async () => {
  await mkdir(join(cwd, '.git'));
  await symlink(join(cwd, '.git'), join(cwd, 'docs'));
  expect(writeTool(place).facts({ file_path: 'docs/config' }).edit).toBe(false);
});

test('a working directory inside such a folder is an ordinary one', async () => {
  const inner = join(cwd, '.claude', 'worktree');
  await mkdir(inner, { recursive: true });
  const tool = writeTool({ ...place, cwd: inner, directories: () => [inner] });
  expect(tool.facts({ file_path: 'a.ts' }).edit).toBe(true);
});

test('a rule without a pattern applies to its own tool only', () => {
  expect(decided(editTool(place), 'a', 'Write')).toBe('allow');
  expect(decided(writeTool(place), 'a', 'Edit')).toBe('allow');
});

test('a rule with ~ applies without HOME in the environment', () => {
  expect(decided(readTool(place), join(homedir(), '.ssh/id'), 'Read(~/.ssh)')).toBe('deny');
});

const run = (): ToolRun => ({ id: 'x', signal: new AbortController().signal, progress: () => {} });

test('Edit refuses a file that is not UTF-8, since writing it back would damage it', async () => {
  const file = join(cwd, 'latin1.txt');
  const bytes = Buffer.from('caf\xe9 = 1\n', 'latin1');
  await writeFile(file, bytes);
  const input = { file_path: file, old_string: '= 1', new_string: '= 2' };
  await expect(editTool(place).call(input, run())).rejects.toThrow('expected text in UTF-8');
  expect(await readFile(file)).toEqual(bytes);
});

test('Edit keeps a byte order mark', async () => {
  const file = join(cwd, 'bom.txt');
  await writeFile(file, '\uFEFFa = 1\n');
  await editTool(place).call({ file_path: file, old_string: '1', new_string: '2' }, run());
  expect(await readFile(file, 'utf8')).toBe('\uFEFFa = 2\n');
});

test.each([
  ['without a content', writeTool, { contents: 'new' }],
  ['with an object as content', writeTool, { content: { a: 1 } }],
  ['without a new text', editTool, { old_string: 'old' }],
  ['with a list as new text', editTool, { old_string: 'old', new_string: ['new'] }],
])('a call %s does not empty the file', async (_, make, input) => {
  await writeFile(join(cwd, 'a.json'), 'old');
  const made = await make(place).call({ file_path: 'a.json', ...input }, run());
  expect(made).toMatchObject({ isError: true });
  expect(String(made.content)).toContain('expected a text');
  expect(await readFile(join(cwd, 'a.json'), 'utf8')).toBe('old');
});
