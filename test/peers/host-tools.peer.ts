import { expect, test } from 'vitest';
import {
  asStream,
  createSdkMcpServer,
  expectToolCalled,
  openSession,
  query,
  type SDKUserMessage,
  tool,
} from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { collect } from '../support/fake-cli.ts';
import { ANY, calc, call, eachRealCli, results } from './host-fixture.ts';

await eachRealCli('tools', (placed) => {
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

  test('an iterable prompt: two turns with a tool, with stdin open in between', async () => {
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

  test('an in-process tool asks a person, although this CLI does not support elicitation', async () => {
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

  test('several turns in one session, each with its own response, all servers listed', async () => {
    await using place = await placed(
      [call('mcp__calc__run', { n: 1 }), { text: 'one' }, { text: 'two' }],
      { mcpServers: calc(() => 'ok'), allowedTools: ['mcp__calc__*'] },
    );
    await using session = await openSession(place.options);
    await session.send('first'); // the older CLI lists tools in its first turn only
    expect(await session.ready()).toEqual({
      servers: [{ name: 'calc', registered: 2, listed: 2 }],
    });
    expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'one' });
    await session.send('second');
    expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'two' });
    session.endInput();
    expect(await session.done).toEqual({ code: 0 });
  });

  test('a message during a tool call joins the turn, and the session still ends', async () => {
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

  test('32 read-only tool calls in one message', async () => {
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
