import { on } from 'node:events';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { JsonObject } from '../../../json.ts';
import { ourCatalogue } from '../../../../test/support/mcp/catalogue.ts';
import { HELLO, notify, reader, send } from '../../../../test/support/mcp/message-endpoint.ts';
import { fromRpcError } from '../../../wire/json-rpc-errors.ts';
import { verifies } from '../../../../test/verifies.ts';
import { createRegistry } from '../../registry/registry.ts';
import { createSdkMcpServer, tool } from '../../registry/tool.ts';
import type { ToolSource } from '../../types.ts';
import { META } from '../protocol-versions.ts';
import { offerMessages } from './offer-messages.ts';

const DONE = { content: [{ type: 'text', text: 'done' }] };

const briefing = (): ToolSource =>
  createSdkMcpServer({
    name: 'briefing',
    version: '1.0.0',
    tools: [
      tool('add', 'Adds', { a: z.number(), b: z.number() }, ({ a, b }) => `${a + b}`),
      tool('fail', 'Fails', {}, () => {
        throw new Error('no such guideline');
      }),
    ],
  }).instance;

describe('the handshake', () => {
  verifies(
    ['S52', 'S53', 'S54', 'S55', 'S56', 'S57', 'S66', 'S75'],
    'has the expected result for each method, with tool names without prefix',
    async () => {
      await using end = offerMessages(briefing());
      expect(await send(end, 'initialize', HELLO, 0)).toEqual({
        jsonrpc: '2.0',
        id: 0,
        result: {
          protocolVersion: '2025-11-25',
          capabilities: { logging: {}, tools: { listChanged: true } },
          serverInfo: { name: 'briefing', version: '1.0.0' },
        },
      });
      expect(await notify(end, 'notifications/initialized')).toBeUndefined();
      expect(await send(end, 'tools/list', undefined, 1)).toEqual({
        jsonrpc: '2.0',
        id: 1,
        result: {
          tools: [
            {
              name: 'add',
              description: 'Adds',
              inputSchema: {
                type: 'object',
                properties: { a: { type: 'number' }, b: { type: 'number' } },
                required: ['a', 'b'],
              },
            },
            {
              name: 'fail',
              description: 'Fails',
              inputSchema: { type: 'object', properties: {} },
            },
          ],
        },
      });
      const params = { name: 'add', arguments: { a: 2, b: 3 } };
      expect(await send(end, 'tools/call', params, 2)).toEqual({
        jsonrpc: '2.0',
        id: 2,
        result: { content: [{ type: 'text', text: '5' }] },
      });
      expect(await send(end, 'ping', undefined, 3)).toEqual({ jsonrpc: '2.0', id: 3, result: {} });
    },
  );

  test('agrees on the version of the client, or offers the newest', async () => {
    for (const [wanted, given] of [
      ['2024-11-05', '2024-11-05'],
      ['2025-06-18', '2025-06-18'],
      ['1999-01-01', '2025-11-25'],
    ]) {
      await using end = offerMessages(briefing());
      expect(await send(end, 'initialize', { ...HELLO, protocolVersion: wanted })).toMatchObject({
        result: { protocolVersion: given },
      });
    }
  });
});

