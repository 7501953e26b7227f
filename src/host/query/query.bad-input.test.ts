import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { collect, FakeCli, keptLogger, playedSession } from '../../../test/support/fake-cli.ts';
import type { JsonObject } from '../../json.ts';
import { spawnProcess } from '../../process/spawn.ts';
import type { QueryOptions } from '../options/options.ts';
import { query, type QueryInput } from './query.ts';

const cyclic: Record<string, unknown> = {};
cyclic['self'] = cyclic;

/** Options that cannot be meant, and what is said about them. */
const WRONG: readonly (readonly [options: JsonObject, message: RegExp])[] = [
  [{ cwd: 7 }, /^cwd must be a text, got 7$/],
  [{ model: 5 }, /^model must be a text/],
  [{ resume: null }, /^resume must be a text, got null$/],
  [{ allowedTools: 'Bash' }, /^allowedTools must be a list of texts, .* got "Bash"$/],
  [{ disallowedTools: [/Bash/] }, /^disallowedTools must be a list of texts/],
  [{ additionalDirectories: '/tmp' }, /^additionalDirectories must be a list/],
  [{ tools: 'Bash' }, /^tools must be a list of names, \[\] for none/],
  [{ systemPrompt: 5 }, /^systemPrompt must be a text/],
  [{ systemPrompt: { type: 'presett' } }, /^systemPrompt must be a text.* got an object$/],
  [{ maxTurns: 1.5 }, /^maxTurns must be a whole number of at least 1, got 1.5$/],
  [{ maxTurns: '5' }, /^maxTurns must be a whole number/],
  [{ maxTurns: Number.NaN }, /^maxTurns must be .* got NaN$/],
  [
    { graceMs: Infinity },
    /^graceMs must be a positive number of at most 2147483647, got Infinity$/,
  ],
  [{ interruptMs: 1e12 }, /^interruptMs must be/],
  [{ memoryBytes: -1 }, /^memoryBytes must be a positive number/],
  [{ stall: 5000 }, /^stall must be false, or \{ afterMs \}/],
  [{ thinking: 'high' }, /^thinking must be \{ type/],
  [{ effort: 'ultra' }, /^effort must be low, medium/],
  [{ outputFormat: { type: 'json_schema' } }, /^outputFormat must be/],
  [{ outputFormat: { type: 'json_schema', schema: z.object({}) } }, /take z\.toJSONSchema\(\)/],
  [{ hooks: { PreToolUse: async () => ({}) } }, /^hooks must be an object of events, each a list/],
  [{ hooks: { PreToolUse: [async () => ({})] } }, /^hooks must be/],
  [{ hooks: { PreToolUse: [{ hooks: ['x'] }] } }, /^hooks must be/],
  [{ hooks: { PreToolUsed: [] } }, /there is no hook event PreToolUsed/],
  [{ canUseTool: true }, /^canUseTool must be a function, got true$/],
  [{ stderr: 'inherit' }, /^stderr must be a function/],
  [{ abortController: AbortSignal.abort() }, /^abortController must be an AbortController/],
  [{ sessionStore: {} }, /^sessionStore must be an object with append and load/],
  [{ mcpServers: [] }, /^mcpServers must be an object of servers by name, got a list$/],
  [{ mcpServers: { a: { type: 'pigeon', url: 'http://h' } } }, /^mcpServers\.a\.type must be/],
  [{ mcpServers: { a: { type: 'http', url: 'no url' } } }, /^mcpServers\.a\.url is no URL/],
  [{ plugins: ['/x'] }, /^plugins must be a list of/],
  [{ extraArgs: { a: 5 } }, /^extraArgs must be an object of texts/],
  [{ extraArgs: { '--a': 'b' } }, /by names without dashes/],
  [{ agents: { a: 'b' } }, /^agents must be an object of agents by name/],
  [{ agents: { a: { description: 5n } } }, /^agents has no JSON form/],
  [{ settings: cyclic }, /^settings are no JSON/],
  [{ settings: '{"half', sandbox: {} }, /^settings are no JSON/],
  [{ settings: '/a/file.json', sandbox: {} }, /give the settings as an object/],
  [{ pathToClaudeCodeExecutable: '' }, /^pathToClaudeCodeExecutable must be the path of a CLI/],
  [{ model: 'm', fallbackModel: 'm' }, /^fallbackModel is the model itself, m/],
  [{ resume: 'a', continue: true }, /give one of them/],
  [{ maxTurn: 5 }, /^there is no option maxTurn; maxTurns is meant$/],
  [{ allowed_tools: [] }, /^there is no option allowed_tools; allowedTools is meant$/],
];

describe('an option that cannot be meant', () => {
  test.each(
    WRONG.map(([options, message]) => [Object.keys(options).join(' and '), options, message]),
  )('is refused before anything is started: %s %#', async (_, options, message) => {
    const transport = (): never => {
      throw new Error('it was started');
    };
    const run = query({ prompt: 'x', options: { transport, ...(options as QueryOptions) } });
    await expect(run.next()).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message as RegExp) as string,
    });
  });

  test('is told of, whatever is not there at all', async () => {
    const options = null as unknown as QueryOptions;
    await expect(query({ prompt: 'x', options }).next()).rejects.toMatchObject({ code: 'invalid' });
  });

  test('is no option of ours, and does nothing', async () => {
    const own: JsonObject = { ownNotes: 'x' };
    const { cli, session } = await playedSession(own);
    await cli.initialize();
    await session[Symbol.asyncDispose]();
    expect(cli.inputEnded).toBe(true);
  });
});

