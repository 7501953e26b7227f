import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, readFile } from 'node:fs/promises';
import { wrap } from '../../src/cli/commands/wrap.ts';
import { openTerminal } from '../../src/cli/terminal/terminal.ts';
import { DuolaneError } from '../../src/errors.ts';
import { checkTrace, readTrace } from '../../src/trace/index.ts';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { official, options, readAll, resultOf, said, server } from '../agent-cli/drivers.ts';
import { AGENT, Workspace } from '../agent-cli/workspace.ts';
import { STUB_CLI } from '../support/stub-cli.ts';
import { survivors } from '../support/processes.ts';
import { noWindows, testIf } from '../verifies.ts';
import type { Frame } from '../../src/event/types.ts';
import { suite, verifies } from '../verifies.ts';
import { COMMAND, expectNoStack, Place } from './support.ts';

const { reason, sdk } = official;

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

const user = (content: unknown): string =>
  `${JSON.stringify({ type: 'user', message: { role: 'user', content } })}\n`;

async function frames(file: string): Promise<Frame[]> {
  const [header, ...lines] = (await readFile(file, 'utf8')).trimEnd().split('\n');
  expect(JSON.parse(header ?? '')).toMatchObject({ format: 'duolane-trace', version: 1 });
  return lines.map((line) => JSON.parse(line) as Frame);
}

const ECHO = `process.stdin.pipe(process.stdout)`;

test('passes bytes as they are, both ways, whatever they are', async () => {
  const bytes = randomBytes(3_000_000); // no UTF-8, no lines, more than any pipe holds
  const wrapped = place.start(['wrap', '--trace', 'x.jsonl', '--', process.execPath, '-e', ECHO]);
  const hash = createHash('sha256');
  wrapped.child.stdout
    ?.setEncoding('latin1')
    .on('data', (text: string) => hash.update(text, 'latin1'));
  wrapped.child.stdin?.end(bytes);
  expect((await wrapped.end()).code).toBe(0);
  expect(hash.digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'));
});

test('waits for a slow reader without collecting listeners', async () => {
  const code = `let left = 300; const more = () => { if (left-- > 0) process.stdout.write('x'.repeat(65536), more); }; more();`;
  const child = spawn(
    process.execPath,
    [COMMAND, 'wrap', '--trace', place.file('x.jsonl'), '--', process.execPath, '-e', code],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const closed = once(child, 'close');
  let bytes = 0;
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    await new Promise((resolve) => setTimeout(resolve, 1)); // the pipe fills up meanwhile
  }
  await closed;
  expect(bytes).toBe(300 * 65536);
  expect(stderr).not.toContain('MaxListenersExceededWarning');
});

testIf(
  noWindows,
  'a trace that can no longer be written is reported once, and the bytes still pass',
  async () => {
    const bytes = user('x'.repeat(1000)).repeat(200);
    const child = spawn(
      'sh',
      // Files may grow to 8 KiB: the system refuses the rest, as a full disk does.
      ['-c', 'ulimit -f 16; exec "$0" "$@"', process.execPath, COMMAND, 'wrap', '--trace'].concat([
        place.file('x.jsonl'),
        '--',
        process.execPath,
        '-e',
        ECHO,
      ]),
      { stdio: ['pipe', 'pipe', 'pipe'] },
    );
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.stdin.end(bytes);
    expect(await once(child, 'close')).toEqual([0, null]);
    expect(stdout).toBe(bytes);
    expect(stderr.match(/cannot be written/g)).toHaveLength(1);
  },
);

test('holds the CLI back while the host does not read', async () => {
  // Writes until the pipe is full, and says on stderr how much it could.
  const flood = `let n = 0; const more = () => { while (process.stdout.write('x'.repeat(65536))) n++;
    process.stderr.write('wrote ' + n + '\\n'); process.stdout.once('drain', more); }; more();`;
  const child = spawn(
    process.execPath,
    [COMMAND, 'wrap', '--trace', place.file('x.jsonl'), '--', process.execPath, '-e', flood],
    { stdio: ['pipe', 'pipe', 'pipe'] },
  );
  let written = 0;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    written = Math.max(
      written,
      ...[...text.matchAll(/wrote (\d+)/g)].map((found) => Number(found[1])),
    );
  });
  await once(child.stderr, 'data');
  const settled = async (): Promise<number> => {
    for (let last = -1; ;) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      if (written === last) return written;
      last = written;
    }
  };
  expect(await settled()).toBeLessThan(200); // 13 MB at most, of an endless flood
  child.kill('SIGKILL');
  await once(child, 'close');
});

test.each([
  ['the exit code', 'process.exit(7)', { code: 7, signal: null }],
  ['the signal', 'process.kill(process.pid, "SIGTERM")', { code: null, signal: 'SIGTERM' }],
])('passes %s of the CLI on', async (_what, code, expected) => {
  const ended = await place.run(['wrap', '--', process.execPath, '-e', code]);
  expect(ended).toMatchObject(expected);
});

test('passes signals to the CLI, and its last words to the host', async () => {
  const code = `process.on('SIGTERM', () => { console.log('bye'); process.exit(5); });
    console.log('up'); setInterval(() => {}, 1000);`;
  const wrapped = place.start(['wrap', '--', process.execPath, '-e', code]);
  await wrapped.says(/up/);
  wrapped.child.kill('SIGTERM');
  expect(await wrapped.end()).toMatchObject({ code: 5, stdout: 'up\nbye\n' });
});

test('ends the CLI when it is killed itself', async () => {
  const code = `console.log(process.pid); setInterval(() => {}, 1000);`;
  const wrapped = place.start(['wrap', '--', process.execPath, '-e', code]);
  const pid = Number((await wrapped.says(/^(\d+)$/m))[1]);
  wrapped.child.kill('SIGKILL');
  await wrapped.end();
  expect(await survivors([pid], 10_000)).toEqual([]);
});