describe('errors', () => {
  verifies(
    ['S58', 'S59', 'S60', 'S61'],
    'have the code of their kind; a failed tool is a result',
    async () => {
      await using end = offerMessages(briefing());
      expect(await send(end, 'resources/list')).toEqual({
        jsonrpc: '2.0',
        id: 1,
        error: { code: -32601, message: 'unknown method "resources/list"' },
      });
      const add = { name: 'add', arguments: { a: 1, b: 'x' } };
      for (const [method, params, message] of [
        ['tools/call', { arguments: {} }, /^invalid params: name must be a string/],
        ['tools/call', { name: 'add', arguments: [] }, /^invalid params: arguments/],
        ['tools/call', { name: 'nope' }, /^unknown tool "nope"; list the tools/],
        ['tools/list', { cursor: 3 }, /^invalid params: cursor/],
        [
          'tools/list',
          { cursor: 'junk' },
          /^invalid cursor: expected one that this server created/,
        ],
        ['initialize', {}, /^invalid params: protocolVersion/],
      ] as const)
        expect(await send(end, method, params)).toMatchObject({
          error: { code: -32602, message: expect.stringMatching(message) as string },
        });
      expect(await send(end, 'tools/call', add)).toMatchObject({
        result: {
          isError: true,
          content: [{ text: expect.stringMatching(/^Error: Invalid arguments for tool add: b: /) }],
        },
      });
      expect(await send(end, 'tools/call', { name: 'fail', arguments: {} })).toMatchObject({
        result: { isError: true, content: [{ type: 'text', text: 'Error: no such guideline' }] },
      });
      expect(await end.receive({ hello: 1 })).toMatchObject({ id: null, error: { code: -32600 } });
      expect(
        await end.receive({ jsonrpc: '2.0', id: 7, method: 'ping', params: [] as never }),
      ).toMatchObject({
        id: 7,
        error: { code: -32602 },
      });
    },
  );

  test('of our own code reveal nothing about the server', async () => {
    const source: ToolSource = {
      info: { name: 's', version: '1' },
      listTools: () => {
        throw new Error('password is 123');
      },
      async *callTool() {},
    };
    await using end = offerMessages(source);
    expect(await send(end, 'tools/list')).toMatchObject({
      error: { code: -32603, message: 'internal error' },
    });
    expect(await send(end, 'tools/call', { name: 'x' })).toMatchObject({ error: { code: -32603 } });
  });
});

test('a registry with a replaced callTool is called through the replacement', async () => {
  const registry = createRegistry({
    name: 'r',
    tools: [tool('add', 'Adds', {}, () => 'bare')],
  });
  const called: string[] = [];
  const bare = registry.callTool.bind(registry);
  registry.callTool = (toolCall, options) => {
    called.push(toolCall.name);
    return bare(toolCall, options);
  };
  await using end = offerMessages(registry);
  expect(await send(end, 'tools/call', { name: 'add' })).toMatchObject({
    result: { content: [{ text: 'bare' }] },
  });
  expect(called).toEqual(['add']);
});

/** The next warning of the process with this text; those of other tests may come before it. */
async function warning(text: string): Promise<Error> {
  for await (const [error] of on(process, 'warning'))
    if (error instanceof Error && error.message.includes(text)) return error;
  throw new Error('unreachable');
}

describe('an internal error of a source', () => {
  const broken: ToolSource = {
    info: { name: 'broken', version: '1' },
    async *listTools() {},
    async *callTool() {
      throw new TypeError('password=hunter2');
    },
  };

  test('is withheld from the client and reported here', async () => {
    const errors: unknown[] = [];
    await using end = offerMessages(broken, { onError: (error) => errors.push(error) });
    const answer = await send(end, 'tools/call', { name: 'a' });
    expect(answer).toMatchObject({ error: { code: -32603, message: 'internal error' } });
    expect(errors).toMatchObject([{ message: 'password=hunter2' }]);
  });

  test('is a process warning by default', async () => {
    const warned = warning('password=hunter2');
    await using end = offerMessages(broken);
    await send(end, 'tools/call', { name: 'a' });
    expect(await warned).toBeInstanceOf(TypeError);
  });

  test('is not reported if it is an error of another server, or a refusal', async () => {
    const errors: unknown[] = [];
    const said = fromRpcError({ code: -32603, message: 'theirs' });
    await using end = offerMessages(
      {
        ...broken,
        async *callTool() {
          throw said;
        },
      },
      { onError: (error) => errors.push(error) },
    );
    expect(await send(end, 'tools/call', { name: 'a' })).toMatchObject({
      error: { message: 'theirs' },
    });
    await send(end, 'tools/call', {});
    expect(errors).toEqual([]);
  });
});

