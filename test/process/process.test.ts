import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import {
  buildEnv,
  spawnProcess,
  type ProcessOptions,
  type ProcessTransport,
} from '../../src/process/index.ts';
import { childrenOf } from '../kill-matrix/child-processes.ts';
import { LineHost } from '../support/json-lines.ts';
import { isAlive, survivors, tidy } from '../support/processes.ts';
import { prompt, stub } from '../support/stub-cli.ts';
import { noWindows, suite, testIf, verifies } from '../verifies.ts';

const env = buildEnv();
const node = (code: string, options: Partial<ProcessOptions> = {}): ProcessTransport =>
  spawnProcess({ command: process.execPath, args: ['-e', code], env, ...options });

const SLEEPER = [process.execPath, '-e', 'setInterval(() => {}, 1000)'];
const DEAF = [
  process.execPath,
  '-e',
  "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)",
];

/** The pids that the stub said after `spawn` steps. */
function said(host: LineHost): number[] {
  const pids = host.seen.flatMap((line) => /"text":"(\d+)"/.exec(line)?.[1] ?? []).map(Number);
  tidy(pids);
  return pids;
}

describe('a start that fails', () => {
  const cases: [string, Partial<ProcessOptions>, string, RegExp][] = [
    ['an unknown name', { command: 'no-such-program' }, 'not_found', /no-such-program.*PATH=/],
    ['a missing file', { command: '/no/such/program' }, 'not_found', /\/no\/such\/program/],
    ['a missing script', { command: './no/such.mjs' }, 'not_found', /no\/such\.mjs/],
    ['a missing cwd', { cwd: '/no/such/place' }, 'not_found', /cwd "\/no\/such\/place" not found/],
    ['a cwd that is a file', { cwd: process.execPath }, 'invalid', /expected a directory/],
    ['a directory as command', { command: '/' }, 'invalid', /cannot execute "\/"/],
    ['a zero byte in an argument', { args: ['a\0b'] }, 'invalid', /null bytes/],
  ];
  for (const [name, options, code, text] of cases) {
    verifies('S13', `${name} is reported immediately, with a hint`, async () => {
      await using peer = spawnProcess({ command: 'node', args: [], env, ...options });
      const { startError, ...exit } = await peer.exited;
      expect(startError).toMatchObject({ code, message: expect.stringMatching(text) });
      expect(exit).toEqual({ code: null, stderr: '' });
      expect(peer.pid).toBeUndefined();
      expect(() => peer.write('x')).toThrow(DuolaneError);
      for await (const chunk of peer.output) expect(chunk).toBeUndefined();
    });
  }

  test('a file without execute permission, and one whose interpreter is missing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'duolane-'));
    const file = join(folder, 'tool');
    writeFileSync(file, '#!/no/such/interpreter\n');
    chmodSync(file, 0o644);
    const refused = await spawnProcess({ command: file, args: [], env }).exited;
    chmodSync(file, 0o755);
    const missing = await spawnProcess({ command: file, args: [], env }).exited;
    rmSync(folder, { recursive: true });
    expect(refused.startError?.message).toContain('chmod +x');
    expect(missing.startError?.message).toContain('interpreter');
  });
});

verifies(
  'S4',
  'the transport passes arguments and environment on unchanged, without a prompt',
  async () => {
    const print = 'console.log(JSON.stringify([process.argv.slice(1), process.env]))';
    const args = ['-e', print, '--', '--a=b c', '', '"quoted"'];
    await using peer = spawnProcess({
      command: process.execPath,
      args,
      env: { 'odd-name.x': 'kept', EMPTY: '' },
    });
    const host = new LineHost(peer);
    expect(JSON.parse((await host.line()) ?? '')).toEqual([
      ['--a=b c', '', '"quoted"'],
      { 'odd-name.x': 'kept', EMPTY: '' },
    ]);
  },
);

