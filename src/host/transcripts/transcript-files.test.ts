import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { collect, FakeCli } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { JsonObject } from '../../json.ts';
import { expectToolCalled } from '../session/tool-calls.ts';
import { openSession } from '../session/open-session.ts';
import type { Options } from '../options/options.ts';
import { query, type QueryInput } from '../query/query.ts';
import { getSessionInfo, getSessionMessages, listSessions } from './list-sessions.ts';
import { InMemorySessionStore } from './session-store.ts';
import { transcriptPath } from '../../wire/transcript.ts';

function played(
  prompt: QueryInput['prompt'],
  options: Options = {},
): { readonly cli: FakeCli; readonly run: ReturnType<typeof query> } {
  const cli = new FakeCli();
  void cli.ended.then(() => cli.peer.exit());
  return { cli, run: query({ prompt, options: { transport: () => cli.transport, ...options } }) };
}

describe('traces', () => {
  test('hold a header and every frame, and no secret', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'duolane-trace-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const trace = join(folder, 'run.jsonl');
    const env = { ANTHROPIC_API_KEY: 'very-secret-key', OTHER: 'plain' };
    const { cli, run } = played('my key is very-secret-key and sk-ant-abcdefgh12345', {
      trace,
      env,
    });
    const reading = collect(run);
    await cli.initialize({ account: { apiKey: 'hidden', input_tokens: 5 } });
    cli.say(cli.result({ authorization: 'Bearer abcdefghijk' }));
    await reading;
    const [header, ...frames] = readFileSync(trace, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as JsonObject);
    expect(header).toMatchObject({
      format: 'duolane-trace',
      version: 1,
      createdAt: expect.any(Number) as number,
    });
    expect(frames.map(({ lane, direction }) => `${String(lane)} ${String(direction)}`)).toEqual([
      'control out',
      'message out',
      'control in',
      'message in',
      'message out',
      'message in',
    ]);
    expect(frames.slice(-2).map(({ data }) => data)).toEqual([
      { type: 'system', subtype: 'input_ended', host: true },
      { type: 'system', subtype: 'exited', host: true, code: 0 },
    ]);
    const text = JSON.stringify(frames);
    for (const secret of ['very-secret-key', 'sk-ant-abc', 'hidden', 'abcdefghijk'])
      expect(text).not.toContain(secret);
    expect(text).toContain('"input_tokens":5');
    await expect(
      collect(query({ prompt: 'x', options: { trace: join(folder, 'none', 'x') } })),
    ).rejects.toMatchObject({ code: 'invalid' });
  });
});

