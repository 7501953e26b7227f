import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { collect, FakeCli, playedSession } from '../../../test/support/fake-cli.ts';
import type { JsonObject } from '../../json.ts';
import { createSdkMcpServer, tool } from '../../mcp/registry/tool.ts';
import { ToolCallLog } from './tool-calls.ts';
import { restoreSession } from '../transcripts/restore-session.ts';
import { StoreMirror } from '../transcripts/store-mirror.ts';
import { AbortError, query } from '../query/query.ts';
import { SilenceTimer, whileAwake } from './silence-timer.ts';
import type { AgentSession } from './agent-session.ts';
import type { SessionStore } from '../transcripts/session-store.ts';

const ANY = { type: 'object' } as const;
const server = (name: string): ReturnType<typeof createSdkMcpServer> =>
  createSdkMcpServer({ name, tools: [tool('run', 'runs', ANY, () => 'ok')] });
const blocking = { PreToolUse: [{ hooks: [() => ({})], onFailure: 'block' as const }] };

describe('send', () => {
  test('right before the end of input is written, also before the response to initialize', async () => {
    const { cli, session } = await playedSession({ hooks: blocking });
    await using _ = session;
    const sent = session.send('x');
    session.endInput();
    expect(session.holding).toContain('a message that waits for initialize');
    await cli.initialize({ hook_on_failure_supported: true });
    expect(await cli.until('user')).toMatchObject({ type: 'user' });
    await sent;
    cli.say(cli.result());
    expect((await collect(session.messages())).at(-1)).toMatchObject({ type: 'result' });
    await session.done;
  });

  test('that initialize prevents rejects and does not hold stdin', async () => {
    const { cli, session } = await playedSession({ hooks: blocking });
    await using _ = session;
    const sent = session.send('x');
    sent.catch(() => {});
    await cli.initialize({});
    await expect(sent).rejects.toMatchObject({ code: 'unsupported' });
    expect(session.holding).toEqual([]);
  });

  test('rejects with closed if the session closes meanwhile', async () => {
    const { session } = await playedSession({ hooks: blocking });
    const sent = session.send('x');
    sent.catch(() => {});
    await session[Symbol.asyncDispose]();
    await expect(sent).rejects.toMatchObject({ code: 'closed' });
  });
});

test('reinitialize declares the current servers, not the first ones', async () => {
  const { cli, session } = await playedSession({
    mcpServers: { old: { ...server('old'), timeout: 5000 } },
  });
  await using _ = session;
  const driver = session as AgentSession;
  expect((await cli.initialize()).request).toMatchObject({ sdkMcpServers: ['old'] });
  const replaced = driver.setServers({ fresh: { ...server('fresh'), timeout: 7000 } });
  const set = await cli.until('control_request', 'mcp_set_servers');
  cli.answer(set.request_id, {});
  await replaced;
  const again = driver.reinitialize();
  const { request } = await cli.initialize();
  await again;
  expect(request).toMatchObject({
    sdkMcpServers: ['fresh'],
    sdkMcpServerConfigs: { fresh: { timeout: 7000 } },
  });
  expect(request).not.toHaveProperty('sdkMcpServerManifests');
});

test('ready() resolves when a failed server is connected again', async () => {
  const { cli, session } = await playedSession({ mcpServers: { s: server('s') } });
  await using _ = session;
  await cli.initialize();
  cli.say({ type: 'system', subtype: 'init', mcp_servers: [{ name: 's', status: 'failed' }] });
  const status = async (word: string): Promise<void> => {
    const { request_id } = await cli.until('control_request', 'mcp_status');
    cli.answer(request_id, { mcpServers: [{ name: 's', status: word }] });
  };
  for await (const { subtype } of session.messages())
    if (subtype === 'mcp_server_not_listed') break;
  const [, first] = await Promise.allSettled([status('failed'), session.ready()]);
  expect(first).toMatchObject({ status: 'rejected' });
  const [, second] = await Promise.all([status('connected'), session.ready()]);
  expect(second).toEqual({ servers: [{ name: 's', registered: 1, listed: 1 }] });
});

