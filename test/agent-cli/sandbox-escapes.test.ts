import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
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

/** Makes the calls one after the other in one session, and returns what each of them got. */
async function run(
  ws: Workspace,
  calls: readonly JsonObject[],
  sandbox: JsonObject = {},
  flags: readonly string[] = [],
): Promise<{ text: string; failed: boolean }[]> {
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

suite('escape attempts', missing(), () => {
  test('a granted folder that is a link keeps the target of the time of the grant', async () => {
    await using ws = await openWorkspace();
    const [granted, victim] = [join(ws.root, 'granted'), join(ws.root, 'victim')];
    await Promise.all([mkdir(granted), mkdir(victim)]);
    const link = join(ws.cwd, 'link');
    await symlink(granted, link);
    const calls = [
      bash(`ln -sfn ${victim} link`),
      bash(`echo x > ${victim}/by-bash`),
      { name: 'Write', input: { file_path: join(victim, 'by-write'), content: 'x' } },
      bash(`echo x > ${granted}/by-bash`),
    ];
    // In this mode the directories do not hold Write, so a rule has to.
    const flags = ['--add-dir', link, '--disallowed-tools', `Write(${victim}/**)`];
    const results = await run(ws, calls, {}, flags);
    expect(results.map(({ failed }) => failed)).toEqual([false, true, true, false]);
    expect(await readdir(victim)).toEqual([]);
  });

  test('a parent of a writable folder cannot be replaced by a link', async () => {
    await using ws = await openWorkspace();
    const victim = join(ws.root, 'victim');
    await Promise.all([mkdir(victim), mkdir(join(ws.cwd, 'a/b'), { recursive: true })]);
    const filesystem = { allowWrite: ['a/b'] };
    const results = await run(
      ws,
      [
        bash(`mv a a2 && mkdir a && ln -s ${victim} a/b`),
        bash(`echo x > ${victim}/owned`),
        bash('echo x > a/b/fine'),
      ],
      { filesystem },
    );
    expect(results.map(({ failed }) => failed)).toEqual([true, true, false]);
    expect(await readdir(victim)).toEqual([]);
  });

  test('a folder that is later created as a link is not writable', async () => {
    await using ws = await openWorkspace();
    const victim = join(ws.root, 'victim');
    await mkdir(victim);
    const later = join(ws.cwd, 'later');
    await mkdir(later);
    const [made, first] = await run(
      ws,
      [bash(`rmdir later && ln -s ${victim} later`), bash(`echo x > ${victim}/owned`)],
      {},
      ['--add-dir', later],
    );
    expect([made?.failed, first?.failed]).toEqual([true, true]);
    expect(await readdir(victim)).toEqual([]);
  });

  test('denyRead of a link hides its first target, even if the link changes', async () => {
    await using ws = await openWorkspace();
    const vault = join(ws.root, 'vault');
    await mkdir(vault);
    await writeFile(join(vault, 'key'), 'SECRET');
    await symlink(vault, join(ws.cwd, 'secret'));
    const results = await run(
      ws,
      [
        bash('rm secret && ln -s /usr secret'),
        bash(`cat ${vault}/key`),
        { name: 'Read', input: { file_path: join(vault, 'key') } },
      ],
      { filesystem: { denyRead: ['secret'] } },
    );
    expect(results.slice(1).map(({ failed }) => failed)).toEqual([true, true]);
    expect(JSON.stringify(results)).not.toContain('SECRET');
  });

  test('denyWrite of a missing path that a command could create is refused', async () => {
    await using ws = await openWorkspace();
    const model = await ws.script([{ text: 'x' }]);
    const filesystem = { denyWrite: ['lock.json'] };
    const settings = JSON.stringify({ sandbox: { enabled: true, filesystem } });
    await using host = new RawHost(ws, ['--settings', settings, '--model', model]);
    const { code, stderr } = await host.transport.exited;
    expect(code).toBe(1);
    expect(stderr).toContain(`"${join(ws.cwd, 'lock.json')}" was not found; create it first`);
  });

  test('the file tools cannot write hooks and settings of any working directory', async () => {
    await using ws = await openWorkspace();
    const other = join(ws.root, 'other');
    await mkdir(join(other, '.git/hooks'), { recursive: true });
    await writeFile(join(other, '.git/config'), 'as it was');
    const write = (name: string): JsonObject => ({
      name: 'Write',
      input: { file_path: join(other, name), content: 'evil' },
    });
    const results = await run(
      ws,
      ['.git/hooks/pre-commit', '.git/config', '.git/commondir', '.envrc'].map(write),
      {},
      ['--add-dir', other],
    );
    expect(results.map(({ failed }) => failed)).toEqual([true, true, true, true]);
    expect(await readFile(join(other, '.git/config'), 'utf8')).toBe('as it was');
  });

  test('a host that replaces the deny rules does not open the closed paths', async () => {
    await using ws = await openWorkspace();
    await mkdir(join(ws.cwd, '.git/hooks'), { recursive: true });
    const write = (file_path: string): JsonObject => ({
      tools: [{ name: 'Write', input: { file_path, content: 'x' } }],
    });
    const model = await ws.script([
      write('a.txt'),
      write('.git/hooks/pre-commit'),
      { text: 'done' },
    ]);
    const settings = JSON.stringify({ sandbox: { enabled: true } });
    const flags = ['--tools=default', '--permission-prompt-tool=stdio', '--settings', settings];
    await using host = new RawHost(ws, [...flags, '--model', model]);
    host.respond('can_use_tool', () => ({
      behavior: 'allow',
      updatedPermissions: [
        { type: 'replaceRules', behavior: 'deny', rules: [], destination: 'session' },
      ],
    }));
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(await readdir(join(ws.cwd, '.git/hooks'))).toEqual([]);
  });

  test('memory file systems below /dev are closed or limited', async () => {
    await using ws = await openWorkspace();
    const [write, size] = await run(ws, [
      bash('echo x > /dev/file'),
      bash("df --output=size -k /dev/shm | tail -1 | tr -d ' '"),
    ]);
    expect(write).toMatchObject({ failed: true });
    expect(size?.text).toBe(String(1024 * 1024));
  });
});