describe('pipes', () => {
  test('a child echoes writes, and end of input ends it', async () => {
    await using peer = spawnProcess({ command: 'cat', args: [], env });
    peer.write('grüß ');
    peer.write('dich\n');
    peer.endInput();
    peer.endInput();
    const chunks: Uint8Array[] = [];
    for await (const chunk of peer.output) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe('grüß dich\n');
    expect(await peer.exited).toEqual({ code: 0, stderr: '' });
  });

  verifies('S13', 'exit codes and signals are reported with the last stderr', async () => {
    const exits = await Promise.all([
      node("process.stderr.write('why'); process.exitCode = 7").exited,
      node("process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000)").exited,
    ]);
    expect(exits).toEqual([
      { code: 7, stderr: 'why' },
      { code: null, signal: 'SIGKILL', stderr: '' },
    ]);
  });

  test('after the exit of the child, writes and pending drains fail with `closed`', async () => {
    await using peer = spawnProcess(stub('stop-reading'));
    while (peer.write('x'.repeat(100_000)));
    const waiting = [peer.drained(), peer.drained(), peer.drained()];
    process.kill(peer.pid!, 'SIGKILL');
    for (const wait of waiting) await expect(wait).rejects.toMatchObject({ code: 'closed' });
    await peer.exited;
    expect(() => peer.write('x')).toThrow(expect.objectContaining({ code: 'closed' }));
    await expect(peer.drained()).rejects.toMatchObject({ code: 'closed' });
  });

  test('after the child closed its stdin, writes fail with `closed` instead of a crash', async () => {
    const code = "require('fs').closeSync(0); console.log('x'); setInterval(() => {}, 1000)";
    await using peer = node(code, { graceMs: 50 });
    const reader = peer.output[Symbol.asyncIterator]();
    await reader.next();
    peer.write('into the void');
    await expect
      .poll(() => {
        try {
          return peer.write('again');
        } catch (error) {
          return error;
        }
      })
      .toMatchObject({ code: 'closed' });
  });

  test('drained resolves when the child reads again', async () => {
    await using peer = node('setTimeout(() => process.stdin.resume(), 100)');
    while (peer.write('x'.repeat(100_000)));
    await peer.drained();
    expect(peer.write('more')).toBe(true);
    peer.endInput();
    expect(await peer.exited).toMatchObject({ code: 0 });
  });

  test('a slow reader pauses the child, and then gets every byte', async () => {
    const total = 20_000_000;
    let done = false;
    await using peer = node(
      `process.stdout.write('x'.repeat(${total}), () => process.stderr.write('done'))`,
      { onStderr: () => (done = true) },
    );
    const reader = peer.output[Symbol.asyncIterator]();
    const first = await reader.next();
    await sleep(300);
    expect(done).toBe(false);
    let bytes: number = first.value?.length ?? 0;
    for (let next = await reader.next(); !next.done; next = await reader.next()) {
      bytes += next.value.length;
    }
    expect(bytes).toBe(total);
    expect(await peer.exited).toEqual({ code: 0, stderr: 'done' });
  });

  test('the last 64 KiB of a large stderr are kept, and onStderr gets all of it', async () => {
    let tapped = 0;
    await using peer = node(
      "for (let i = 0; i < 2000; i++) process.stderr.write('é'.repeat(5000)); process.stderr.write('end')",
      { onStderr: (text) => (tapped += text.length) },
    );
    const { stderr } = await peer.exited;
    expect(tapped).toBe(2000 * 5000 + 3);
    expect(Buffer.byteLength(stderr)).toBeLessThanOrEqual(64 * 1024);
    expect(Buffer.byteLength(stderr)).toBeGreaterThan(64 * 1024 - 4);
    expect(stderr).toMatch(/^é+end$/);
  });

  test('the output ends although a process outside of the group has the pipe open', async () => {
    await using peer = spawnProcess(stub());
    const host = new LineHost(peer);
    host.prompt(
      prompt({ spawn: SLEEPER, detached: true }, { say: 'bye' }, { result: true }, { exit: 0 }),
    );
    await host.rest();
    expect(said(host).filter(isAlive)).toHaveLength(1);
    expect(host.seen.at(-1)).toContain('"result":"bye"');
    expect(await peer.exited).toMatchObject({ code: 0 });
  });

  test('output and stderr end although a process outside of the group still writes', async () => {
    const held = `
      for (const pipe of [process.stdout, process.stderr]) pipe.on('error', () => process.exit());
      setInterval(() => { process.stdout.write('noise'); process.stderr.write('noise'); }, 20);`;
    await using peer = node(`
      const { spawn } = require('node:child_process');
      const args = ['-e', ${JSON.stringify(held)}];
      const other = spawn(process.execPath, args, { stdio: 'inherit', detached: true, env: {} });
      process.stdout.write(String(other.pid) + ' ', () => process.exit(0));
    `);
    let text = '';
    for await (const chunk of peer.output) text += Buffer.from(chunk).toString();
    tidy([Number.parseInt(text, 10)]);
    expect(await peer.exited).toMatchObject({ code: 0 });
  });
});