test.each([
  ['initialize', 0],
  ['tools/list', 0],
  ['tools/call', 1],
])('%s that comes after the end of input is reported %i times', async (method, times) => {
  const { cli, session } = await playedSession({ mcpServers: { s: server('s') } }, { stays: true });
  await using _ = session;
  await session.send('go');
  await cli.initialize();
  cli.say(cli.result());
  session.endInput();
  await cli.ended;
  const message = { jsonrpc: '2.0', id: 1, method, params: { name: 'run' } };
  cli.request({ subtype: 'mcp_message', server_name: 's', message });
  cli.say(cli.assistant('the last word'));
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const { subtype } of session.messages()) seen.push(subtype);
  })();
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  cli.peer.exit();
  await reading;
  expect(seen.filter((subtype) => subtype === 'tool_response_lost')).toHaveLength(times);
});

describe('session.calls', () => {
  const called = (id: string, input: JsonObject): JsonObject => ({
    type: 'assistant',
    message: { content: [{ type: 'tool_use', id, name: 'Write', input }] },
  });

  test('drops an input above 64 KiB and keeps the others', () => {
    const calls = new ToolCallLog();
    for (const [id, size] of [
      ['small', 10],
      ['large', 100_000],
    ] as const) {
      const message = called(id, { content: 'x'.repeat(size) });
      calls.observe(message, JSON.stringify(message).length);
    }
    const [small, large] = calls.all;
    expect(small).toMatchObject({ id: 'small', input: { content: 'x'.repeat(10) } });
    expect(large).toEqual({ id: 'large', name: 'Write' });
  });

  test('keeps a bounded number of bytes: the oldest lose input and content, not their names', () => {
    const calls = new ToolCallLog();
    for (let id = 0; id < 900; id += 1) {
      const message = called(String(id), { content: 'x'.repeat(60_000) });
      calls.observe(message, JSON.stringify(message).length);
    }
    const held = calls.all.filter(({ input }) => input !== undefined);
    expect(calls.all).toHaveLength(900);
    expect(held.length * 60_000).toBeLessThan(16 * 1024 * 1024);
    expect(held.at(-1)?.id).toBe('899');
    expect(calls.all[0]).toEqual({ id: '0', name: 'Write' });
  });
});

describe('a session store', () => {
  const filePath = '/x/.claude/projects/-p/00000000-0000-4000-8000-000000000000.jsonl';

  test('accepts a transcript with entries that are not objects', async () => {
    const kept: JsonObject[] = [];
    const errors: string[] = [];
    const store = {
      append: async (_: unknown, entries: readonly JsonObject[]) => void kept.push(...entries),
    } as unknown as SessionStore;
    const mirror = new StoreMirror(store, ({ message }) => errors.push(message));
    const noise = Array.from({ length: 20_000 }, () => 1);
    mirror.take({ filePath, entries: noise });
    await mirror.flush();
    mirror.take({ filePath, entries: [...noise, { type: 'system' }] });
    await mirror.flush();
    mirror.take({ filePath, entries: [{ type: 'user' }] });
    await mirror.flush();
    expect(errors).toEqual([]);
    expect(kept).toEqual([{ type: 'system' }, { type: 'user' }]);
  });

  test('gets nothing after an error if its mirror is strict, and every flush rejects', async () => {
    const kept: unknown[] = [];
    const errors: string[] = [];
    const store = {
      append: async (_: unknown, [entry]: readonly JsonObject[]) => {
        if (entry?.['n'] === 2) throw new Error('disk full');
        kept.push(entry?.['n']);
      },
    } as unknown as SessionStore;
    const onError = ({ message }: Error): void => void errors.push(message);
    const mirror = new StoreMirror(store, onError, { strict: true });
    mirror.take({ filePath, entries: [{ n: 1 }] });
    await mirror.flush();
    for (const n of [2, 3]) mirror.take({ filePath, entries: [{ n }] });
    await expect(mirror.flush()).rejects.toThrow('disk full');
    mirror.take({ filePath, entries: [{ n: 4 }] });
    await expect(mirror.flush()).rejects.toThrow('disk full');
    expect([kept, errors]).toEqual([[1], ['disk full']]);
  });

  test('leaves no folder behind if its session cannot be written to disk', async () => {
    const place = await mkdtemp(join(tmpdir(), 'duolane-restore-'));
    onTestFinished(() => rm(place, { recursive: true }));
    vi.stubEnv('TMPDIR', place);
    const cyclic: JsonObject[] = [{}];
    (cyclic[0] as Record<string, unknown>)['self'] = cyclic;
    const store = { load: async () => cyclic } as unknown as SessionStore;
    await expect(
      restoreSession(store, { cwd: '/p', sessionId: 's', timeoutMs: 1000, env: { HOME: place } }),
    ).rejects.toThrow();
    vi.unstubAllEnvs();
    expect(existsSync(place) && readdirSync(place)).toEqual([]);
  });
});

