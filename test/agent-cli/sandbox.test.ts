import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { survivors } from '../support/processes.ts';
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
const why = missing();

/**
 * Not in a temporary folder: the sandbox empties those, so that nothing could be found out there.
 */
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url));
const BASE = /^(?:\/var)?\/tmp\//.test(CACHE) ? homedir() : CACHE;
async function openWorkspace(): Promise<Workspace> {
  await mkdir(BASE, { recursive: true });
  return Workspace.open({}, BASE);
}

type Result = { text: string; failed: boolean };
const resultsOf = (host: RawHost): Result[] =>
  host.seen
    .filter(({ type }) => type === 'user')
    .flatMap(({ message }) => (message as { content: JsonObject[] }).content)
    .filter(({ type }) => type === 'tool_result')
    .map(({ content, is_error }) => ({ text: String(content), failed: is_error === true }));

const flagsFor = (sandbox: JsonObject): string[] => [
  '--tools=default',
  '--dangerously-skip-permissions',
  '--settings',
  JSON.stringify({ sandbox: { enabled: true, ...sandbox } }),
  '--model',
];

/**
 * What these commands try would do harm where no sandbox holds them, all the more as root: then
 * they are not tried, and succeed, which fails the test.
 */
const GUARD = '[ "$(cat /proc/1/comm)" = bwrap ] || { echo "not in a sandbox"; exit 0; };';

/** Runs commands in the sandbox, one call each. */
async function run(
  ws: Workspace,
  commands: readonly string[],
  sandbox: JsonObject = {},
  env: Record<string, string> = {},
): Promise<Result[]> {
  const calls = commands.map((command) => ({
    tools: [{ name: 'Bash', input: { command: `${GUARD} ${command}` } }],
  }));
  const model = await ws.script([...calls, { text: 'done' }]);
  await using host = new RawHost(ws, [...flagsFor(sandbox), model], env);
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'done' });
  return resultsOf(host);
}

/** Every one of these commands must fail. */
async function expectFailures(
  ws: Workspace,
  commands: readonly string[],
  sandbox: JsonObject = {},
): Promise<void> {
  const results = await run(ws, commands, sandbox);
  expect(results.map(({ failed }, i) => [commands[i], failed])).toEqual(
    commands.map((command) => [command, true]),
  );
}