describe('a prompt that is none', () => {
  test.each([[undefined], [null], [5], [{ a: 1 }], [[{ type: 'user' }]]])(
    'is refused at once: %o',
    (prompt) => {
      const given = prompt as unknown as QueryInput['prompt'];
      expect(() => query({ prompt: given })).toThrow(
        expect.objectContaining({
          code: 'invalid',
          message: expect.stringContaining(
            'a text or an async iterable of user messages',
          ) as string,
        }),
      );
    },
  );

  test.each([
    [null],
    [{ type: 'user' }],
    [{ type: 'user', message: { role: 'assistant', content: 'x' } }],
  ])(
    'ends the run with an error that shows the shape, and no process leaves over it: %o',
    async (message) => {
      const cli = new FakeCli();
      void cli.ended.then(() => cli.peer.exit());
      async function* prompt(): AsyncGenerator<never, void, undefined> {
        yield message as never;
      }
      const run = query({ prompt: prompt(), options: { transport: () => cli.transport } });
      await expect(collect(run)).rejects.toMatchObject({
        code: 'invalid',
        message: expect.stringContaining("{ type: 'user', message: { role: 'user'") as string,
      });
    },
  );
});

test('a stderr callback that throws is told once, and the program goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-stderr-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const cli = join(folder, 'cli.mjs');
  writeFileSync(cli, "for (const n of [1, 2]) console.error('line', n); process.exitCode = 3;");
  const { logger, lines } = keptLogger();
  const run = query({
    prompt: 'x',
    options: {
      pathToClaudeCodeExecutable: cli,
      logger,
      stderr() {
        throw new Error('mine');
      },
    },
  });
  await expect(collect(run)).rejects.toMatchObject({ code: 'peer_exited' });
  expect(lines.filter(({ message }) => message.includes('stderr callback'))).toHaveLength(1);
});

test('a process that cannot be asked for is told of, and leaves nothing waiting', async () => {
  const cwd = 7 as unknown as string;
  const { exited } = spawnProcess({ command: 'node', args: [], env: {}, cwd });
  expect(await exited).toMatchObject({ code: null, startError: { code: 'invalid' } });
});

test('a process of the app that has no pipes is refused', async () => {
  const options = { spawnClaudeCodeProcess: (() => undefined) as never };
  await expect(query({ prompt: 'x', options }).next()).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('without stdin or stdout') as string,
  });
});

describe('a CLI that refuses initialize', () => {
  const refuse = async (cli: FakeCli): Promise<void> => {
    const { request_id } = await cli.until('control_request', 'initialize');
    cli.say({
      type: 'control_response',
      response: { subtype: 'error', request_id, error: 'no such thing' },
    });
  };

  test('must not work without the hooks that it was given', async () => {
    const { logger } = keptLogger();
    const hooks = { PreToolUse: [{ hooks: [async () => ({})] }] };
    const { cli, session } = await playedSession({ logger, hooks });
    await refuse(cli);
    await expect(session.done).rejects.toMatchObject({
      message: 'the peer refused initialize: no such thing',
    });
  });

  test('may do so with none, and it is told', async () => {
    const { logger, lines } = keptLogger();
    const { cli, session } = await playedSession({ logger });
    await session.send('x');
    session.endInput();
    await refuse(cli);
    cli.say(cli.result());
    expect(await collect(session.messages())).toHaveLength(1);
    expect(lines.map(({ message }) => message)).toContain('the agent refused initialize');
  });
});
