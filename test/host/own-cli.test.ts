import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  createSdkMcpServer,
  expectToolCalled,
  getSessionMessages,
  InMemorySessionStore,
  openSession,
  query,
  type SessionOptions,
  tool,
} from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { collect } from '../support/fake-cli.ts';

// Without a path the host runs our own CLI, as built into dist.

const ANY = { type: 'object' } as const;

function scripted(answers: readonly JsonObject[], more: SessionOptions = {}): SessionOptions {
  const home = mkdtempSync(join(tmpdir(), 'duolane-own-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  writeFileSync(join(home, 'answers.json'), JSON.stringify(answers));
  return {
    cwd: home,
    env: { HOME: home, CLAUDE_CONFIG_DIR: join(home, 'config') },
    inheritEnv: ['PATH'],
    model: 'script:./answers.json',
    tools: [],
    permissionMode: 'default',
    ...more,
  };
}

const calc = (
  handler: (args: JsonObject) => unknown,
): NonNullable<SessionOptions['mcpServers']> => ({
  calc: createSdkMcpServer({
    name: 'calc',
    tools: [tool('run', 'Runs', ANY, handler as () => string)],
  }),
});

const results = (messages: readonly JsonObject[]): readonly unknown[] =>
  messages.flatMap(({ type, result }) => (type === 'result' ? [result] : []));

test('duolane-agent runs a string prompt with an in-process tool', async () => {
  const run = query({
    prompt: 'go',
    options: scripted(
      [{ tools: [{ name: 'mcp__calc__run', input: { n: 1 } }] }, { text: '{{last}}' }],
      {
        mcpServers: calc(() => 'from the host'),
        allowedTools: ['mcp__calc__*'],
      },
    ),
  });
  expect(results(await collect(run))).toEqual(['from the host']);
  expect(expectToolCalled(await run.session, 'run')).toMatchObject({ input: { n: 1 } });
});

test('turns, an interrupt, permissions and the end of input work as with the official CLI', async () => {
  const call = { tools: [{ name: 'mcp__calc__run', input: {} }] };
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const options = scripted([call, { text: 'next' }, call, { text: 'denied' }], {
    mcpServers: calc(() => {
      begin();
      return new Promise(() => {});
    }),
    canUseTool: (_name, _input, { toolUseID }) =>
      session.decisions.length === 0
        ? { behavior: 'allow' }
        : { behavior: 'deny', message: `no ${toolUseID.length > 0}` },
  });
  const session = await openSession(options);
  expect(await session.ready()).toEqual({ servers: [{ name: 'calc', registered: 1, listed: 1 }] });
  await session.send('one');
  await begun;
  await session.interrupt();
  await session.send('two');
  expect(results(await collect(session.response()))).toEqual(['next']);
  await session.send('three');
  expect(results(await collect(session.response()))).toEqual(['denied']);
  expect(session.decisions.map(({ behavior }) => behavior)).toEqual(['allow', 'deny']);
  session.endInput();
  expect(await session.done).toEqual({ code: 0 });
  await session[Symbol.asyncDispose]();
});

test('a message during a call joins the turn, and the session ends automatically', async () => {
  let begin = (): void => {};
  let finish = (): void => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const options = scripted(
    [{ tools: [{ name: 'mcp__calc__run', input: {} }] }, { text: 'both', repeat: true }],
    {
      mcpServers: calc(() => {
        begin();
        return new Promise((resolve) => (finish = () => resolve('ok')));
      }),
      allowedTools: ['mcp__calc__*'],
    },
  );
  const session = await openSession(options);
  await session.send('first');
  await begun;
  await session.send('and this');
  session.endInput();
  finish();
  const seen = await collect(session.messages());
  expect(results(seen).at(-1)).toBe('both');
  expect(await session.done).toEqual({ code: 0 });
  await session[Symbol.asyncDispose]();
});

test('a session is mirrored to a store, and resumed from it', async () => {
  const store = new InMemorySessionStore();
  const options = scripted([{ text: 'noted', repeat: true }], { sessionStore: store });
  const first = query({ prompt: 'remember 42', options });
  await collect(first);
  const { id } = await first.session;
  const read = { dir: options.cwd ?? '', sessionStore: store };
  expect(JSON.stringify(await getSessionMessages(id, read))).toContain('remember 42');
  const again = query({ prompt: 'and now?', options: { ...options, resume: id } });
  expect(results(await collect(again))).toEqual(['noted']);
  expect((await again.session).id).toBe(id);
  expect(await getSessionMessages(id, read)).toHaveLength(4);
});