suite('sandbox', why, () => {
  test('a command works in the working directory and in its own temporary folder', async () => {
    await using ws = await openWorkspace();
    const results = await run(ws, [
      'echo hi > a.txt && cat a.txt && mkdir -p b/c && mv a.txt b/c && cat b/c/a.txt',
      'echo $TMPDIR && echo x > /tmp/t && cat /tmp/t',
      'cat /tmp/t || echo gone',
      "node -e \"console.log(require('child_process').execSync('echo child') + '')\"",
      'exit 7',
    ]);
    expect(results.map(({ text }) => text)).toEqual([
      'hi\nhi',
      '/tmp\nx',
      expect.stringContaining('gone'),
      'child',
      '(exit code 7)',
    ]);
    expect(await readFile(join(ws.cwd, 'b/c/a.txt'), 'utf8')).toBe('hi\n');
  });

  test('nothing outside of the sandbox can be written', async () => {
    await using ws = await openWorkspace();
    const out = join(ws.root, 'out.txt');
    await writeFile(join(ws.root, 'there.txt'), 'as it was');
    await symlink(ws.root, join(ws.cwd, 'up'));
    await symlink(join(ws.root, 'there.txt'), join(ws.cwd, 'link.txt'));
    await expectFailures(ws, [
      `echo x > ${out}`,
      'echo x > ../out.txt',
      'echo x > up/out.txt',
      'echo x > link.txt',
      'echo x > up/there.txt',
      `ln ${join(ws.root, 'there.txt')} hard.txt && echo x > hard.txt`,
      'touch /etc/x',
      'touch /usr/bin/x',
      'touch ~/x',
      'echo x > /proc/sys/kernel/hostname',
      'echo h > /proc/sysrq-trigger',
      'echo x > /sys/kernel/mm/ksm/run',
      `rm ${join(ws.root, 'there.txt')}`,
      `mv ${ws.cwd} ${ws.cwd}2`,
    ]);
    expect(existsSync(out)).toBe(false);
    expect(await readFile(join(ws.root, 'there.txt'), 'utf8')).toBe('as it was');
  });

  test('mounts and namespaces cannot be changed', async () => {
    await using ws = await openWorkspace();
    await expectFailures(ws, [
      'mount -o remount,rw /',
      'mount -t tmpfs none /mnt',
      'umount /tmp',
      'unshare -r true',
      'unshare -rm sh -c "mount -t tmpfs none /mnt"',
      'nsenter -t 1 -m true',
      'chroot / true',
      'mknod dev c 1 3',
      'bwrap --ro-bind / / true',
    ]);
  });

  test('a command has neither network nor sockets of this machine', async () => {
    await using ws = await openWorkspace();
    const served: string[] = [];
    const listen = async (where: number | string): Promise<number> => {
      const server = createServer((socket) => {
        served.push(String(where));
        socket.end('reached');
      });
      onTestFinished(() => void server.close());
      await new Promise<void>((resolve) => server.listen(where, resolve));
      const address = server.address();
      return typeof address === 'object' ? (address?.port ?? 0) : 0;
    };
    const port = await listen(0);
    await listen(join(ws.cwd, 'service.sock'));
    await listen(join(ws.root, 'service.sock'));
    const connect = (target: string): string =>
      `node -e "require('net').connect(${target}).on('data', (d) => { console.log(d + ''); process.exit(0) }).on('error', (e) => { console.log(e.code); process.exit(1) })"`;
    const sockets = [
      connect(`${port}, '127.0.0.1'`),
      connect(`'service.sock'`),
      connect(`'${join(ws.root, 'service.sock')}'`),
    ];
    await expectFailures(ws, [...sockets, 'ls /run/* /var/run/* | grep .']);
    expect(served).toEqual([]);
    const [tcp, unix] = await run(ws, sockets, { network: { allowedDomains: ['*'] } });
    expect(tcp).toEqual({ text: 'reached', failed: false });
    expect(unix).toMatchObject({ failed: true });
  });

  test('other processes cannot be seen, read, traced or killed', async () => {
    await using ws = await openWorkspace();
    const other = spawn('sleep', ['300'], { env: { CANARY: 'canary-env' }, stdio: 'ignore' });
    onTestFinished(() => void other.kill('SIGKILL'));
    const pid = String(other.pid);
    await expectFailures(ws, [
      `cat /proc/${pid}/environ`,
      `kill -9 ${pid}`,
      'grep -l canary-env /proc/[0-9]*/environ',
      `ls /proc/${pid}`,
      'strace true',
      'ps ax | grep -v grep | grep main.js',
    ]);
    expect(other.exitCode).toBeNull();
  });

  test('a daemon by double fork ends with the call, even with an empty environment', async () => {
    await using ws = await openWorkspace();
    // Its number inside is not ours: it says who it is by a name that only it has.
    const name = `sleep 300.${process.pid}${Date.now() % 100_000}`;
    const [started] = await run(ws, [
      `(setsid env -i sh -c '(exec ${name}) & echo started > up' >/dev/null 2>&1 &); while [ ! -s up ]; do sleep 0.05; done; cat up`,
    ]);
    expect(started?.text).toBe('started');
    const pids = spawnSync('pgrep', ['-f', name]).stdout.toString().split('\n').filter(Boolean);
    expect(await survivors(pids.map(Number), 10_000)).toEqual([]);
  });

  test('secrets in files and in the environment are hidden', async () => {
    const SECRET = 'canary-secret';
    await using ws = await openWorkspace();
    await mkdir(join(ws.root, '.ssh'));
    await writeFile(join(ws.root, '.ssh/id'), SECRET);
    for (const name of ['.netrc', '.pgpass', '.bash_history'])
      await writeFile(join(ws.root, name), SECRET);
    await writeFile(join(ws.root, 'private.txt'), SECRET);
    await mkdir(ws.config, { recursive: true });
    await writeFile(join(ws.config, 'credentials.json'), SECRET);
    await mkdir(join(ws.cwd, 'vault'));
    await writeFile(join(ws.cwd, 'vault/key'), SECRET);
    const results = await run(
      ws,
      [
        'cat ~/.ssh/id',
        'cat ~/.netrc ~/.pgpass ~/.bash_history',
        `cat ${ws.config}/credentials.json`,
        `cat ${ws.config}/projects/*/*.jsonl`,
        'cat ../private.txt',
        'cat vault/key',
        'mv vault vault2; cat vault2/key',
        'env; cat /proc/self/environ /proc/1/environ',
        'cat /etc/shadow',
        `grep -rs canary-s[e]cret ${ws.root}`,
      ],
      { filesystem: { denyRead: ['../private.txt', 'vault'] } },
      { OPENAI_API_KEY: SECRET, SOME_TOKEN: SECRET },
    );
    expect(results.map(({ text }) => text).join('\n')).not.toContain(SECRET);
    expect(results.map(({ failed }) => failed)).toEqual(
      results.map((_, i) => i !== 7), // only the environment can be looked at
    );
    // The file tools of the CLI keep the same paths closed.
    const model = await ws.script([
      { tools: [{ name: 'Read', input: { file_path: 'vault/key' } }] },
      { tools: [{ name: 'Read', input: { file_path: join(ws.root, '.ssh/id') } }] },
      { tools: [{ name: 'Grep', input: { pattern: 'canary' } }] },
      { text: 'done' },
    ]);
    await using host = new RawHost(ws, [
      ...flagsFor({ filesystem: { denyRead: ['vault'] } }),
      model,
    ]);
    host.prompt('go');
    await host.result();
    expect(resultsOf(host).map(({ failed }) => failed)).toEqual([true, true, false]);
    expect(JSON.stringify(resultsOf(host))).not.toContain('vault/key:1');
  });

  test('hooks and settings of a project cannot be written or replaced', async () => {
    await using ws = await openWorkspace();
    execFileSync('git', ['init', '-q', '-b', 'main'], { cwd: ws.cwd });
    await writeFile(join(ws.cwd, '.mcp.json'), '{}');
    await mkdir(join(ws.cwd, 'src'));
    await writeFile(join(ws.cwd, 'src/kept.txt'), 'kept');
    const commands = [
      'echo evil > .git/hooks/pre-commit',
      'rm -rf .git/hooks && mkdir .git/hooks',
      'mv .git/hooks .git/old',
      'mv .git .git2',
      'rm -rf .git',
      'git config core.hooksPath evil',
      'echo evil > .git/config',
      'echo evil > .mcp.json',
      'rm .mcp.json',
      'echo evil > src/kept.txt',
      'mv src src2',
    ];
    await expectFailures(ws, commands, { filesystem: { denyWrite: ['src/kept.txt'] } });
    expect(existsSync(join(ws.cwd, '.git/hooks/pre-commit'))).toBe(false);
    expect(await readFile(join(ws.cwd, '.git/config'), 'utf8')).not.toContain('evil');
    expect(await readFile(join(ws.cwd, 'src/kept.txt'), 'utf8')).toBe('kept');
    const write = { name: 'Write', input: { file_path: '.git/hooks/pre-commit', content: 'evil' } };
    const model = await ws.script([{ tools: [write] }, { text: 'done' }]);
    await using host = new RawHost(ws, [...flagsFor({}), model]);
    host.prompt('go');
    await host.result();
    expect(resultsOf(host)).toMatchObject([{ failed: true }]);
    expect(existsSync(join(ws.cwd, '.git/hooks/pre-commit'))).toBe(false);
  });

  test('a program called bwrap in the working directory is not used', async () => {
    await using ws = await openWorkspace();
    await mkdir(join(ws.cwd, 'bin'));
    const path = `${join(ws.cwd, 'bin')}:.:${process.env['PATH'] ?? ''}`;
    const fake = '#!/bin/sh\ntouch ../escaped\n';
    const plant = `printf '%s' '${fake}' > bin/bwrap; cp bin/bwrap bwrap; chmod +x bin/bwrap bwrap`;
    const results = await run(ws, [plant, 'echo still in'], {}, { PATH: path });
    expect(results[1]).toEqual({ text: 'still in', failed: false });
    const again = await run(ws, ['echo still in'], {}, { PATH: path });
    expect(again[0]).toEqual({ text: 'still in', failed: false });
    expect(existsSync(join(ws.root, 'escaped'))).toBe(false);
  });

  test('git still commits', async () => {
    await using ws = await openWorkspace();
    execFileSync('git', ['init', '-q', '-b', 'main'], { cwd: ws.cwd });
    const [done] = await run(ws, [
      'echo x > a && git add a && git -c user.name=a -c user.email=a@b.c commit -qm x && git log --oneline',
    ]);
    expect(done).toMatchObject({ failed: false, text: expect.stringContaining(' x') });
  });

  test('a command runs without a permission only if the settings allow it', async () => {
    await using ws = await openWorkspace();
    const bash = (command: string): JsonObject => ({
      tools: [{ name: 'Bash', input: { command } }],
    });
    const model = await ws.script([bash('echo in'), bash('git --version'), { text: 'done' }]);
    const settings = (sandbox: JsonObject): string =>
      JSON.stringify({ sandbox: { enabled: true, excludedCommands: ['git *'], ...sandbox } });
    const flags = [
      '--tools=Bash',
      '--permission-prompt-tool=stdio',
      '--model',
      model,
      '--settings',
    ];
    const asked: unknown[] = [];
    for (const sandbox of [{}, { autoAllowBashIfSandboxed: true }]) {
      await using host = new RawHost(ws, [...flags, settings(sandbox)]);
      host.respond('can_use_tool', ({ input }) => {
        asked.push((input as JsonObject)['command']);
        return { behavior: 'deny', message: 'no' };
      });
      host.prompt('go');
      await host.result();
    }
    expect(asked).toEqual(['echo in', 'git --version', 'git --version']);
  });

  test('the settings cannot be changed from inside', async () => {
    await using ws = await openWorkspace();
    const model = await ws.script([{ text: 'x' }]);
    await using host = new RawHost(ws, [...flagsFor({}), model]);
    host.request('s', 'apply_flag_settings', { settings: { sandbox: { enabled: false } } });
    expect(await host.answered('s')).toMatchObject({ subtype: 'error' });
  });
});