describe('the end', () => {
  const limits = { graceMs: 100, killMs: 100 };

  verifies('S116', 'dispose lets a child exit on its own', async () => {
    const peer = spawnProcess(stub());
    await peer[Symbol.asyncDispose]();
    await peer[Symbol.asyncDispose]();
    expect(await peer.exited).toEqual({ code: 0, stderr: '' });
  });

  verifies('S116', 'dispose sends SIGTERM to a child that ignores end of file', async () => {
    const peer = spawnProcess({ ...stub('ignore-eof'), ...limits, killMs: 20_000 });
    const host = new LineHost(peer);
    host.prompt('hi');
    await host.until({ type: 'result' });
    await peer[Symbol.asyncDispose]();
    expect(await peer.exited).toMatchObject({ signal: 'SIGTERM' });
  });

  verifies(
    'S116',
    'dispose kills a child that ignores signals, with its complete tree, in bounded time',
    async () => {
      const peer = spawnProcess({ ...stub('ignore-all'), ...limits });
      const host = new LineHost(peer);
      host.prompt(prompt({ spawn: DEAF }, { spawn: DEAF, detached: true }));
      await host.until({ type: 'result' });
      const tree = said(host);
      expect(tree.filter(isAlive)).toHaveLength(2);
      await peer[Symbol.asyncDispose]();
      expect(await peer.exited).toMatchObject({ signal: 'SIGKILL' });
      expect([peer.pid!, ...tree].filter(isAlive)).toEqual([]);
    },
  );

  verifies('S116', 'a grandchild that outlives the child is killed', async () => {
    await using peer = spawnProcess({ ...stub(), ...limits });
    const host = new LineHost(peer);
    host.prompt(prompt({ spawn: DEAF }));
    await host.until({ type: 'result' });
    peer.endInput();
    expect(await peer.exited).toMatchObject({ code: 0 });
    expect(await survivors(said(host), 5000)).toEqual([]);
  });

  test('a child whose output is not read can still exit on its own', async () => {
    let started = (): void => {};
    const flooding = new Promise<void>((resolve) => (started = resolve));
    const peer = spawnProcess({ ...stub(), graceMs: 20_000, onStderr: () => started() });
    const content = prompt({ stderr: 'go' }, { flood: { count: 20_000, bytes: 500 } });
    peer.write(`${JSON.stringify({ type: 'user', message: { role: 'user', content } })}\n`);
    await flooding;
    await peer[Symbol.asyncDispose]();
    expect(await peer.exited).toMatchObject({ code: 0 });
  });

  test('100 children at the same time: one exit hook, no warning, all exited', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error): number => warnings.push(warning);
    process.on('warning', warn);
    const before = process.listenerCount('exit');
    const peers = Array.from({ length: 100 }, () =>
      spawnProcess({ command: 'cat', args: [], env, ...limits }),
    );
    expect(process.listenerCount('exit')).toBe(before + 1);
    await Promise.all(peers.map((peer) => peer[Symbol.asyncDispose]()));
    await new Promise(setImmediate);
    process.off('warning', warn);
    expect(process.listenerCount('exit')).toBe(before);
    expect(warnings).toEqual([]);
    expect(peers.map(({ pid }) => pid!).filter(isAlive)).toEqual([]);
  });
});

