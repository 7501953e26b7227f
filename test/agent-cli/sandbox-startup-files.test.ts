import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { suite } from '../verifies.ts';
import { RawHost, Workspace } from './workspace.ts';

/** Why the suite cannot run here, if it cannot. */
function missing(): string | undefined {
  if (process.platform !== 'linux') return 'the sandbox needs Linux';
  const args = ['--ro-bind', '/', '/', '--unshare-user', '--disable-userns', '--unshare-net'];
  const probe = spawnSync('bwrap', [...args, '--proc', '/proc', '--unshare-pid', 'true']);
  if (probe.error) return 'bwrap is not installed';
  return probe.status === 0 ? undefined : `bwrap cannot make namespaces: ${String(probe.stderr)}`;
}

/**
 * Not in a temporary folder: the sandbox empties those, so that nothing could be found out there.
 */
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url));
const BASE = /^(?:\/var)?\/tmp\//.test(CACHE) ? homedir() : CACHE;
async function openWorkspace(): Promise<Workspace> {
  await mkdir(BASE, { recursive: true });
  return Workspace.open({}, BASE);
}

/** Outside of a sandbox these commands do nothing and succeed, which fails the test. */
const GUARD = '[ "$(cat /proc/1/comm)" = bwrap ] || { echo "not in a sandbox"; exit 0; };';
const bash = (command: string): JsonObject => ({
  name: 'Bash',
  input: { command: `${GUARD} ${command}` },
});
const write = (file_path: string): JsonObject => ({
  name: 'Write',
  input: { file_path, content: 'evil' },
});

type Result = { text: string; failed: boolean };

/** Makes the calls one after the other in one session, and returns what each of them got. */
async function run(
  ws: Workspace,
  calls: readonly JsonObject[],
  sandbox: JsonObject = {},
  flags: readonly string[] = [],
): Promise<Result[]> {
  const answers = calls.map((call) => ({ tools: [call] }));
  const model = await ws.script([...answers, { text: 'done' }]);
  const settings = JSON.stringify({ sandbox: { enabled: true, ...sandbox } });
  const start = ['--tools=default', '--dangerously-skip-permissions', '--settings', settings];
  await using host = new RawHost(ws, [...start, ...flags, '--model', model]);
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'done' });
  return host.seen
    .filter(({ type }) => type === 'user')
    .flatMap(({ message }) => (message as { content: JsonObject[] }).content)
    .filter(({ type }) => type === 'tool_result')
    .map(({ content, is_error }) => ({ text: String(content), failed: is_error === true }));
}

/** Every one of these commands must fail. */
async function expectFailures(
  ws: Workspace,
  commands: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  const results = await run(ws, commands.map(bash), {}, flags);
  expect(results.map(({ failed }, i) => [commands[i], failed])).toEqual(
    commands.map((command) => [command, true]),
  );
}

const ENV = {
  PATH: process.env['PATH'] ?? '',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@b.c',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@b.c',
};

/** Git as the person uses it later, outside. What it would run by an escape writes `owned`. */
const git = (cwd: string, ...args: string[]): string =>
  execFileSync('git', args, { cwd, env: { ...ENV, HOME: cwd }, encoding: 'utf8' });

async function repository(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  git(folder, 'init', '-q', '-b', 'main');
  await writeFile(join(folder, 'a'), 'a');
  git(folder, 'add', 'a');
  git(folder, 'commit', '-qm', 'first');
}

const COMMIT = 'git -c user.name=a -c user.email=a@b.c commit -qm x';
/** A repository whose config makes `git status` run a command. */
const evilRepository = (folder: string, owned: string): string =>
  `git init -q ${folder} && git -C ${folder} config core.fsmonitor 'touch ${owned}; false'`;