test('without bubblewrap nothing runs, and an error says why', async () => {
  await using ws = await openWorkspace();
  const marker = join(ws.root, 'ran');
  const fake = join(ws.root, 'bin');
  await mkdir(fake);
  const model = await ws.script([
    { tools: [{ name: 'Bash', input: { command: `touch ${marker}` } }] },
    { text: 'done' },
  ]);
  for (const bwrap of [
    undefined,
    '#!/bin/sh\necho "No permissions to create a namespace" >&2; exit 1\n',
  ]) {
    if (bwrap !== undefined) {
      await writeFile(join(fake, 'bwrap'), bwrap);
      await chmod(join(fake, 'bwrap'), 0o755);
    }
    await using host = new RawHost(ws, [...flagsFor({}), model], { PATH: fake });
    host.prompt('go');
    const { code, stderr } = await host.transport.exited;
    expect(code).toBe(1);
    expect(stderr).toContain('cannot run commands in the sandbox of the settings: b');
  }
  expect(existsSync(marker)).toBe(false);
});

test('a sandbox setting that cannot be enforced is refused by name', async () => {
  await using ws = await openWorkspace();
  const model = await ws.script([{ text: 'x' }]);
  const sandbox = { network: { allowedDomains: ['example.com'] } };
  await using host = new RawHost(ws, [...flagsFor(sandbox), model]);
  const { code, stderr } = await host.transport.exited;
  expect(code).toBe(1);
  expect(stderr).toContain('"sandbox.network.allowedDomains" is not supported');
});