describe('sessions', () => {
  const line = (type: string, uuid: string, content: unknown): JsonObject => ({
    type,
    uuid,
    sessionId: 's1',
    cwd: '/proj',
    gitBranch: 'main',
    message: { role: type, content },
  });
  const entries = [
    { type: 'queue-operation', sessionId: 's1' },
    line('user', 'u1', [{ type: 'text', text: 'first question' }]),
    { ...line('user', 'u2', 'hidden'), isMeta: true },
    line('assistant', 'a1', [{ type: 'text', text: 'answer' }]),
  ];

  test('are read from the disk, the latest first', async () => {
    const config = mkdtempSync(join(tmpdir(), 'duolane-config-'));
    const before = process.env['CLAUDE_CONFIG_DIR'];
    process.env['CLAUDE_CONFIG_DIR'] = config;
    onTestFinished(() => {
      if (before === undefined) delete process.env['CLAUDE_CONFIG_DIR'];
      else process.env['CLAUDE_CONFIG_DIR'] = before;
      rmSync(config, { recursive: true });
    });
    const folder = join(config, 'projects', '-proj');
    mkdirSync(folder, { recursive: true });
    const text = `${entries.map((entry) => JSON.stringify(entry)).join('\n')}\nnot json\n`;
    writeFileSync(join(folder, 's1.jsonl'), text);
    const [info] = await listSessions({ dir: '/proj' });
    expect(info).toMatchObject({
      sessionId: 's1',
      summary: 'first question',
      firstPrompt: 'first question',
      cwd: '/proj',
      gitBranch: 'main',
      fileSize: text.length,
    });
    expect(await listSessions()).toEqual([info]);
    expect(await listSessions({ dir: '/elsewhere' })).toEqual([]);
    expect(await getSessionInfo('s1', { dir: '/proj' })).toEqual(info);
    expect(await getSessionInfo('none')).toBeUndefined();
    const messages = await getSessionMessages('s1');
    expect(messages.map(({ type, uuid }) => [type, uuid])).toEqual([
      ['user', 'u1'],
      ['assistant', 'a1'],
    ]);
    expect(await getSessionMessages('s1', { offset: 1, limit: 1 })).toHaveLength(1);
  });

  test('are mirrored to a store as the CLI writes them, read from it, and resumed', async () => {
    const store = new InMemorySessionStore();
    const { cli, run } = played('x', { sessionStore: store });
    const reading = collect(run);
    await cli.initialize();
    const filePath = '/config/projects/-proj/s1.jsonl';
    cli.say(
      { type: 'transcript_mirror', filePath, entries: entries.slice(0, 2) },
      { type: 'transcript_mirror', filePath, entries: entries.slice(2) },
      {
        type: 'transcript_mirror',
        filePath: '/config/projects/-proj/s1/subagents/a.jsonl',
        entries: [{}],
      },
      cli.result(),
    );
    expect(await reading).toHaveLength(1);
    expect(store.size).toBe(2);
    expect(await store.load({ projectKey: '-proj', sessionId: 's1' })).toEqual(entries);
    expect(await store.listSubkeys({ projectKey: '-proj', sessionId: 's1' })).toEqual([
      'subagents/a',
    ]);
    expect(await listSessions({ dir: '/proj', sessionStore: store })).toMatchObject([
      { sessionId: 's1', summary: 'first question' },
    ]);
    expect(await getSessionMessages('s1', { dir: '/proj', sessionStore: store })).toHaveLength(2);

    let configDir = '';
    const again = new FakeCli();
    void again.ended.then(() => again.peer.exit());
    const session = await openSession({
      cwd: '/proj',
      resume: 's1',
      sessionStore: store,
      transport: ({ env }) => {
        configDir = env['CLAUDE_CONFIG_DIR'] ?? '';
        return again.transport;
      },
    });
    const path = join(configDir, 'projects', '-proj', 's1.jsonl');
    expect(readFileSync(path, 'utf8').trim().split('\n')).toHaveLength(4);
    await session[Symbol.asyncDispose]();
    expect(() => readFileSync(path)).toThrow(/ENOENT/);
    await expect(
      openSession({ resume: 'none', sessionStore: store, transport: () => again.transport }),
    ).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a slow store gets one call at a time, in order', async () => {
    const store = new InMemorySessionStore();
    const order: unknown[] = [];
    let running = 0;
    store.append = async (_key, [entry]) => {
      running += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      order.push([entry?.['n'], running]);
      running -= 1;
    };
    const { cli, run } = played('x', { sessionStore: store });
    const reading = collect(run);
    await cli.initialize();
    for (const n of [1, 2, 3])
      cli.say({ type: 'transcript_mirror', filePath: '/c/projects/p/s.jsonl', entries: [{ n }] });
    cli.say(cli.result());
    await reading;
    expect(order).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
    ]);
  });

  test('a store that fails never stops the session, and is reported', async () => {
    const store = new InMemorySessionStore();
    store.append = async () => {
      throw new Error('disk full');
    };
    const { cli, run } = played('x', {
      sessionStore: store,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
    const session = await run.session;
    const told: JsonObject[] = [];
    await cli.initialize();
    cli.say({ type: 'transcript_mirror', filePath: '/c/projects/p/s.jsonl', entries: [{ a: 1 }] });
    cli.say(cli.result());
    for await (const message of session.messages()) told.push(message);
    expect(told).toContainEqual(
      expect.objectContaining({ subtype: 'mirror_error', error: 'disk full' }),
    );
  });
});

describe('expectToolCalled', () => {
  verifies('S120', 'finds the call, or says clearly what is wrong', async () => {
    const { cli, run } = played('x');
    const reading = collect(run);
    await cli.initialize();
    const use = (id: string, name: string): JsonObject => ({
      type: 'assistant',
      message: { content: [{ type: 'tool_use', id, name, input: { a: 1 } }] },
    });
    const answer = (tool_use_id: string, is_error: boolean): JsonObject => ({
      type: 'user',
      message: { content: [{ type: 'tool_result', tool_use_id, is_error, content: 'text' }] },
    });
    cli.say(use('1', 'mcp__s__good'), use('2', 'mcp__s__bad'), use('3', 'Bash'));
    cli.say(answer('1', false), answer('2', true), cli.result());
    await reading;
    const session = await run.session;
    expect(expectToolCalled(session, 'good')).toEqual({
      id: '1',
      name: 'mcp__s__good',
      input: { a: 1 },
      isError: false,
      content: 'text',
    });
    expect(expectToolCalled(session, 'mcp__s__bad', { isError: true })).toMatchObject({ id: '2' });
    expect(() => expectToolCalled(session, 'bad')).toThrow('bad failed: "text"');
    expect(() => expectToolCalled(session, 'Bash')).toThrow('has no result yet');
    expect(() => expectToolCalled(session, 'other')).toThrow(
      'other was not called (called: mcp__s__good, mcp__s__bad, Bash)',
    );
  });
});

test('a session id cannot lead outside the configuration folder', () => {
  expect(transcriptPath('/c', { projectKey: 'p', sessionId: 's' })).toBe(
    join('/c', 'projects', 'p', 's.jsonl'),
  );
  for (const sessionId of ['../x', '..\\x', '/etc/x', 'x\0'])
    expect(() => transcriptPath('/c', { projectKey: 'p', sessionId })).toThrow('separator');
});
