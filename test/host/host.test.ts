import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  createSdkMcpServer,
  openSession,
  query,
  type SessionOptions,
  tool,
} from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { spawnProcess } from '../../src/process/index.ts';
import { collect, keptLogger } from '../support/fake-cli.ts';
import { isAlive, survivors } from '../support/processes.ts';
import { prompt, STUB_CLI, stub, stubEnv, type StubScript } from '../support/stub-cli.ts';
import { verifies } from '../verifies.ts';
import { slowness } from '../support/busy.ts';

const ANY = { type: 'object' } as const;

/** Options that run the stub with a script or preset, and report the pid of the process. */
function stubbed(
  script: StubScript | string = {},
  more: SessionOptions = {},
): SessionOptions & { readonly pids: number[] } {
  const pids: number[] = [];
  return {
    pids,
    pathToClaudeCodeExecutable: STUB_CLI,
    env: stubEnv(script),
    graceMs: 500,
    killMs: 500,
    transport: ({ command, args, env }) => {
      const child = spawnProcess({ command, args, env, graceMs: 500, killMs: 500 });
      if (child.pid !== undefined) pids.push(child.pid);
      return child;
    },
    ...more,
  };
}

const servers = (handler: (args: JsonObject) => unknown): SessionOptions => ({
  mcpServers: {
    test: createSdkMcpServer({
      name: 'test',
      tools: [
        tool('run', 'runs', ANY, handler as () => string),
        tool('slow', 'is slow', ANY, handler as () => string),
      ],
    }),
  },
});

const texts = (messages: readonly JsonObject[]): readonly unknown[] =>
  messages.flatMap(({ type, result }) => (type === 'result' ? [result] : []));

describe('a session with a real process', () => {
  verifies(['S1', 'S7', 'S104'], 'runs a prompt with a tool, by pipes alone', async () => {
    const options = stubbed(
      {},
      servers(({ a }) => `got ${String(a)}`),
    );
    const call = { server: 'test', tool: 'run', args: { a: 7 } };
    const seen: JsonObject[] = [];
    const run = query({ prompt: prompt({ call }, { say: '{{last}}' }), options });
    for await (const message of run) {
      seen.push(message);
      expect(process.getActiveResourcesInfo()).not.toContain('TCPSocketWrap');
    }
    expect(texts(seen)).toEqual(['got 7']);
    expect(await survivors(options.pids, 5000)).toEqual([]);
  });

  verifies(
    'S96',
    'a naive client silently loses the result of a tool; the host does not',
    async () => {
      // The six steps of the failure: start, close, decision, request, execution, lost answer.
      const script = [
        { sleep: 100 },
        { call: { server: 'test', tool: 'run' } },
        { say: '{{last}}' },
      ];
      await using naive = spawnProcess(stub());
      naive.write(
        `${JSON.stringify({ type: 'control_request', request_id: 'i', request: { subtype: 'initialize' } })}\n`,
      );
      naive.write(
        `${JSON.stringify({ type: 'user', message: { role: 'user', content: prompt(...script) } })}\n`,
      );
      naive.endInput();
      let said = '';
      for await (const chunk of naive.output) said += Buffer.from(chunk).toString();
      expect(said).toContain('Stream closed');
      expect(await naive.exited).toMatchObject({ code: 0 }); // no error anywhere

      const ours = await collect(
        query({
          prompt: prompt(...script),
          options: stubbed(
            {},
            servers(() => 'delivered'),
          ),
        }),
      );
      expect(texts(ours)).toEqual(['delivered']);
    },
  );

  verifies(
    ['S86', 'S88'],
    'a tool of 65 seconds is awaited, since the host sets no timer',
    async () => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'Date'] });
      try {
        let finish = (): void => {};
        let begun = false;
        const slow = (): Promise<string> =>
          new Promise((resolve) => {
            begun = true;
            finish = () => resolve('finally');
          });
        const options = stubbed('slow-tool', {
          ...servers(slow),
          stall: { afterMs: 1000, failMs: 1000 },
        });
        const session = await openSession(options);
        await session.send('go');
        const reading = collect(session.response());
        while (!begun) await new Promise((resolve) => setImmediate(resolve));
        vi.advanceTimersByTime(65_000);
        finish();
        expect(texts(await reading)).toEqual(['finally']);
        vi.useRealTimers();
        await session[Symbol.asyncDispose]();
      } finally {
        vi.useRealTimers();
      }
    },
  );

  verifies(
    ['S2', 'S24'],
    'a flood of messages without a reader does not delay tool calls',
    async () => {
      const call = { call: { server: 'test', tool: 'run' } };
      const options = stubbed({}, { ...servers(() => 'ok'), memoryBytes: 256 * 1024 });
      const session = await openSession(options);
      await session.send(
        prompt({ flood: { count: 5000, bytes: 1000 } }, call, { say: '{{last}}' }),
      );
      session.endInput();
      await session.done;
      const seen = await collect(session.messages());
      expect(seen.length).toBeGreaterThan(5000);
      expect(texts(seen)).toEqual(['ok']);
      await session[Symbol.asyncDispose]();
    },
  );

  for (const mode of [
    'junk',
    'null',
    'crlf',
    'chunks',
    'keep-alive',
    'unknown',
    'flat-answer',
    'early-handshake',
    'late-handshake',
    'stderr-flood',
    'no-last-newline',
    'equal-request-ids',
  ]) {
    test(`works with a CLI in the mode ${mode}`, async () => {
      const { logger } = keptLogger();
      const options = stubbed(mode, { ...servers(() => 'ok'), logger });
      const seen = await collect(query({ prompt: 'hello', options }));
      expect(seen.at(-1)).toMatchObject({ type: 'result', is_error: false });
      expect(await survivors(options.pids, 5000)).toEqual([]);
    });
  }

  verifies('S103', 'work after a result keeps stdin open until it ends', async () => {
    const seen = await collect(query({ prompt: 'go', options: stubbed('background') }));
    expect(texts(seen)).toEqual(['started', 'background']);
  });
});