suite('files that other programs run later', missing(), () => {
  test('startup files cannot be created, replaced or moved into place', async () => {
    await using ws = await openWorkspace();
    await writeFile(join(ws.cwd, '.envrc'), 'as it was');
    const names = ['.bashrc', '.profile', '.zshenv', '.gitconfig', '.mcp.json', '.envrc'];
    await expectFailures(ws, [
      ...names.map((name) => `echo evil > ${name}`),
      ...names.map((name) => `echo evil > x && mv -T x ${name}`),
      'ln -s .bashrc link && echo evil > link',
      'ln -sT evil .zshrc',
      'rmdir .bashrc',
      'mkdir -p .claude && echo {} > .claude/settings.local.json',
      'mkdir -p .vscode && echo {} > .vscode/tasks.json',
      'mkdir evil; mv -T evil .vscode',
      'mkdir -p .idea/runConfigurations',
    ]);
    expect((await readdir(ws.cwd)).toSorted()).toEqual(['.envrc', 'evil', 'link', 'x']);
    expect(await readFile(join(ws.cwd, '.envrc'), 'utf8')).toBe('as it was');
  });

  test('startup files are protected in every writable folder, and from the file tools', async () => {
    await using ws = await openWorkspace();
    const other = join(ws.root, 'other {a,b}');
    await mkdir(other);
    const results = await run(
      ws,
      [
        bash(`echo evil > '${other}/.bashrc'`),
        bash(`mkdir -p '${other}/.vscode/x'`),
        write(join(other, '.bashrc')),
        write(join(other, '.vscode/tasks.json')),
        write('.claude/settings.json'),
        write('sub/.git/config'),
        write('.git'),
      ],
      {},
      ['--add-dir', other],
    );
    expect(results.map(({ failed }) => failed)).toEqual(results.map(() => true));
    expect(await readdir(other)).toEqual([]);
    expect(await readdir(ws.cwd)).toEqual([]);
  });

  test('git runs nothing that a command added to its repository', async () => {
    await using ws = await openWorkspace();
    await repository(ws.cwd);
    const owned = join(ws.root, 'owned');
    await expectFailures(ws, [
      `git config core.fsmonitor 'touch ${owned}; false'`,
      `${evilRepository('evil', owned)} && echo ../evil/.git > .git/commondir`,
      'rm .git/commondir',
      'mv .git old && mkdir .git',
      'rm -rf .git/config && cp evil/.git/config .git/config',
      `printf '#!/bin/sh\\ntouch ${owned}\\n' > .git/hooks/pre-commit`,
      'ln -sfn ../evil .git/hooks',
    ]);
    git(ws.cwd, 'status');
    git(ws.cwd, 'commit', '-q', '--allow-empty', '-m', 'later');
    expect(existsSync(owned)).toBe(false);
    expect(existsSync(join(ws.cwd, '.git/commondir'))).toBe(false);
  });

  test('git runs nothing in a repository that a command created', async () => {
    await using ws = await openWorkspace();
    await repository(ws.cwd);
    const owned = join(ws.root, 'owned');
    const results = await run(ws, [
      // As a submodule: `git status` of the outer one looks into it.
      bash(
        `${evilRepository('sub', owned)} && (cd sub && git -c core.fsmonitor= -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && cd .. && git update-index --add --cacheinfo 160000,$(git -C sub -c core.fsmonitor= rev-parse HEAD),sub)`,
      ),
      // A bare one, another that hides in `.git`, and hooks.
      bash(`${evilRepository('--bare bare', owned).replace('-C --bare', '-C')}`),
      bash(
        `${evilRepository('x', owned)} && mv x/.git .git/x && echo 'gitdir: ../.git/x' > x/.git`,
      ),
      bash(`git init -q y && echo 'touch ${owned}' > y/.git/hooks/pre-commit`),
      bash('git init -q fine && cat fine/.git/config'),
      // A hard link that was made before the config was protected.
      bash('git init -q z && ln z/.git/config link'),
      bash(`printf '[core]\\n\\tfsmonitor = touch ${owned}; false\\n' > link`),
    ]);
    expect(results.map(({ text }) => text.includes('Renamed, because'))).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
      true,
    ]);
    expect(results[0]?.text).toContain(join(ws.cwd, 'sub/.git/config.blocked'));
    git(ws.cwd, 'status');
    for (const name of ['sub', 'x', 'y', 'z', 'bare'])
      spawnSync('git', ['status'], { cwd: join(ws.cwd, name), env: { ...ENV, HOME: ws.root } });
    expect(existsSync(owned)).toBe(false);
    expect(existsSync(join(ws.cwd, 'fine/.git/config'))).toBe(true);
  });

  test('nested repositories, submodules and worktrees are protected', async () => {
    await using ws = await openWorkspace();
    await repository(ws.cwd);
    await repository(join(ws.root, 'lib'));
    git(ws.cwd, '-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', '../lib', 'lib');
    git(ws.cwd, 'worktree', 'add', '-q', 'tree');
    await repository(join(ws.cwd, 'deep/er'));
    const owned = join(ws.root, 'owned');
    const evil = `core.fsmonitor 'touch ${owned}; false'`;
    await expectFailures(ws, [
      `git -C lib config ${evil}`,
      'echo evil > .git/modules/lib/config',
      'echo evil > .git/modules/lib/hooks/pre-commit',
      `git -C tree config ${evil}`,
      `git -C deep/er config ${evil}`,
      'mv deep/er/.git/config x',
      'echo evil > .gitmodules',
    ]);
    const [moved, committed, replaced] = await run(ws, [
      bash('mv deep deeper && git -C deeper/er log --oneline'),
      bash(`cd lib && echo x > x && git add x && ${COMMIT}`),
      bash(`mv deeper away && ${evilRepository('deeper/er', owned)}`),
    ]);
    expect([moved?.failed, committed?.failed, replaced?.failed]).toEqual([false, false, true]);
    for (const name of ['.', 'lib', 'tree', 'deeper/er', 'away/er'])
      spawnSync('git', ['status'], { cwd: join(ws.cwd, name), env: { ...ENV, HOME: ws.root } });
    expect(existsSync(owned)).toBe(false);
  });

  test('a worktree keeps the file that names its repository', async () => {
    await using ws = await openWorkspace();
    await repository(join(ws.root, 'main'));
    git(join(ws.root, 'main'), 'worktree', 'add', '-q', join(ws.cwd, 'tree'));
    const tree = join(ws.cwd, 'tree');
    const before = await readFile(join(tree, '.git'), 'utf8');
    await expectFailures(
      ws,
      [`echo 'gitdir: evil' > ${tree}/.git`, `rm ${tree}/.git`, `mv ${tree}/.git x`],
      ['--add-dir', tree],
    );
    expect(await readFile(join(tree, '.git'), 'utf8')).toBe(before);
  });

  test('hooks that the config of the repository names are closed', async () => {
    await using ws = await openWorkspace();
    await repository(ws.cwd);
    git(ws.cwd, 'config', 'core.hooksPath', 'tools/hooks');
    await expectFailures(ws, [
      'mkdir -p tools/hooks && echo evil > tools/hooks/pre-commit',
      'mv tools tools2',
    ]);
    expect(existsSync(join(ws.cwd, 'tools'))).toBe(false);
  });

  test('git works: commit, branch, merge, rebase, gc, and a project inside of a repository', async () => {
    await using ws = await openWorkspace();
    await repository(ws.cwd);
    await mkdir(join(ws.cwd, 'sub'));
    const identity =
      'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c;';
    const [work, inside] = await run(ws, [
      bash(
        `${identity} git checkout -q -b b && echo b > b && git add -A && git commit -qm b && git checkout -q main && echo c > c && git add -A && git commit -qm c && git rebase -q b && git merge -q b && git gc -q && git status --short && git ls-files | tr '\\n' ' '`,
      ),
      bash('cd sub && git rev-parse --show-toplevel'),
    ]);
    expect(work).toEqual({ text: 'a b c', failed: false });
    expect(inside).toEqual({ text: ws.cwd, failed: false });
    expect(git(ws.cwd, 'log', '--format=%s')).toBe('c\nb\nfirst\n');
    expect((await readdir(ws.cwd)).toSorted()).toEqual(['.git', 'a', 'b', 'c', 'sub']);
  });

  test('paths of filesystem.allowWrite are writable', async () => {
    await using ws = await openWorkspace();
    await mkdir(join(ws.cwd, '.vscode'));
    const results = await run(
      ws,
      [
        bash('echo {} > .vscode/settings.json'),
        bash('git init -q && git config core.fsmonitor true'),
        bash('git config core.editor vi'),
        bash('echo x > .bashrc'),
        write('.vscode/tasks.json'),
      ],
      { filesystem: { allowWrite: ['.vscode', '.git'] } },
    );
    expect(results.map(({ failed }) => failed)).toEqual([false, false, false, true, false]);
    expect((await readdir(ws.cwd)).toSorted()).toEqual(['.git', '.vscode']);
  });

  test('a protected file that is a link is refused with a fix', async () => {
    await using ws = await openWorkspace();
    await symlink('elsewhere', join(ws.cwd, '.vscode'));
    const settings = JSON.stringify({ sandbox: { enabled: true } });
    const model = await ws.script([{ text: 'x' }]);
    await using host = new RawHost(ws, ['--settings', settings, '--model', model]);
    const { code, stderr } = await host.transport.exited;
    expect(code).toBe(1);
    expect(stderr).toContain('cannot be protected, since it is a link');
    expect(await readdir(ws.cwd)).toEqual(['.vscode']);
  });

  test('a pipe in place of the config of the repository is refused without waiting', async () => {
    await using ws = await openWorkspace();
    execFileSync('git', ['init', '-q', ws.cwd]);
    await rm(join(ws.cwd, '.git/config'));
    execFileSync('mkfifo', [join(ws.cwd, '.git/config')]);
    const settings = JSON.stringify({ sandbox: { enabled: true } });
    const model = await ws.script([{ text: 'x' }]);
    await using host = new RawHost(ws, ['--settings', settings, '--model', model]);
    const { code, stderr } = await host.transport.exited;
    expect(code).toBe(1);
    expect(stderr).toContain('cannot be protected, since it is not a regular file');
  });
});
