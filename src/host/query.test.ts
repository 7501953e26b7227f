import { EventEmitter } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { collect, FakeCli } from '../../test/support/fake-cli.ts';
import { verifies } from '../../test/verifies.ts';
import type { JsonObject } from '../json.ts';
import { createRegistry } from '../mcp/registry.ts';
import { expectToolCalled } from './calls.ts';
import { asStream, type SDKUserMessage } from './messages.ts';
import { openSession } from './open.ts';
import type { Options } from './options.ts';
import { AbortError, query, type QueryInput } from './query.ts';
import { getSessionInfo, getSessionMessages, listSessions } from './sessions.ts';
import type { SpawnedProcess } from './spawned.ts';
import { startup } from './startup.ts';
import { InMemorySessionStore } from './store.ts';

function played(
  prompt: QueryInput['prompt'],
  options: Options = {},
): { readonly cli: FakeCli; readonly run: ReturnType<typeof query> } {
  const cli = new FakeCli();
  void cli.ended.then(() => cli.peer.exit());
  return { cli, run: query({ prompt, options: { transport: () => cli.transport, ...options } }) };
}

const user = (text: string, more: JsonObject = {}): SDKUserMessage => ({
  type: 'user',
  message: { role: 'user', content: text },
  ...more,
});

describe('query', () => {
  verifies(['S25', 'S94', 'S98'], 'a text is sent as a stream of one message', async () => {
    const { cli, run } = played('hi');
    const reading = collect(run);
    await cli.initialize();
    expect(await cli.until('user')).toMatchObject({
      session_id: '',
      message: { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    });
    cli.say(cli.assistant('hello'), cli.result());
    expect((await reading).map(({ type }) => type)).toEqual(['assistant', 'result']);
    expect(await collect(asStream('hi'))).toEqual([
      {
        type: 'user',
        session_id: '',
        message: { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        parent_tool_use_id: null,
      },
    ]);
  });

  verifies(
    ['S94', 'S99', 'S105'],
    'an iterable may give more later, a line for each message',
    async () => {
      let more = (): void => {};
      const wait = new Promise<void>((resolve) => (more = resolve));
      const { cli, run } = played(
        (async function* () {
          yield user('one');
          await wait;
          yield user('two');
        })(),
      );
      const results: unknown[] = [];
      const reading = (async () => {
        for await (const message of run) if (message.type === 'result') results.push(message);
      })();
      await cli.initialize();
      await cli.until('user');
      cli.say(cli.result());
      await expect.poll(() => results.length).toBe(1);
      expect(cli.inputEnded).toBe(false);
      more();
      expect(await cli.until('user')).toMatchObject({ message: { content: 'two' } });
      cli.say(cli.result());
      await reading;
      expect(results).toHaveLength(2);
    },
  );

  test('an error result is yielded, then thrown', async () => {
    const cli = new FakeCli();
    void cli.ended.then(() => cli.peer.exit({ code: 1 }));
    const run = query({ prompt: 'x', options: { transport: () => cli.transport } });
    void cli
      .initialize()
      .then(() =>
        cli.say(
          cli.result({ subtype: 'error_max_turns', is_error: true, errors: ['too', 'many'] }),
        ),
      );
    const seen: unknown[] = [];
    await expect(
      (async () => {
        for await (const message of run) seen.push(message);
      })(),
    ).rejects.toThrow('the agent returned an error result: too; many');
    expect(seen).toMatchObject([{ subtype: 'error_max_turns' }]);
  });

  verifies('S108', 'leaving the loop, a throw in it, and close end the process', async () => {
    for (const leave of ['break', 'throw', 'close', 'return', 'dispose'] as const) {
      const { cli, run } = played('x');
      void cli.initialize().then(() => cli.say(cli.assistant('1')));
      const looping = (async () => {
        for await (const _ of run) {
          if (leave === 'break') break;
          if (leave === 'throw') throw new Error('mine');
          if (leave === 'close') run.close();
          if (leave === 'return') await run.return();
          if (leave === 'dispose') await run[Symbol.asyncDispose]();
        }
      })();
      if (leave === 'throw') await expect(looping).rejects.toThrow('mine');
      else await looping;
      await cli.ended;
      await (
        await run.session
      ).done;
    }
  });

  test('an abort ends the process and throws an AbortError with that name', async () => {
    const abortController = new AbortController();
    const { cli, run } = played('x', { abortController });
    void cli.initialize().then(() => cli.say(cli.assistant('1')));
    const looping = (async () => {
      for await (const _ of run) abortController.abort();
    })();
    const error: unknown = await looping.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AbortError);
    expect(error).toMatchObject({ name: 'AbortError', code: 'canceled' });
    await cli.ended;
    const late = played('x', { abortController });
    await expect(collect(late.run)).rejects.toMatchObject({ name: 'AbortError' });
  });

  verifies('S11', 'closing stops the input at once, though the iterable never ends', async () => {
    let left = 0;
    const deaf: AsyncIterator<SDKUserMessage> = {
      next: () => new Promise(() => {}),
      return: async () => {
        left += 1;
        return { done: true, value: undefined };
      },
    };
    const endless = (async function* () {
      yield user('one');
      await new Promise(() => {});
    })();
    const { cli, run } = played(endless);
    await cli.until('user');
    const further = run.streamInput({ [Symbol.asyncIterator]: () => deaf });
    await run[Symbol.asyncDispose]();
    expect(await collect(run)).toEqual([]);
    await further;
    expect(left).toBe(1);
  });

  verifies('S112', 'an error of the app itself is thrown unchanged', async () => {
    const mine = new TypeError('my iterable broke');
    const { run } = played(
      (async function* () {
        yield user('one');
        throw mine;
      })(),
    );
    await expect(collect(run)).rejects.toBe(mine);
    await expect(collect(query({ prompt: 'x', options: { maxTurns: 0 } }))).rejects.toMatchObject({
      code: 'invalid',
    });
  });

  test('hides what belongs to the host: life cycles of its own uuids, noise, decisions', async () => {
    const { cli, run } = played(
      (async function* () {
        yield user('one');
        yield user('two', { uuid: 'mine' });
      })(),
    );
    const reading = collect(run);
    await cli.initialize();
    const { uuid } = (await cli.until('user')) as unknown as { uuid: string };
    const life = (command_uuid: string, state: string): JsonObject => ({
      type: 'command_lifecycle',
      command_uuid,
      state,
    });
    cli.peer.write('noise\n');
    cli.say(life(uuid, 'started'), life('mine', 'started'));
    cli.say(cli.result({ user_message_uuids: [uuid, 'mine'] }), life(uuid, 'completed'));
    expect((await reading).map(({ type, command_uuid }) => command_uuid ?? type)).toEqual([
      'mine',
      'result',
    ]);
  });

  test('every method is one control request', async () => {
    const { cli, run } = played(
      (async function* () {
        yield user('one');
        await new Promise(() => {});
      })(),
    );
    await cli.initialize({
      commands: [{ name: 'c' }],
      models: [{ value: 'm' }],
      agents: [{ name: 'a' }],
      account: { email: 'e' },
    });
    const rows: readonly [() => Promise<unknown>, JsonObject][] = [
      [() => run.setPermissionMode('plan'), { subtype: 'set_permission_mode', mode: 'plan' }],
      [() => run.setModel('m'), { subtype: 'set_model', model: 'm' }],
      [() => run.setModel(), { subtype: 'set_model' }],
      [
        () => run.setMaxThinkingTokens(null),
        { subtype: 'set_max_thinking_tokens', max_thinking_tokens: null },
      ],
      [
        () => run.applyFlagSettings({ a: 1 }),
        { subtype: 'apply_flag_settings', settings: { a: 1 } },
      ],
      [
        () => run.updateSettings('user', { a: 1 }),
        { subtype: 'update_settings', source: 'user', settings: { a: 1 } },
      ],
      [() => run.mcpServerStatus(), { subtype: 'mcp_status' }],
      [
        () => run.toggleMcpServer('s', false),
        { subtype: 'mcp_toggle', serverName: 's', enabled: false },
      ],
      [() => run.reconnectMcpServer('s'), { subtype: 'mcp_reconnect', serverName: 's' }],
      [
        () => run.setMcpPermissionModeOverride('s', null),
        { subtype: 'set_mcp_permission_mode_override', serverName: 's', mode: null },
      ],
      [
        () => run.readMcpResource('s', 'ui://x'),
        { subtype: 'mcp_read_resource', serverName: 's', uri: 'ui://x' },
      ],
      [
        () => run.getContextUsage({ detail: 'full' }),
        { subtype: 'get_context_usage', detail: 'full' },
      ],
      [
        () => run.rewindFiles('u', { dryRun: true }),
        { subtype: 'rewind_files', user_message_id: 'u', dry_run: true },
      ],
      [() => run.seedReadState('/p', 1), { subtype: 'seed_read_state', path: '/p', mtime: 1 }],
      [
        () => run.readFile('/p', { max_bytes: 1 }),
        { subtype: 'read_file', path: '/p', max_bytes: 1 },
      ],
      [() => run.reloadPlugins(), { subtype: 'reload_plugins' }],
      [() => run.reloadSkills(), { subtype: 'reload_skills' }],
      [() => run.reloadOutputStyles(), { subtype: 'reload_output_styles' }],
      [() => run.stopTask('t'), { subtype: 'stop_task', task_id: 't' }],
      [() => run.backgroundTasks('t'), { subtype: 'background_tasks', tool_use_id: 't' }],
      [() => run.cancelAsyncMessage('u'), { subtype: 'cancel_async_message', message_uuid: 'u' }],
      [() => run.interrupt({ cancelQueued: true }), { subtype: 'interrupt', cancel_queued: true }],
      [() => run.request({ subtype: 'anything', x: 1 }), { subtype: 'anything', x: 1 }],
    ];
    for (const [call, request] of rows) {
      const answer = call();
      const frame = await cli.until('control_request');
      expect(frame.request).toEqual(request);
      cli.answer(frame.request_id);
      await answer;
    }
    expect(await run.supportedCommands()).toEqual([{ name: 'c' }]);
    expect(await run.supportedModels()).toEqual([{ value: 'm' }]);
    expect(await run.supportedAgents()).toEqual([{ name: 'a' }]);
    expect(await run.accountInfo()).toEqual({ email: 'e' });
    expect(await run.initializationResult()).toMatchObject({ account: { email: 'e' } });
    const again = run.reinitialize();
    cli.answer((await cli.until('control_request', 'initialize')).request_id, { again: true });
    expect(await again).toEqual({ again: true });
    await run[Symbol.asyncDispose]();
  });

  test('setMcpServers gives in-process servers their end before the CLI asks for it', async () => {
    const { cli, run } = played('x');
    await cli.initialize();
    const setting = run.setMcpServers({
      late: createRegistry({ name: 'late', version: '1' }),
      ext: { command: 'c' },
    });
    const frame = await cli.until('control_request', 'mcp_set_servers');
    expect(frame.request['servers']).toEqual({
      ext: { command: 'c' },
      late: { type: 'sdk', name: 'late' },
    });
    const message = { jsonrpc: '2.0', id: 0, method: 'ping' };
    const pinged = cli.request({ subtype: 'mcp_message', server_name: 'late', message });
    expect(await cli.answerTo(pinged)).toMatchObject({
      response: { mcp_response: { result: {} } },
    });
    cli.answer(frame.request_id, { added: ['late'] });
    expect(await setting).toEqual({ added: ['late'] });
    await run[Symbol.asyncDispose]();
  });

  test('startup warms a process up, and tells when it does not come up', async () => {
    const cli = new FakeCli();
    void cli.ended.then(() => cli.peer.exit());
    void cli.initialize();
    const warm = await startup({ options: { transport: () => cli.transport } });
    const run = warm.query('now');
    const reading = collect(run);
    await cli.until('user');
    cli.say(cli.result());
    expect(await reading).toHaveLength(1);
    const dead = new FakeCli();
    dead.peer.exit({ code: 1 });
    await expect(startup({ options: { transport: () => dead.transport } })).rejects.toMatchObject({
      code: 'peer_exited',
    });
  });

  test('takes a process that the app started itself', async () => {
    const events = new EventEmitter();
    const child = Object.assign(events, {
      stdin: new PassThrough(),
      stdout: new PassThrough(),
      exitCode: null,
      killed: [] as string[],
      kill(signal: string) {
        this.killed.push(signal);
        if (signal === 'SIGKILL') events.emit('exit', null, signal);
        return true;
      },
    });
    const launches: unknown[] = [];
    const session = await openSession({
      env: { A: 'b' },
      graceMs: 5,
      killMs: 5,
      spawnClaudeCodeProcess: (options) => {
        launches.push(options);
        return child as unknown as SpawnedProcess;
      },
    });
    expect(launches).toMatchObject([
      { args: expect.arrayContaining(['--verbose']) as unknown, env: { A: 'b' } },
    ]);
    child.stdout.write(`${JSON.stringify({ type: 'result', is_error: false })}\n`);
    await session.send('x');
    expect(await collect(session.response())).toHaveLength(1);
    const disposing = session[Symbol.asyncDispose]();
    child.stdout.end();
    await disposing;
    expect(child.killed).toEqual(['SIGTERM', 'SIGKILL']);
  });
});

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

  test('a store that fails never stops the session, and is told', async () => {
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
    expect(() => expectToolCalled(session, 'Bash')).toThrow('has no answer');
    expect(() => expectToolCalled(session, 'other')).toThrow(
      'other was not called (called: mcp__s__good, mcp__s__bad, Bash)',
    );
  });
});