/** A CLI that no longer reads when it asks: the pipe breaks under the very write that answers. */
function deafCli(end: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-deaf-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'cli.mjs');
  writeFileSync(
    path,
    `import { closeSync } from 'node:fs';
    const say = (frame) => process.stdout.write(JSON.stringify(frame) + '\\n');
    process.stdin.once('data', (data) => {
      const { request_id } = JSON.parse(String(data).split('\\n')[0]);
      say({ type: 'control_response', response: { subtype: 'success', request_id } });
      process.stdin.destroy();
      process.stdin.once('close', () => {
        closeSync(0);
        const request = { subtype: 'can_use_tool', tool_name: 'T', input: {}, tool_use_id: 't' };
        say({ type: 'control_request', request_id: 'r', request });
        setTimeout(() => { ${end} }, 300);
      });
    });`,
  );
  return path;
}

describe('a response that breaks the pipe', () => {
  const options = (end: string): SessionOptions => ({
    pathToClaudeCodeExecutable: deafCli(end),
    canUseTool: () => ({ behavior: 'allow' }),
    logger: keptLogger().logger,
  });

  verifies(['S34', 'S97'], 'is reported as lost before the result of the turn', async () => {
    const result = `say({ type: 'result', subtype: 'success', is_error: false, result: '' });`;
    const seen = await collect(
      query({ prompt: 'x', options: options(`${result} process.exit()`) }),
    );
    expect(seen).toMatchObject([
      { subtype: 'tool_response_lost', request_id: 'r' },
      { type: 'result' },
    ]);
  });

  verifies(['S10', 'S111'], 'is a typed error without a result', async () => {
    const run = query({ prompt: 'x', options: options('process.exit()') });
    await expect(collect(run)).rejects.toMatchObject({ code: 'response_lost' });
  });
});