describe('silence', () => {
  /** A clock and timers that the test moves: `sleep` is a suspended machine, during which no timer fires. */
  function world(counts: boolean): {
    readonly pass: (ms: number) => void;
    readonly sleep: (ms: number) => void;
    readonly now: () => number;
  } {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let offset = 0;
    return {
      now: () => performance.now() + offset,
      pass: (ms) => void vi.advanceTimersByTime(ms),
      sleep: (ms) => {
        offset += counts ? ms : 0;
        vi.setSystemTime(Date.now() + ms);
      },
    };
  }

  test.each([true, false])(
    'does not count a machine that was suspended (the clock counts it: %s)',
    (counts) => {
      const { now, pass, sleep } = world(counts);
      const onSilence = vi.fn<(silentMs: number) => void>();
      const silence = new SilenceTimer(600_000, () => true, onSilence, now);
      silence.start();
      pass(300_000);
      sleep(3_600_000);
      pass(200_000);
      expect(onSilence).not.toHaveBeenCalled();
      pass(200_000);
      expect(onSilence).toHaveBeenCalledOnce();
    },
  );

  test('starts again with every activity', () => {
    const { now, pass } = world(false);
    const onSilence = vi.fn<(silentMs: number) => void>();
    const silence = new SilenceTimer(1000, () => true, onSilence, now);
    silence.start();
    for (let i = 0; i < 10; i += 1) {
      pass(800);
      silence.reset();
    }
    expect(onSilence).not.toHaveBeenCalled();
    pass(1300);
    expect(onSilence).toHaveBeenCalledOnce();
  });

  test('a limit does not pass while the machine is suspended, and can be cancelled', () => {
    const { now, pass, sleep } = world(true);
    const run = vi.fn<(word?: string) => void>();
    whileAwake(10_000, () => run(), now);
    whileAwake(10_000, () => run('cancelled'), now)();
    pass(5000);
    sleep(3_600_000);
    pass(3000);
    expect(run).not.toHaveBeenCalled();
    pass(5000);
    expect(run.mock.calls).toEqual([[]]);
  });
});

describe('abort', () => {
  test('a controller that is aborted already starts nothing', () => {
    const transport = vi.fn<() => never>();
    const abortController = new AbortController();
    abortController.abort();
    expect(() => query({ prompt: 'x', options: { transport, abortController } })).toThrow(
      AbortError,
    );
    expect(transport).not.toHaveBeenCalled();
  });

  test('during the start does not start the CLI', async () => {
    const transport = vi.fn<() => FakeCli['transport']>(() => new FakeCli().transport);
    const abortController = new AbortController();
    const run = query({ prompt: 'x', options: { transport, abortController } });
    abortController.abort();
    await expect(run.next()).rejects.toBeInstanceOf(AbortError);
    expect(transport).not.toHaveBeenCalled();
  });

  test('the reader gets the AbortError, and no messages after the abort', async () => {
    const cli = new FakeCli();
    void cli.ended.then(() => cli.peer.exit());
    const abortController = new AbortController();
    const options = { transport: () => cli.transport, abortController };
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const message of query({ prompt: 'x', options })) {
        seen.push(message.type);
        if (seen.length > 1) continue;
        abortController.abort();
        const { request_id } = await cli.until('control_request', 'interrupt');
        cli.answer(request_id, {});
        cli.say(cli.result({ subtype: 'error_during_execution', is_error: true, errors: ['x'] }));
      }
    })();
    await cli.initialize();
    cli.say(cli.assistant('one'), cli.assistant('two'));
    await expect(reading).rejects.toBeInstanceOf(AbortError);
    expect(seen).toEqual(['assistant']);
  });
});