describe('ids', () => {
  verifies('S68', 'of any kind are returned unchanged', async () => {
    await using end = offerMessages(briefing());
    for (const id of [0, '', -1, Number.MAX_SAFE_INTEGER, 'a'.repeat(5_000), '0'])
      expect(await send(end, 'ping', undefined, id)).toEqual({ jsonrpc: '2.0', id, result: {} });
  });

  verifies(
    'S50',
    'may be equal at the same time, in one endpoint or in many: each call gets its own response',
    async () => {
      const source = ourCatalogue().source;
      await using one = offerMessages(source);
      await using two = offerMessages(source);
      await using three = offerMessages(source);
      const texts = Array.from({ length: 30 }, (_, index) => `text ${index}`);
      const answers = await Promise.all(
        texts.map((text, index) =>
          send(
            [one, two, three][index % 3]!,
            'tools/call',
            { name: 'echo', arguments: { text } },
            0,
          ),
        ),
      );
      expect(answers.map((answer) => JSON.stringify(answer))).toEqual(
        texts.map((text) =>
          JSON.stringify({ jsonrpc: '2.0', id: 0, result: { content: [{ type: 'text', text }] } }),
        ),
      );
    },
  );
});

describe('progress', () => {
  test('has the token of the client and is sent before the response', async () => {
    await using end = offerMessages(ourCatalogue().source);
    const order: unknown[] = [];
    void (async () => {
      for await (const { params } of end.outgoing) {
        // A slow writer: the answer must still wait for it.
        await new Promise((resolve) => setImmediate(resolve));
        order.push(params);
      }
    })();
    const call = { name: 'burst', arguments: { count: 3 }, _meta: { progressToken: 0 } };
    await send(end, 'tools/call', call);
    order.push('answer');
    expect(order).toEqual([
      { progressToken: 0, progress: 1, total: 3 },
      { progressToken: 0, progress: 2, total: 3 },
      { progressToken: 0, progress: 3, total: 3 },
      'answer',
    ]);
  });

  test('is not sent without a token, and a flood without a reader blocks nothing', async () => {
    await using end = offerMessages(ourCatalogue().source);
    const flood = { name: 'burst', arguments: { count: 1_000 }, _meta: { progressToken: 'p' } };
    expect(await send(end, 'tools/call', flood)).toMatchObject({ result: {} });
    await using quiet = offerMessages(ourCatalogue().source);
    const { seen } = reader(quiet);
    await send(quiet, 'tools/call', { name: 'burst', arguments: { count: 5 } });
    expect(seen).toEqual([]);
  });

  test('slows the handler when its reader is slow', async () => {
    let told = 0;
    const registry = createRegistry({
      name: 'r',
      tools: [
        tool('t', '', {}, async (_, ctx) => {
          for (let n = 1; n <= 1_000; n += 1) {
            await ctx.progress(n);
            told = n;
          }
          return 'x';
        }),
      ],
    });
    const end = offerMessages(registry);
    const messages = end.outgoing[Symbol.asyncIterator]();
    const answer = send(end, 'tools/call', { name: 't', _meta: { progressToken: 1 } });
    await messages.next();
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(told).toBeLessThan(100);
    await messages.return?.();
    expect(await answer).toMatchObject({ result: {} });
    await end[Symbol.asyncDispose]();
  });

  test('a log line is sent from the level that the client set', async () => {
    const registry = createRegistry({
      name: 'r',
      tools: [
        tool('t', '', {}, async function* () {
          yield { type: 'log', level: 'debug', data: 'd' } as const;
          yield { type: 'log', level: 'error', data: 'e', logger: 'l' } as const;
          return 'x';
        }),
      ],
    });
    await using end = offerMessages(registry);
    const { seen } = reader(end);
    await send(end, 'logging/setLevel', { level: 'warning' });
    await send(end, 'tools/call', { name: 't' });
    expect(seen.map((message) => message['params'])).toEqual([
      { level: 'error', data: 'e', logger: 'l' },
    ]);
  });
});

