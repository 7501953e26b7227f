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
  [{ cwd: 7 }, /^cwd must be a string, got 7$/],
  [{ model: 5 }, /^model must be a string/],
  [{ resume: null }, /^resume must be a string, got null$/],
  [{ allowedTools: 'Bash' }, /^allowedTools must be an array of strings, .* got "Bash"$/],
  [{ disallowedTools: [/Bash/] }, /^disallowedTools must be an array of strings/],
  [{ additionalDirectories: '/tmp' }, /^additionalDirectories must be an array/],
  [{ tools: 'Bash' }, /^tools must be an array of names, \[\] for no tools/],
  [{ systemPrompt: 5 }, /^systemPrompt must be a string/],
  [{ systemPrompt: { type: 'presett' } }, /^systemPrompt must be a string.* got an object$/],
  [{ maxTurns: 1.5 }, /^maxTurns must be an integer of at least 1, got 1.5$/],
  [{ maxTurns: '5' }, /^maxTurns must be an integer/],
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
  [{ outputFormat: { type: 'json_schema', schema: z.object({}) } }, /with z\.toJSONSchema\(\)/],
  [
    { hooks: { PreToolUse: async () => ({}) } },
    /^hooks must be an object of events, each an array/,
  ],
  [{ hooks: { PreToolUse: [async () => ({})] } }, /^hooks must be/],
  [{ hooks: { PreToolUse: [{ hooks: ['x'] }] } }, /^hooks must be/],
  [{ hooks: { PreToolUsed: [] } }, /unknown hook event "PreToolUsed"/],
  [{ canUseTool: true }, /^canUseTool must be a function, got true$/],
  [{ stderr: 'inherit' }, /^stderr must be a function/],
  [{ abortController: AbortSignal.abort() }, /^abortController must be an AbortController/],
  [{ sessionStore: {} }, /^sessionStore must be an object with append and load/],
  [{ mcpServers: [] }, /^mcpServers must be an object of servers by name, got an array$/],
  [{ mcpServers: { a: { type: 'pigeon', url: 'http://h' } } }, /^mcpServers\.a\.type must be/],
  [{ mcpServers: { a: { type: 'http', url: 'no url' } } }, /^mcpServers\.a\.url must be a URL/],
  [{ plugins: ['/x'] }, /^plugins must be an array of/],
  [{ extraArgs: { a: 5 } }, /^extraArgs must be an object of strings/],
  [{ extraArgs: { '--a': 'b' } }, /by names without dashes/],
  [{ agents: { a: 'b' } }, /^agents must be an object of agents by name/],
  [{ agents: { a: { description: 5n } } }, /^agents must have a JSON form/],
  [{ settings: cyclic }, /^settings must be JSON/],
  [{ settings: '{"half', sandbox: {} }, /^settings must be JSON/],
  [{ settings: '/a/file.json', sandbox: {} }, /pass the settings as an object/],
  [{ pathToClaudeCodeExecutable: '' }, /^pathToClaudeCodeExecutable must be the path of a CLI/],
  [{ model: 'm', fallbackModel: 'm' }, /^fallbackModel is the same as model, "m"/],
  [{ resume: 'a', continue: true }, /set only one of them/],
  [{ maxTurn: 5 }, /^unknown option "maxTurn"; did you mean "maxTurns"\?$/],
  [{ allowed_tools: [] }, /^unknown option "allowed_tools"; did you mean "allowedTools"\?$/],
];

describe('an invalid option', () => {
  test.each(
    WRONG.map(([options, message]) => [Object.keys(options).join(' and '), options, message]),
  )('is rejected before a process is started: %s %#', async (_, options, message) => {
    const transport = (): never => {
      throw new Error('it was started');
    };
    const run = query({ prompt: 'x', options: { transport, ...(options as QueryOptions) } });
    await expect(run.next()).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message as RegExp) as string,
    });
  });

  test('options that are null are rejected', async () => {
    const options = null as unknown as QueryOptions;
    await expect(query({ prompt: 'x', options }).next()).rejects.toMatchObject({ code: 'invalid' });
  });

  test('an unknown member that resembles no option is ignored', async () => {
    const own: JsonObject = { ownNotes: 'x' };
    const { cli, session } = await playedSession(own);
    await cli.initialize();
    await session[Symbol.asyncDispose]();
    expect(cli.inputEnded).toBe(true);
  });
});

describe('an invalid prompt', () => {
  test.each([[undefined], [null], [5], [{ a: 1 }], [[{ type: 'user' }]]])(
    'throws before a process is started: %o',
    (prompt) => {
      const given = prompt as unknown as QueryInput['prompt'];
      expect(() => query({ prompt: given })).toThrow(
        expect.objectContaining({
          code: 'invalid',
          message: expect.stringContaining(
            'a string or an async iterable of user messages',
          ) as string,
        }),
      );
    },
  );

  test.each([
    [null],
    [{ type: 'user' }],
    [{ type: 'user', message: { role: 'assistant', content: 'x' } }],
  ])('in a stream ends the run with an error that shows the expected form: %o', async (message) => {
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
  });
});

test('a stderr callback that throws is logged once and does not end the program', async () => {
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

test('a process with an invalid cwd reports a start error', async () => {
  const cwd = 7 as unknown as string;
  const { exited } = spawnProcess({ command: 'node', args: [], env: {}, cwd });
  expect(await exited).toMatchObject({ code: null, startError: { code: 'invalid' } });
});

test('a custom process without pipes is rejected', async () => {
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

  test('ends the session if hooks were registered', async () => {
    const { logger } = keptLogger();
    const hooks = { PreToolUse: [{ hooks: [async () => ({})] }] };
    const { cli, session } = await playedSession({ logger, hooks });
    await refuse(cli);
    await expect(session.done).rejects.toMatchObject({
      message: 'the peer refused initialize: no such thing',
    });
  });

  test('is logged if no hooks were registered, and the session continues', async () => {
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