test('ends a CLI that ignores the end of its input when the host has gone', async () => {
  const code = `process.stdin.resume(); console.log(process.pid); setInterval(() => console.log('more'), 20);`;
  const wrapped = place.start(['wrap', '--', process.execPath, '-e', code]);
  const pid = Number((await wrapped.says(/^(\d+)$/m))[1]);
  wrapped.child.stdin?.destroy();
  wrapped.child.stdout?.destroy();
  expect(await survivors([pid], 15_000)).toEqual([]);
});

test('says in one line that the command is not there', async () => {
  const ended = await place.run(['wrap', '--', 'no-such-cli']);
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(/^duolane: command "no-such-cli" not found/m);
  expectNoStack(ended);
});

verifies(
  ['S118', 'S119'],
  'shows both lanes on stderr, and leaves stdout to the protocol',
  async () => {
    const wrapped = place.start(['wrap', '--', STUB_CLI]);
    wrapped.type(
      `{"type":"control_request","request_id":"r1","request":{"subtype":"initialize"}}\n`,
    );
    wrapped.type(user('hi'));
    await wrapped.says(/"type":"result"/);
    wrapped.child.stdin?.end();
    const { code, stdout, stderr } = await wrapped.end();
    expect(code).toBe(0);
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .every((line) => line.startsWith('{')),
    ).toBe(true);
    expect(stderr).toMatch(/→ \[CTRL\] initialize/);
    expect(stderr).toMatch(/← \[CTRL\] response to initialize \(\d+ ms\)/);
    expect(stderr).toMatch(/→ \[MSG\] +user hi/);
    expect(stderr).toMatch(/← \[MSG\] +assistant echo: hi/);
  },
);

test('records both lanes, how they ended, and no secrets', async () => {
  const trace = place.file('run.jsonl');
  const secret = 'very-secret-value-1';
  const wrapped = place.start(['wrap', '--trace', trace, '--', STUB_CLI], {
    env: { SOME_API_KEY: secret, STUB_MODE: 'junk' },
  });
  wrapped.type(user(`my key is ${secret} and sk-abcdefgh12345`));
  wrapped.child.stdin?.end();
  const ended = await wrapped.end();
  expect(ended.stderr).toBe('');
  const seen = await frames(trace);
  const kinds = seen.map(
    ({ direction, data }) => `${direction} ${String(data['subtype'] ?? data['type'])}`,
  );
  expect(kinds).toEqual(
    expect.arrayContaining(['out user', 'out input_ended', 'in noise', 'in success']),
  );
  expect(kinds.at(-1)).toBe('in exited');
  expect(await readFile(trace, 'utf8')).not.toMatch(/very-secret-value-1|sk-abcdefgh12345/);
});

suite('agent-sdk', reason, () => {
  const calculator = (): unknown =>
    server(sdk, 'calc', 'add', {}, async () => said('5'), { annotations: { readOnlyHint: true } });
  const script = [{ tools: [{ name: 'mcp__calc__add', input: {} }] }, { text: 'it is {{last}}' }];

  test('the official SDK drives a CLI through it and notices nothing', async () => {
    await using workspace = await Workspace.open();
    const trace = place.file('sdk.jsonl');
    const run = await readAll(
      sdk.query({
        prompt: 'add',
        options: options(workspace, await workspace.script(script), {
          executableArgs: [COMMAND, 'wrap', '--trace', trace, '--'],
          mcpServers: { calc: calculator() },
          allowedTools: ['mcp__calc__add'],
        }),
      }),
    );
    expect(run.error).toBeUndefined();
    expect(resultOf(run)).toMatchObject({ subtype: 'success', result: 'it is 5' });
    const seen = await frames(trace);
    const calls = seen.filter(({ data }) => JSON.stringify(data).includes('"tools/call"'));
    expect(calls.map(({ lane, direction }) => `${lane} ${direction}`)).toEqual(['control in']);
    // Both ends keep the rules, so the doctor has nothing to say about a real session.
    const { findings } = await checkTrace(readTrace(createReadStream(trace)));
    expect(findings).toEqual([]);
  });

  test('a script of two lines does it for any executable', async () => {
    await using workspace = await Workspace.open();
    const watched = await place.write(
      'watched-cli',
      `#!/bin/sh\nexec '${process.execPath}' '${COMMAND}' wrap --trace '${place.file('t.jsonl')}' -- '${AGENT}' "$@"\n`,
    );
    await chmod(watched, 0o755);
    const run = await readAll(
      sdk.query({
        prompt: 'hello',
        options: options(workspace, await workspace.script([{ text: 'hello' }]), {
          pathToClaudeCodeExecutable: watched,
        }),
      }),
    );
    expect(resultOf(run)).toMatchObject({ subtype: 'success', result: 'hello' });
    expect((await frames(place.file('t.jsonl'))).length).toBeGreaterThan(3);
  });
});

test('a signal before the start: it starts nothing and does not wait', async () => {
  const reason = new DuolaneError('canceled', 'SIGINT', { cause: 'SIGINT' });
  const file = place.file('started');
  const code = `require('fs').writeFileSync(${JSON.stringify(file)}, ''); setInterval(() => {}, 1e3)`;
  const run = wrap.run({
    args: [process.execPath, '-e', code],
    flags: { trace: place.file('trace.jsonl') },
    terminal: openTerminal(() => {}),
    signal: AbortSignal.abort(reason),
    onInterrupt: () => {},
  });
  await expect(run).rejects.toBe(reason);
  await expect(readFile(file)).rejects.toThrow('ENOENT');
});