describe('faults', () => {
  for (const [mode, error] of Object.entries({
    crash: {
      code: 'peer_exited',
      cause: { exitCode: 3 },
      message: expect.stringContaining('fatal: boom') as string,
    },
    'crash-at-start': {
      code: 'peer_exited',
      cause: { exitCode: 3, stderr: 'fatal: cannot start\n' },
    },
  })) {
    verifies('S13', `a CLI in the mode ${mode} gives a typed error with its stderr`, async () => {
      const options = stubbed(mode);
      await expect(collect(query({ prompt: 'x', options }))).rejects.toMatchObject(error);
    });
  }

  test('a missing executable, folder or script gives a clear error immediately', async () => {
    const rows: readonly [SessionOptions, JsonObject][] = [
      [
        { pathToClaudeCodeExecutable: '/nowhere/claude' },
        { code: 'not_found', message: expect.stringContaining('/nowhere/claude') as unknown },
      ],
      [{ pathToClaudeCodeExecutable: '/nowhere/cli.js' }, { code: 'not_found' }],
      [
        { pathToClaudeCodeExecutable: process.execPath, cwd: '/nowhere' },
        { code: 'not_found', message: expect.stringContaining('/nowhere') as unknown },
      ],
    ];
    for (const [options, error] of rows) {
      await expect(collect(query({ prompt: 'x', options }))).rejects.toMatchObject(error);
      await using session = await openSession(options);
      await expect(session.ready()).rejects.toMatchObject(error);
      await expect(session.done).rejects.toMatchObject(error);
    }
  });

  describe('invalid input ends in a typed error and never hangs', () => {
    /** The best of three, as a share of the limit that a busy machine has. */
    async function quickest(run: () => Promise<unknown>, code: string): Promise<number> {
      let best = Infinity;
      for (let n = 0; n < 3; n++) {
        const before = performance.now();
        await expect(run()).rejects.toMatchObject({ code });
        best = Math.min(best, performance.now() - before);
      }
      return best / (await slowness());
    }

    test.each([
      ['a wrong option', { maxTurns: -1 }, 'invalid'],
      ['an unknown hook event', { hooks: { Never: [] } }, 'invalid'],
      ['an empty server', { mcpServers: { x: {} } }, 'invalid'],
      ['a missing executable', { pathToClaudeCodeExecutable: 'no-such-program' }, 'not_found'],
      ['a missing script', { pathToClaudeCodeExecutable: '/no/such/cli.mjs' }, 'not_found'],
      ['a missing folder', { pathToClaudeCodeExecutable: STUB_CLI, cwd: '/no/such' }, 'not_found'],
      ['a trace that cannot be written', { trace: '/no/such/run.jsonl' }, 'invalid'],
    ])('%s', async (_, options, code) => {
      const run = (): Promise<unknown> =>
        collect(query({ prompt: 'x', options: options as SessionOptions }));
      expect(await quickest(run, code)).toBeLessThan(1000);
    });

    test('a CLI that exits immediately after invalid lines', async () => {
      const script = { start: [{ raw: 'null\n[1]\n{"type":"control_request"}\n' }, { exit: 4 }] };
      const run = (): Promise<unknown> => collect(query({ prompt: 'x', options: stubbed(script) }));
      expect(await quickest(run, 'peer_exited')).toBeLessThan(1000);
    });
  });

  test('ready() rejects if the CLI never responds to initialize', async () => {
    await using session = await openSession(stubbed('mute-initialize', { readyMs: 200 }));
    await expect(session.ready()).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('initialize') as string,
    });
  });

  verifies('S101', 'a silent CLI is reported as stalled, interrupted, and failed', async () => {
    const script = { turns: [[{ mute: true }]], answers: { interrupt: null } };
    const { logger } = keptLogger();
    const options = stubbed(script, { logger, stall: { afterMs: 300, failMs: 300 } });
    const session = await openSession(options);
    await session.send('x');
    session.endInput(); // the wait for the result, before stdin may close
    const seen: JsonObject[] = [];
    await expect(
      (async () => {
        for await (const message of session.messages()) seen.push(message);
      })(),
    ).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('was silent') as string,
    });
    expect(seen).toContainEqual(
      expect.objectContaining({
        subtype: 'stalled',
        holding: expect.arrayContaining(['a message without its result']) as unknown,
      }),
    );
    await session[Symbol.asyncDispose]();
    expect(await survivors(options.pids, 5000)).toEqual([]);
  });

  test('an interrupt ends the turn, and the session continues', async () => {
    const options = stubbed(
      {},
      servers(() => new Promise(() => {})),
    );
    await using session = await openSession(options);
    await session.send(prompt({ call: { server: 'test', tool: 'slow' } }));
    await expect.poll(() => session.holding).toContain('tools/call slow on test');
    await session.interrupt();
    await session.send('next');
    expect(texts(await collect(session.response()))).toEqual(['echo: next']);
  });

  test('a CLI that ignores the end of its input is ended after its result', async () => {
    const { lines, logger } = keptLogger();
    const options = stubbed('ignore-all', { exitMs: 300, logger });
    const seen = await collect(query({ prompt: 'x', options }));
    expect(seen.at(-1)).toMatchObject({ type: 'result' });
    expect(await survivors(options.pids, 5000)).toEqual([]);
    expect(lines.some(({ message }) => message.includes('did not exit'))).toBe(true);
  });

  verifies(
    'S116',
    'closing is bounded and leaves no process of a CLI that ignores signals',
    async () => {
      const options = stubbed({
        ignore: ['EOF', 'SIGTERM', 'SIGINT'],
        turns: [
          [{ spawn: [process.execPath, '-e', 'setInterval(() => {}, 1000)'] }, { mute: true }],
        ],
      });
      const session = await openSession(options);
      await session.send('x');
      const first = session.messages()[Symbol.asyncIterator]();
      await first.next();
      await session[Symbol.asyncDispose]();
      expect(options.pids.filter(isAlive)).toEqual([]);
    },
  );

  verifies(['S109', 'S114'], 'closing during a late request leaves no process behind', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const options = stubbed(
      {},
      servers(async () => 'ok'),
    );
    for (let n = 0; n < 20; n++) {
      const session = await openSession(options);
      const reading = collect(session.messages()).catch((error: unknown) => error);
      const call = { call: { server: 'test', tool: 'run' } };
      await session.send(prompt({ say: 'done' }, { result: true }, call, call, call));
      const first = session.holding.length;
      expect(first).toBeGreaterThan(0);
      await sleep(n * 7);
      await session[Symbol.asyncDispose]();
      expect(await reading).toBeInstanceOf(Array);
    }
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
    expect(await survivors(options.pids, 5000)).toEqual([]);
  });

  verifies('S50', 'one server object serves three sessions at the same time', async () => {
    let running = 0;
    let most = 0;
    const shared = servers(async () => {
      running += 1;
      most = Math.max(most, running);
      await expect.poll(() => most).toBe(3);
      running -= 1;
      return 'ok';
    });
    const call = { call: { server: 'test', tool: 'run' } };
    const all = await Promise.all(
      [1, 2, 3].map(() =>
        collect(query({ prompt: prompt(call, { say: '{{last}}' }), options: stubbed({}, shared) })),
      ),
    );
    expect(all.map(texts)).toEqual([['ok'], ['ok'], ['ok']]);
  });
});