suite('an exit of the host', noWindows, () => {
  const HOST = fileURLToPath(new URL('../fixtures/process-host.ts', import.meta.url));

  async function hostWithTree(mode: string) {
    const host = spawn(process.execPath, ['--import', 'tsx', HOST, mode], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(host, 'exit');
    const lines = createInterface({ input: host.stdout });
    const [line] = (await once(lines, 'line')) as [string];
    const tree = JSON.parse(line) as number[];
    tidy([host.pid!, ...tree]);
    return { host, exited, tree };
  }

  verifies('S116', 'kill -9 of the host also ends a tree that ignores signals', async () => {
    const { host, exited, tree } = await hostWithTree('wait');
    expect(tree.filter(isAlive)).toHaveLength(3);
    host.kill('SIGKILL');
    await exited;
    expect(await survivors(tree, 3000)).toEqual([]);
  });

  test('kill -9 of the host kills its children without a signal that they handle', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'duolane-killed-')), 'said');
    const host = spawn(process.execPath, ['--import', 'tsx', HOST, 'handler', file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: host.stdout }), 'line')) as [string];
    const tree = JSON.parse(line) as number[];
    tidy([host.pid!, ...tree]);
    host.kill('SIGKILL');
    await once(host, 'exit');
    expect(await survivors(tree, 3000)).toEqual([]);
    expect(readFileSync(file, 'utf8')).toBe('started');
    rmSync(dirname(file), { recursive: true });
  });

  testIf(
    process.platform === 'linux' ? undefined : 'the shells are found through /proc',
    'with holdInput, a child whose host was killed does not read end of file before it is killed',
    async () => {
      const file = join(mkdtempSync(join(tmpdir(), 'duolane-held-')), 'said');
      const host = spawn(process.execPath, ['--import', 'tsx', HOST, 'held', file], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [line] = (await once(createInterface({ input: host.stdout }), 'line')) as [string];
      const tree = JSON.parse(line) as number[];
      const isWatchdog = (pid: number): boolean =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('strike KILL');
      const [watchdog] = childrenOf(host.pid!).filter(isWatchdog) as [number];
      tidy([host.pid!, ...tree, watchdog]);
      process.kill(watchdog, 'SIGSTOP'); // as on a machine that is too busy to run it
      host.kill('SIGKILL');
      await once(host, 'exit');
      const written = (): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');
      const before = written().length;
      await expect.poll(() => written().length).toBeGreaterThan(before + 3);
      process.kill(watchdog, 'SIGCONT');
      expect(await survivors(tree, 3000)).toEqual([]);
      expect(written()).toMatch(/^\.+$/);
      rmSync(dirname(file), { recursive: true });
    },
  );

  test('with holdInput, a child reads the end of its input', async () => {
    const code = "process.stdin.on('end', () => process.exit(7)).resume()";
    await using child = node(code, { holdInput: true });
    child.endInput();
    expect(await child.exited).toMatchObject({ code: 7 });
  });

  test('SIGTERM has its usual effect on the host, and no process remains', async () => {
    const { host, exited, tree } = await hostWithTree('wait');
    host.kill('SIGTERM');
    expect(await exited).toEqual([null, 'SIGTERM']);
    expect(await survivors(tree, 3000)).toEqual([]);
  });

  test.each(['exit', 'exit-during-dispose'])('%s leaves no process', async (mode) => {
    const { exited, tree } = await hostWithTree(mode);
    expect(await exited).toEqual([0, null]);
    expect(await survivors(tree, 3000)).toEqual([]);
  });
});
