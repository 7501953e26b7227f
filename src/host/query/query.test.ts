import { EventEmitter, getEventListeners } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { collect, FakeCli } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { JsonObject } from '../../json.ts';
import { createRegistry } from '../../mcp/registry/registry.ts';
import type { UserInput } from '../sdk-types/message-types.ts';
import { asStream } from '../frames/host-messages.ts';
import { openSession } from '../session/open-session.ts';
import type { Options } from '../options/options.ts';
import { AbortError, query, type QueryInput } from './query.ts';
import type { SpawnedProcess } from '../launch/custom-process.ts';
import { startup } from './warm-query.ts';

function played(
  prompt: QueryInput['prompt'],
  options: Options = {},
): { readonly cli: FakeCli; readonly run: ReturnType<typeof query> } {
  const cli = new FakeCli();
  void cli.ended.then(() => cli.peer.exit());
  return { cli, run: query({ prompt, options: { transport: () => cli.transport, ...options } }) };
}

const user = (text: string, more: JsonObject = {}): UserInput => ({
  type: 'user',
  message: { role: 'user', content: text },
  ...more,
});

/** A prompt that stays open and sends nothing. */
async function* neverPrompts(): AsyncGenerator<UserInput, void, undefined> {
  await new Promise(() => {});
}

describe('query', () => {
  verifies(['S25', 'S94', 'S98'], 'a string is sent as a stream of one message', async () => {
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

  test('calls of next that do not wait for each other get the messages in order', async () => {
    const { cli, run } = played('hi');
    const early = Array.from({ length: 3 }, () => run.next());
    await cli.initialize();
    await cli.until('user');
    cli.say(cli.assistant('one'), cli.assistant('two'), cli.assistant('three'));
    const texts = (await Promise.all(early)).map(({ value }) => JSON.stringify(value));
    for (const [index, word] of ['one', 'two', 'three'].entries())
      expect(texts[index]).toContain(`"${word}"`);
    cli.say(cli.assistant('four'), cli.result());
    expect((await collect(run)).map(({ type }) => type)).toEqual(['assistant', 'result']);
    expect(await run.next()).toEqual({ done: true, value: undefined });
  });

  test('the first next rejects if the session cannot be opened, and the loop is then over', async () => {
    const run = query({ prompt: 'hi', options: { maxTurns: -1 } });
    await expect(run.next()).rejects.toMatchObject({ code: 'invalid' });
    expect(await run.next()).toEqual({ done: true, value: undefined });
  });

  verifies(
    ['S94', 'S99', 'S105'],
    'an iterable may yield more later, one line per message',
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

  test('readFile is null for a file that the CLI refuses, backgroundTasks is a boolean', async () => {
    const { cli, run } = played(neverPrompts());
    await cli.initialize();
    const reading = run.readFile('/etc/shadow');
    const { request_id } = await cli.until('control_request');
    const response = { subtype: 'error', request_id, error: 'read denied' };
    cli.say({ type: 'control_response', response });
    expect(await reading).toBeNull();
    for (const [answer, expected] of [
      [{}, true],
      [{ backgrounded: true }, true],
      [{ backgrounded: false }, false],
    ] as const) {
      const moved = run.backgroundTasks();
      cli.answer((await cli.until('control_request')).request_id, answer);
      expect(await moved).toBe(expected);
    }
    await run.return();
  });

  test('the error of a CLI that exits has its exit code', async () => {
    const { cli, run } = played('x');
    const reading = collect(run);
    await cli.initialize();
    await cli.until('user');
    cli.peer.exit({ code: 7 });
    await expect(reading).rejects.toMatchObject({ code: 'peer_exited', exitCode: 7 });
  });

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

  verifies(
    'S108',
    'breaking out of the loop, an error in it, and close end the process',
    async () => {
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
    },
  );

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
    expect(() => played('x', { abortController })).toThrow(AbortError);
  });

  verifies(
    'S11',
    'closing stops the input immediately, although the iterable never ends',
    async () => {
      let left = 0;
      const deaf: AsyncIterator<UserInput> = {
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
    },
  );

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

  test('hides messages for the host: life cycles of generated uuids, noise, decisions', async () => {
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
    expect(
      (await reading).map((message: JsonObject) => message['command_uuid'] ?? message['type']),
    ).toEqual(['mine', 'result']);
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
        () => run.readFile('/p', { maxBytes: 1, encoding: 'base64' }),
        { subtype: 'read_file', path: '/p', max_bytes: 1, encoding: 'base64' },
      ],
      [() => run.reloadPlugins(), { subtype: 'reload_plugins' }],
      [
        () => run.reloadPlugins({ holdOnCacheImpact: true, addPlugins: [], refuseIfBusy: false }),
        {
          subtype: 'reload_plugins',
          hold_on_cache_impact: true,
          add_plugins: [],
          refuse_if_busy: false,
        },
      ],
      [
        () => run.setMaxThinkingTokens(5, 'summarized'),
        {
          subtype: 'set_max_thinking_tokens',
          max_thinking_tokens: 5,
          thinking_display: 'summarized',
        },
      ],
      [
        () =>
          run.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET({ skipBehaviors: true }),
        { subtype: 'get_usage', skip_behaviors: true },
      ],
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

  test('setMcpServers replaces in-process servers before the CLI connects to them', async () => {
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

  test('leaves no listener on a signal that many runs share', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    const abortController = new AbortController();
    const one = async (): Promise<void> => {
      const { cli, run } = played('x', { abortController });
      const reading = collect(run);
      await cli.initialize();
      cli.say(cli.result());
      await reading;
    };
    await Promise.all(Array.from({ length: 15 }, one));
    expect(getEventListeners(abortController.signal, 'abort')).toEqual([]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
    const { run } = played('x', { abortController });
    abortController.abort();
    await expect(collect(run)).rejects.toBeInstanceOf(AbortError);
  });

  test('startup starts a CLI before its prompt, and rejects if it does not respond', async () => {
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
    const mute = new FakeCli();
    void mute.ended.then(() => mute.peer.exit());
    const options = { transport: () => mute.transport };
    await expect(startup({ options, initializeTimeoutMs: 20 })).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('did not respond to initialize') as string,
    });
    await mute.ended;
    const aborted = new FakeCli();
    void aborted.ended.then(() => aborted.peer.exit());
    const abortController = new AbortController();
    const starting = startup({
      options: { transport: () => aborted.transport, abortController },
    });
    await aborted.until('control_request');
    abortController.abort();
    await expect(starting).rejects.toBeInstanceOf(AbortError);
    expect(() => warm.query('again')).toThrow(expect.objectContaining({ code: 'conflict' }));
  });

  test('accepts a process that the app started itself', async () => {
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
