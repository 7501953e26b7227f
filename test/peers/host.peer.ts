import { describe, expect, test } from 'vitest';
import {
  asStream,
  createSdkMcpServer,
  expectToolCalled,
  openSession,
  query,
  type SDKUserMessage,
  type Session,
  type SessionOptions,
  tool,
} from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { collect, keptLogger } from '../support/fake-cli.ts';
import { type ModelReply, type ModelScript, startModelServer } from '../support/model-server.ts';
import { findRealCli, REAL_CLIS, realCli, type RealCliName } from '../support/real-cli.ts';
import { suite } from '../verifies.ts';

const ANY = { type: 'object', properties: { n: { type: 'number' } } } as const;
const READ_ONLY = { annotations: { readOnlyHint: true } };

const call = (name: string, input: JsonObject = {}, id?: string): ModelReply => ({
  tools: [{ name, input, ...(id !== undefined && { id }) }],
});
const results = (messages: readonly JsonObject[]): readonly JsonObject[] =>
  messages.filter(({ type }) => type === 'result');

for (const name of Object.keys(REAL_CLIS) as RealCliName[]) {
  const { command, missing } = await findRealCli(name);

  /** Options for this CLI in a place of its own, with a scripted model. */
  async function placed(
    script: ModelScript,
    more: SessionOptions = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<
    AsyncDisposable & {
      readonly options: SessionOptions;
      readonly calls: readonly { readonly body: JsonObject }[];
    }
  > {
    const model = await startModelServer(script);
    const place = realCli({ command, modelUrl: model.url, env });
    return {
      calls: model.calls,
      options: {
        pathToClaudeCodeExecutable: command,
        cwd: place.cwd,
        env: place.env,
        model: 'scripted',
        permissionMode: 'default',
        settingSources: [],
        tools: [],
        ...more,
      },
      async [Symbol.asyncDispose]() {
        await model[Symbol.asyncDispose]();
        await place[Symbol.asyncDispose]();
      },
    };
  }

  const calc = (
    handler: (args: JsonObject) => unknown,
  ): NonNullable<SessionOptions['mcpServers']> => ({
    calc: createSdkMcpServer({
      name: 'calc',
      tools: [
        tool('run', 'Runs', ANY, handler as () => string),
        tool('look', 'Looks', ANY, handler as () => string, READ_ONLY),
      ],
    }),
  });

  suite(`host with ${name}`, missing, () => {
    describe('tools', () => {
      test('a text prompt with an in-process tool', async () => {
        await using place = await placed([call('mcp__calc__run', { n: 5 }), { text: 'done' }], {
          mcpServers: calc(({ n }) => `got ${String(n)}`),
          allowedTools: ['mcp__calc__*'],
        });
        const run = query({ prompt: 'go', options: place.options });
        const seen = await collect(run);
        expect(results(seen)).toMatchObject([{ subtype: 'success', result: 'done' }]);
        expect(expectToolCalled(await run.session, 'run')).toMatchObject({ input: { n: 5 } });
        expect(JSON.stringify(place.calls[1]?.body['messages'])).toContain('got 5');
      });

      test('an iterable prompt: two turns with a tool, and stdin open in between', async () => {
        let answered = (): void => {};
        const first = new Promise<void>((resolve) => (answered = resolve));
        async function* prompt(): AsyncGenerator<SDKUserMessage, void, undefined> {
          yield* asStream('first');
          await first;
          yield* asStream('second');
        }
        await using place = await placed(
          [
            call('mcp__calc__run', { n: 1 }, 'toolu_one'),
            { text: 'one' },
            call('mcp__calc__run', { n: 2 }, 'toolu_two'),
            { text: 'two' },
          ],
          { mcpServers: calc(({ n }) => `got ${String(n)}`), allowedTools: ['mcp__calc__*'] },
        );
        const run = query({ prompt: prompt(), options: place.options });
        const seen: JsonObject[] = [];
        for await (const message of run) {
          seen.push(message);
          if (message.type === 'result') answered();
        }
        expect(results(seen)).toMatchObject([{ result: 'one' }, { result: 'two' }]);
        expect((await run.session).calls).toMatchObject([
          { input: { n: 1 }, isError: false },
          { input: { n: 2 }, isError: false },
        ]);
        expect(JSON.stringify(place.calls.at(-1)?.body['messages'])).toContain('got 2');
      });

      test('an in-process tool asks the person, though this CLI knows no such thing', async () => {
        const ask = tool('name', 'Asks who it is', ANY, async (_, { sendRequest }) => {
          const params = { message: 'Who?', requestedSchema: ANY };
          const answer = await sendRequest({ method: 'elicitation/create', params });
          return JSON.stringify(answer['content']);
        });
        await using place = await placed([call('mcp__ask__name'), { text: 'done' }], {
          mcpServers: { ask: createSdkMcpServer({ name: 'ask', tools: [ask] }) },
          allowedTools: ['mcp__ask__*'],
          onElicitation: () => ({ action: 'accept', content: { name: 'Ada' } }),
        });
        const run = query({ prompt: 'go', options: place.options });
        expect(results(await collect(run))).toMatchObject([{ result: 'done' }]);
        expect(JSON.stringify(place.calls[1]?.body['messages'])).toContain('Ada');
      });

      test('several turns in one session, each response its own, all servers listed', async () => {
        await using place = await placed(
          [call('mcp__calc__run', { n: 1 }), { text: 'one' }, { text: 'two' }],
          { mcpServers: calc(() => 'ok'), allowedTools: ['mcp__calc__*'] },
        );
        await using session = await openSession(place.options);
        await session.send('first'); // the older CLI lists with its first turn only
        expect(await session.ready()).toEqual({
          servers: [{ name: 'calc', registered: 2, listed: 2 }],
        });
        expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'one' });
        await session.send('second');
        expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'two' });
        session.endInput();
        expect(await session.done).toEqual({ code: 0 });
      });

      test('a message during a tool call is folded into the turn, and the session still ends', async () => {
        let begin = (): void => {};
        let finish = (): void => {};
        const begun = new Promise<void>((resolve) => (begin = resolve));
        await using place = await placed([call('mcp__calc__run'), { text: 'saw both' }], {
          mcpServers: calc(() => {
            begin();
            return new Promise((resolve) => (finish = () => resolve('ok')));
          }),
          allowedTools: ['mcp__calc__*'],
          exitMs: 1000,
        });
        const session = await openSession(place.options);
        await session.send('first');
        await begun;
        await session.send('also this');
        session.endInput();
        await new Promise((resolve) => setTimeout(resolve, 300)); // the CLI reads it meanwhile
        finish();
        expect(results(await collect(session.messages()))).toMatchObject([{ result: 'saw both' }]);
        expect(await session.done).toEqual({ code: 0 });
        await session[Symbol.asyncDispose]();
      });

      test('32 read-only tools in one answer', async () => {
        let running = 0;
        let most = 0;
        const tools = Array.from({ length: 32 }, (_, n) => ({
          name: 'mcp__calc__look',
          input: { n },
        }));
        await using place = await placed([{ tools }, { text: 'all' }], {
          mcpServers: calc(async ({ n }) => {
            running += 1;
            most = Math.max(most, running);
            await new Promise((resolve) => setTimeout(resolve, 200));
            running -= 1;
            return `result ${String(n)}`;
          }),
          allowedTools: ['mcp__calc__*'],
        });
        const seen = await collect(query({ prompt: 'go', options: place.options }));
        expect(results(seen)).toMatchObject([{ result: 'all' }]);
        expect(most).toBeGreaterThan(1);
        for (let n = 0; n < 32; n++)
          expect(JSON.stringify(place.calls[1]?.body['messages'])).toContain(`result ${n}`);
      });

      test('a tool that throws is an error for the model, not for the session', async () => {
        await using place = await placed([call('mcp__calc__run'), { text: 'sorry' }], {
          mcpServers: calc(() => {
            throw new Error('no such number');
          }),
          allowedTools: ['mcp__calc__*'],
        });
        const run = query({ prompt: 'go', options: place.options });
        await collect(run);
        const used = expectToolCalled(await run.session, 'run', { isError: true });
        expect(JSON.stringify(used.content)).toContain('no such number');
      });
    });

    describe('control', () => {
      test('permissions: allow, changed, deny', async () => {
        const inputs: unknown[] = [];
        await using place = await placed(
          [1, 2, 3].map((n) => call('mcp__calc__run', { n })).concat({ text: 'end' }),
          {
            mcpServers: calc(({ n }) => {
              inputs.push(n);
              return 'ok';
            }),
            canUseTool: (_name, { n }) =>
              n === 1
                ? { behavior: 'allow' }
                : n === 2
                  ? { behavior: 'allow', updatedInput: { n: 20 } }
                  : { behavior: 'deny', message: 'not three' },
          },
        );
        const run = query({ prompt: 'go', options: place.options });
        const seen = await collect(run);
        expect(inputs).toEqual([1, 20]);
        expect(results(seen)).toMatchObject([
          { permission_denials: [{ tool_name: 'mcp__calc__run' }] },
        ]);
        const { decisions } = await run.session;
        expect(decisions.map(({ behavior }) => behavior)).toEqual(['allow', 'allow', 'deny']);
      });

      test('hooks see a tool before and after it', async () => {
        const seen: string[] = [];
        const note = ({ hook_event_name }: { readonly hook_event_name: string }): JsonObject => {
          seen.push(hook_event_name);
          return {};
        };
        await using place = await placed([call('mcp__calc__run'), { text: 'end' }], {
          mcpServers: calc(() => 'ok'),
          allowedTools: ['mcp__calc__*'],
          hooks: {
            PreToolUse: [{ matcher: 'mcp__calc__run', hooks: [note] }],
            PostToolUse: [{ hooks: [note] }],
            Stop: [{ hooks: [note] }],
          },
        });
        await collect(query({ prompt: 'go', options: place.options }));
        expect(seen).toEqual(['PreToolUse', 'PostToolUse', 'Stop']);
      });

      test('an interrupt ends its turn, and only that', async () => {
        await using place = await placed(
          [
            { text: Array.from({ length: 200 }, (_, n) => `word ${n} `), pieceDelayMs: 50 },
            { text: 'second' },
          ],
          { includePartialMessages: true },
        );
        await using session = await openSession(place.options);
        await session.send('long');
        for await (const message of session.response()) {
          if (message['type'] === 'stream_event' && JSON.stringify(message).includes('word 3'))
            break;
        }
        await session.interrupt();
        await session.send('next');
        const seen = await collect(session.response());
        expect(results(seen)).toMatchObject([{ subtype: 'success', result: 'second' }]);
      });

      test('set model and mode, ask for anything, and what the CLI does not know is told', async () => {
        await using place = await placed([{ text: 'x' }]);
        await using session = await openSession(place.options);
        await session.ready();
        expect(await session.request('set_permission_mode', { mode: 'acceptEdits' })).toMatchObject(
          { mode: 'acceptEdits' },
        );
        await session.request('set_model', { model: 'other' });
        await expect(session.request('no_such_request')).rejects.toBeInstanceOf(Error);
        await session.send('x');
        const seen = await collect(session.response());
        expect(seen.find(({ subtype }) => subtype === 'init')).toMatchObject({
          permissionMode: 'acceptEdits',
          model: 'other',
        });
      });

      test('structured output', async () => {
        const schema = {
          type: 'object',
          properties: { city: { type: 'string' } },
          required: ['city'],
        };
        await using place = await placed([call('StructuredOutput', { city: 'Berlin' })], {
          outputFormat: { type: 'json_schema', schema },
        });
        const seen = await collect(query({ prompt: 'go', options: place.options }));
        expect(results(seen)).toMatchObject([{ structured_output: { city: 'Berlin' } }]);
      });
    });

    describe('ends', () => {
      test('closing during a call aborts the handler and leaves quietly', async () => {
        let aborted = false;
        let begin = (): void => {};
        const begun = new Promise<void>((resolve) => (begin = resolve));
        await using place = await placed([call('mcp__calc__run'), { text: 'never' }], {
          mcpServers: {
            calc: createSdkMcpServer({
              name: 'calc',
              tools: [
                tool('run', 'Runs', ANY, (_args: JsonObject, { signal }) => {
                  begin();
                  return new Promise<string>((resolve) =>
                    signal.addEventListener('abort', () => {
                      aborted = true;
                      resolve('late');
                    }),
                  );
                }),
              ],
            }),
          },
          allowedTools: ['mcp__calc__*'],
        });
        const session: Session = await openSession(place.options);
        await session.send('go');
        await begun;
        await session[Symbol.asyncDispose]();
        expect(aborted).toBe(true);
        await session.done;
        expect(place.calls).toHaveLength(1); // the model was not called again
      });

      test('a CLI that is killed is a typed error', async () => {
        const pids: number[] = [];
        await using place = await placed([{ text: 'never', fail: { after: 1, how: 'hang' } }], {
          includePartialMessages: true,
        });
        const { spawnProcess } = await import('../../src/process/index.ts');
        const session = await openSession({
          ...place.options,
          transport: (launch) => {
            const child = spawnProcess(launch);
            pids.push(child.pid ?? 0);
            return child;
          },
        });
        await session.send('go');
        await expect(
          (async () => {
            for await (const { type } of session.messages())
              if (type === 'stream_event') process.kill(pids[0] as number, 'SIGKILL');
          })(),
        ).rejects.toMatchObject({ code: 'peer_exited', cause: { signal: 'SIGKILL' } });
        await session[Symbol.asyncDispose]();
      });

      test('resume goes on, and a fork gets an id of its own', async () => {
        await using place = await placed([{ text: 'one' }, { text: 'two' }, { text: 'three' }]);
        const first = query({ prompt: 'remember 42', options: place.options });
        await collect(first);
        const { id } = await first.session;
        const second = query({ prompt: 'again', options: { ...place.options, resume: id } });
        await collect(second);
        expect((await second.session).id).toBe(id);
        expect(JSON.stringify(place.calls[1]?.body['messages'])).toContain('remember 42');
        const fork = query({
          prompt: 'fork',
          options: { ...place.options, resume: id, forkSession: true },
        });
        await collect(fork);
        expect((await fork.session).id).not.toBe(id);
      });

      for (const status of [429, 500, 529]) {
        test(`the model fails with ${status}, then answers`, async () => {
          await using place = await placed([{ status, message: 'boom' }, { text: 'after all' }]);
          const seen = await collect(query({ prompt: 'go', options: place.options }));
          expect(seen.some((each) => each.type === 'system' && each.subtype === 'api_retry')).toBe(
            true,
          );
          expect(results(seen)).toMatchObject([{ result: 'after all' }]);
        });
      }

      test('the model fails for good: an error result, yielded and thrown by query alone', async () => {
        const { lines, logger } = keptLogger();
        const script = (): ModelReply => ({ status: 500, message: 'boom' });
        await using place = await placed(script, { logger }, { CLAUDE_CODE_MAX_RETRIES: '1' });
        const seen: JsonObject[] = [];
        await expect(
          (async () => {
            for await (const message of query({ prompt: 'go', options: place.options }))
              seen.push(message);
          })(),
        ).rejects.toThrow(/error result.*500/);
        expect(results(seen)).toMatchObject([{ is_error: true }]);
        await using session = await openSession(place.options);
        await session.send('go');
        session.endInput();
        expect(results(await collect(session.messages()))).toMatchObject([{ is_error: true }]);
        expect(await session.done).toEqual({ code: 1 });
        expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
      });
    });
  });
}