describe('cancellation', () => {
  test('aborts the handler and sends no response, by message or by signal, in this endpoint only', async () => {
    for (const how of ['message', 'signal'] as const) {
      const { source, slow } = ourCatalogue();
      await using end = offerMessages(source);
      await using other = offerMessages(source);
      const stop = new AbortController();
      const running = end.receive(
        { jsonrpc: '2.0', id: 0, method: 'tools/call', params: { name: 'slow' } },
        { signal: stop.signal },
      );
      await slow.started;
      await notify(other, 'notifications/cancelled', { requestId: 0 });
      await notify(end, 'notifications/cancelled', { requestId: '0' });
      expect(await send(end, 'ping', undefined, 0)).toBeDefined();
      if (how === 'signal') stop.abort();
      else await notify(end, 'notifications/cancelled', { requestId: 0, reason: 'enough' });
      expect(await running).toBeUndefined();
      await slow.aborted;
    }
  });

  test('at any point leaves every other call its response', async () => {
    const { source } = ourCatalogue();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ cancelled: fc.boolean(), after: fc.nat(6) }), { maxLength: 12 }),
        async (plan) => {
          await using end = offerMessages(source);
          reader(end);
          const answers = plan.map(async ({ cancelled, after }, id) => {
            const params = { name: 'burst', arguments: { count: 3 }, _meta: { progressToken: id } };
            const answer = send(end, 'tools/call', params, id);
            for (let n = 0; n < after; n += 1) await Promise.resolve();
            if (cancelled) await notify(end, 'notifications/cancelled', { requestId: id });
            return answer;
          });
          const unexpected = (await Promise.all(answers)).filter((answer, id) =>
            answer
              ? JSON.stringify(answer) !== JSON.stringify({ jsonrpc: '2.0', id, result: DONE })
              : !plan[id]!.cancelled,
          );
          expect(unexpected).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('disposing aborts running requests, waits for them, and refuses later ones', async () => {
    const { source, slow } = ourCatalogue();
    const end = offerMessages(source);
    const running = send(end, 'tools/call', { name: 'slow' });
    const asked = end.request('ping');
    asked.catch(() => {});
    await slow.started;
    await end[Symbol.asyncDispose]();
    await slow.aborted;
    expect(await running).toBeUndefined();
    await expect(asked).rejects.toMatchObject({ code: 'closed' });
    expect(await send(end, 'ping')).toMatchObject({ error: { code: -32000 } });
    await end[Symbol.asyncDispose]();
  });
});

describe('disposing', () => {
  const stuckUntil = (finish: Promise<void>, started: () => void): ToolSource =>
    createRegistry({
      name: 'worker',
      tools: [
        tool('work', 'Works', {}, async () => {
          started();
          await finish;
          return 'done';
        }),
      ],
    });

  test('twice, while a call runs, resolves for both', async () => {
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let begin = (): void => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const end = offerMessages(stuckUntil(finished, () => begin()));
    const answered = send(end, 'tools/call', { name: 'work', arguments: {} });
    await begun;
    const disposed = Promise.all([end[Symbol.asyncDispose](), end[Symbol.asyncDispose]()]);
    finish();
    await disposed;
    expect(await answered).toBeUndefined();
    await end[Symbol.asyncDispose]();
  });

  test('resolves when a subscription was cancelled during its acknowledgement', async () => {
    const source = briefing();
    const end = offerMessages({
      info: source.info,
      listTools: (options) => source.listTools(options),
      callTool: (...args) => source.callTool(...args),
    }); // a source that reports no changes
    const client = new AbortController();
    const answered = end.receive(
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: { _meta: { [META.version]: '2026-07-28', [META.capabilities]: {} } },
      },
      { signal: client.signal, related: async () => client.abort(new Error('disconnected')) },
    );
    expect(await answered).toBeUndefined();
    await end[Symbol.asyncDispose]();
  });
});

/** Sources that ignore their signal, each with the request that shows it. */
const never = (): Promise<never> => new Promise(() => {});
const stuck = async function* (): AsyncGenerator<never, void, undefined> {
  await never();
};
const none = async function* (): AsyncGenerator<never, void, undefined> {};
const standing = async function* (): AsyncGenerator<{ type: 'listening' }, void, undefined> {
  yield { type: 'listening' };
  await never();
};
const BARE = { info: { name: 'stuck', version: '1' }, listTools: none, callTool: stuck };
const STUCK: Readonly<Record<string, readonly [ToolSource, string, JsonObject]>> = {
  'a call': [BARE, 'tools/call', { name: 't', arguments: {} }],
  'a list': [{ ...BARE, listTools: stuck }, 'tools/list', {}],
  'a read': [
    { ...BARE, listResources: none, readResource: stuck },
    'resources/read',
    { uri: 'a:' },
  ],
  'a prompt': [{ ...BARE, listPrompts: none, getPrompt: never }, 'prompts/get', { name: 'p' }],
  'a completion': [{ ...BARE, complete: never }, 'completion/complete', {}],
  'its changes': [{ ...BARE, listen: standing }, 'ping', {}],
  'a resource that is watched': [
    { ...BARE, listResources: none, listen: standing },
    'resources/subscribe',
    { uri: 'a:' },
  ],
};

test('a request whose client has disconnected already reaches no source', async () => {
  const reached: string[] = [];
  const source: ToolSource = {
    ...BARE,
    async *listTools() {
      reached.push('list');
    },
    async *callTool() {
      reached.push('call');
    },
    async *listen() {
      reached.push('listen');
    },
  };
  await using end = offerMessages(source);
  const signal = AbortSignal.abort();
  const _meta = { [META.version]: '2026-07-28', [META.capabilities]: {} };
  for (const method of ['tools/list', 'tools/call', 'subscriptions/listen']) {
    const message = { jsonrpc: '2.0', id: 1, method, params: { name: 'a', _meta } };
    expect(await end.receive(message, { signal })).toBeUndefined();
  }
  expect(reached).toEqual([]);
});

describe('disposing with a source that ignores its signal', () => {
  for (const [what, [source, method, params]] of Object.entries(STUCK))
    test(`ends anyway: ${what}`, async () => {
      const warned = warning('stuck');
      const end = offerMessages(source);
      reader(end);
      await send(end, 'initialize', HELLO);
      send(end, method, params).catch(() => {});
      await Promise.all([end[Symbol.asyncDispose](), end[Symbol.asyncDispose]()]);
      expect(await warned).toMatchObject({ code: 'timeout' });
    });
});

describe('messages of any form', () => {
  test.each([
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: null },
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: 'x' },
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: [1] },
    { jsonrpc: '2.0', id: 1, result: null },
    { jsonrpc: '2.0', id: 1, error: null },
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: null },
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { _meta: null } },
  ])('%j neither throws nor ends the endpoint', async (message) => {
    await using end = offerMessages(briefing());
    await end.receive(message);
    expect(await send(end, 'ping')).toMatchObject({ result: {} });
  });

  const METHODS = [
    'initialize',
    'ping',
    'tools/list',
    'tools/call',
    'logging/setLevel',
    'server/discover',
    'resources/read',
    'prompts/get',
    'completion/complete',
    'notifications/cancelled',
    'notifications/initialized',
    'notifications/progress',
    'notifications/message',
    'notifications/roots/list_changed',
  ];
  const json = fc.jsonValue({ maxDepth: 3 });
  const meta = fc.dictionary(fc.constantFrom(...Object.values(META), 'progressToken'), json);
  const params = fc.oneof(
    json,
    fc.record(
      {
        name: fc.oneof(fc.constantFrom('add', 'fail'), json),
        arguments: json,
        requestId: json,
        cursor: json,
        level: json,
        uri: json,
        reason: json,
        _meta: fc.oneof(meta, json),
      },
      { requiredKeys: [] },
    ),
  );
  const message = fc.record(
    {
      jsonrpc: fc.oneof(fc.constant('2.0'), json),
      id: fc.oneof(fc.constantFrom<unknown>(1, 'a', null), json),
      method: fc.oneof(fc.constantFrom(...METHODS), json),
      params,
      result: json,
      error: json,
    },
    { requiredKeys: [] },
  );

  test('get a response or are ignored, and never throw', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(message, json), { maxLength: 5 }), async (messages) => {
        await using end = offerMessages(briefing());
        reader(end);
        const answers = await Promise.all(messages.map((each) => end.receive(each as JsonObject)));
        for (const answer of answers) if (answer) expect(answer).toMatchObject({ jsonrpc: '2.0' });
        expect(await send(end, 'ping')).toMatchObject({ result: {} });
      }),
      { numRuns: 300 },
    );
  });
});
