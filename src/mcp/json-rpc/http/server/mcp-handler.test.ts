import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../../json.ts';
import { call, toArray } from '../../../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../../../test/verifies.ts';
import { createRegistry } from '../../../registry/registry.ts';
import { tool } from '../../../registry/tool.ts';
import type { ToolSource } from '../../../types.ts';
import { META } from '../../protocol-versions.ts';
import { dialHttp } from '../client/dial-http.ts';
import { mcpHandler, type McpHandler, type McpHandlerOptions } from './mcp-handler.ts';
import { offerHttp } from './offer-http.ts';

const URL = 'http://localhost:1/mcp';
const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'a', version: '1' },
  },
};

const post = (
  { handle }: McpHandler,
  message: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  handle(
    new Request(URL, {
      method: 'POST',
      headers: { ...HEADERS, ...headers },
      body: typeof message === 'string' ? message : JSON.stringify(message),
      ...(signal && { signal }),
    }),
  );

const begin = async (handler: McpHandler): Promise<Record<string, string>> => {
  const response = await post(handler, INITIALIZE);
  return { 'mcp-session-id': response.headers.get('mcp-session-id')! };
};

const meta = (more: JsonObject = {}): JsonObject => ({
  [META.version]: '2026-07-28',
  [META.capabilities]: {},
  ...more,
});

const stateless = (
  handler: McpHandler,
  method: string,
  params: JsonObject = {},
  signal?: AbortSignal,
): Promise<Response> => {
  const name = params['name'] ?? params['uri'];
  return post(
    handler,
    { jsonrpc: '2.0', id: 1, method, params: { _meta: meta(), ...params } },
    {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    },
    signal,
  );
};

/** Events of a body, until there are so many. */
async function events(response: Response, count: number): Promise<{ id?: string; data: string }[]> {
  const all: { id?: string; data: string }[] = [];
  let text = '';
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString('utf8');
    const whole = text.split('\n\n');
    text = whole.pop() ?? '';
    for (const one of whole) {
      const [, id] = /^id: (.*)$/m.exec(one) ?? [];
      const [, data] = /^data: (.*)$/m.exec(one) ?? [];
      if (data !== undefined) all.push({ data, ...(id !== undefined && { id }) });
    }
    if (all.length >= count) break;
  }
  return all;
}

const flood = createRegistry({
  name: 'flood',
  tools: [
    tool('flood', 'Says much', {}, async (_, ctx) => {
      for (let sent = 1; sent <= 5_000 && !ctx.signal.aborted; sent += 1) {
        state.sent = sent;
        await ctx.progress(sent, 5_000, 'x'.repeat(1_000));
      }
      return 'done';
    }),
    tool('gate', 'Waits', {}, async (_, ctx) => {
      await ctx.progress(1);
      await state.gate;
      await ctx.progress(2);
      return 'done';
    }),
  ],
});
const state: { sent: number; gate: Promise<void>; open: () => void } = {
  sent: 0,
  gate: Promise.resolve(),
  open: () => {},
};
const closeGate = (): void => {
  state.gate = new Promise((resolve) => (state.open = resolve));
};
const CALL = (name: string): JsonObject => ({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name, arguments: {}, _meta: { progressToken: 't' } },
});

const opened = (options?: McpHandlerOptions, source: ToolSource = flood): McpHandler =>
  mcpHandler(source, options);

describe('an endpoint', () => {
  test('refuses pages of other sites', async () => {
    await using handler = opened();
    const ask = (url: string, origin?: string): Promise<Response> =>
      handler.handle(
        new Request(url, {
          method: 'POST',
          headers: { ...HEADERS, ...(origin !== undefined && { origin }) },
          body: JSON.stringify(INITIALIZE),
        }),
      );
    expect((await ask(URL)).status).toBe(200);
    expect((await ask(URL, 'http://localhost:1')).status).toBe(200);
    expect((await ask('http://evil.example/mcp')).status).toBe(403);
    for (const origin of ['http://evil.example', 'null', 'http://localhost:2'])
      expect((await ask(URL, origin)).status).toBe(403);
    await using open = opened({ hosts: ['tools.example'], origins: ['https://app.example'] });
    const named = new Request('http://tools.example/mcp', {
      method: 'POST',
      headers: { ...HEADERS, origin: 'https://app.example' },
      body: JSON.stringify(INITIALIZE),
    });
    expect((await open.handle(named)).status).toBe(200);
  });

  test('refuses invalid requests, each with its status', async () => {
    await using handler = opened({ maxBodyBytes: 1_000 });
    const session = await begin(handler);
    for (const [status, message, headers] of [
      [400, '{', {}],
      [400, [INITIALIZE], {}],
      [400, { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-session-id': '' }],
      [404, { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-session-id': 'other' }],
      [400, { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-protocol-version': '1999-01-01' }],
      [406, INITIALIZE, { accept: 'application/json' }],
      [413, { ...INITIALIZE, long: 'x'.repeat(2_000) }, {}],
      [415, INITIALIZE, { 'content-type': 'text/plain' }],
    ] as const) {
      const all: Record<string, string> = { ...session, ...headers };
      if (all['mcp-session-id'] === '') delete all['mcp-session-id'];
      expect([message, (await post(handler, message, all)).status]).toEqual([message, status]);
    }
    const put = new Request(URL, { method: 'PUT', body: '{}' });
    expect((await handler.handle(put)).status).toBe(405);
  });

  test('has a limit of sessions, and closes the one that was idle longest', async () => {
    await using handler = opened({ maxSessions: 2 });
    const [first, second] = [await begin(handler), await begin(handler)];
    await begin(handler);
    expect(handler.sessions).toBe(2);
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    expect((await post(handler, ping, first)).status).toBe(404);
    expect((await post(handler, ping, second)).status).toBe(200);
  });

  test('closes a session that was not used for a while', async () => {
    await using handler = opened({ idleMs: 10 });
    await begin(handler);
    await expect.poll(() => handler.sessions).toBe(0);
  });
});

describe('a session', () => {
  test('continues when the connection breaks: the client reconnects and misses nothing', async () => {
    closeGate();
    await using handler = opened();
    const session = await begin(handler);
    const first = await post(handler, CALL('gate'), session);
    const before = await events(first, 2);
    expect(before.map(({ id }) => id)).toEqual(['2_0', '2_1']);
    state.open();
    const again = await handler.handle(
      new Request(URL, { headers: { ...HEADERS, ...session, 'last-event-id': '2_0' } }),
    );
    const after = (await events(again, 4)).map(
      ({ data }) => data && (JSON.parse(data) as JsonObject),
    );
    expect(after.slice(1)).toMatchObject([
      { method: 'notifications/progress', params: { progress: 1 } },
      { method: 'notifications/progress', params: { progress: 2 } },
      { id: 7, result: { content: [{ text: 'done' }] } },
    ]);
    const lost = new Request(URL, { headers: { ...HEADERS, ...session, 'last-event-id': '9_9' } });
    expect((await handler.handle(lost)).status).toBe(404);
  });

  verifies('S251', 'a client that does not read slows only its own tool', async () => {
    await using handler = opened();
    const session = await begin(handler);
    const response = await post(handler, CALL('flood'), session);
    let seen = -1;
    await expect
      .poll(() => {
        const still = seen === state.sent;
        seen = state.sent;
        return still && seen > 0;
      })
      .toBe(true);
    // 256 KiB wait for the client, and what the stream itself has asked for.
    expect(state.sent).toBeLessThan(400);
    const ping = await post(handler, { jsonrpc: '2.0', id: 8, method: 'ping' }, session);
    expect(await ping.json()).toEqual({ jsonrpc: '2.0', id: 8, result: {} });
    const all = await events(response, Infinity);
    expect(JSON.parse(all.at(-1)!.data)).toMatchObject({ id: 7 });
    expect(all).toHaveLength(5_002);
  });

  test('ends by DELETE, which aborts its requests', async () => {
    closeGate();
    await using handler = opened();
    const session = await begin(handler);
    await post(handler, CALL('gate'), session);
    const bye = new Request(URL, { method: 'DELETE', headers: session });
    expect((await handler.handle(bye)).status).toBe(200);
    expect(handler.sessions).toBe(0);
    state.open();
  });
});

describe('a request without a session', () => {
  test('leaves nothing, and is cancelled when the client disconnects', async () => {
    let aborted = (): void => {};
    const over = new Promise<void>((resolve) => (aborted = resolve));
    const source = createRegistry({
      name: 'slow',
      tools: [
        tool('slow', 'Waits', {}, async (_, ctx) => {
          await ctx.progress(1);
          await new Promise<void>((resolve) =>
            ctx.signal.addEventListener('abort', () => resolve()),
          );
          aborted();
          return 'late';
        }),
      ],
    });
    await using handler = opened({}, source);
    const response = await stateless(handler, 'tools/call', {
      name: 'slow',
      _meta: meta({ progressToken: 1 }),
    });
    const [first] = await events(response, 1); // leaving the body is leaving the request
    expect(JSON.parse(first!.data)).toMatchObject({ method: 'notifications/progress' });
    expect(first?.id).toBeUndefined();
    await over;
    expect(handler.sessions).toBe(0);
  });

  test('must have headers that equal its body', async () => {
    await using handler = opened();
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'gate', _meta: meta() },
    };
    const good = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'gate',
    };
    expect((await post(handler, body, good)).status).toBe(200);
    expect((await post(handler, body, { ...good, 'mcp-name': '=?base64?Z2F0ZQ==?=' })).status).toBe(
      200,
    );
    for (const key of Object.keys(good)) {
      const response = await post(handler, body, { ...good, [key]: 'other' });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ id: 1, error: { code: -32020 } });
    }
  });

  test('listens: sends the accepted filter first, then only those changes', async () => {
    const source = createRegistry({ name: 'changing' });
    await using handler = opened({}, source);
    const response = await stateless(handler, 'subscriptions/listen', {
      notifications: { toolsListChanged: true, other: true },
    });
    source.register(tool('new', 'New', {}, () => ''));
    const told = (await events(response, 2)).map(({ data }) => JSON.parse(data) as JsonObject);
    expect(told).toMatchObject([
      {
        method: 'notifications/subscriptions/acknowledged',
        params: { _meta: { [META.subscription]: 1 }, notifications: { toolsListChanged: true } },
      },
      {
        method: 'notifications/tools/list_changed',
        params: { _meta: { [META.subscription]: 1 } },
      },
    ]);
  });
});

describe('questions', () => {
  const asking = createRegistry({
    name: 'asking',
    tools: [
      tool('book', 'Books', {}, async (_, ctx) => {
        state.sent += 1;
        const { content } = await ctx.ask({ id: 'day', kind: 'question', message: 'When?' });
        return `${ctx.id.length > 0} ${JSON.stringify(content)}`;
      }),
    ],
  });

  for (const protocol of ['stateless', 'session'] as const)
    test(`come as \`input\` through a bridge to a server without sessions (${protocol} client)`, async () => {
      const capabilities = { elicitation: {} };
      await using far = await offerHttp(asking);
      await using middle = await dialHttp({ url: far.url, protocol: 'stateless', capabilities });
      await using near = await offerHttp(middle);
      const onRequest = async (): Promise<JsonObject> => ({
        action: 'accept',
        content: { day: 1 },
      });
      await using source = await dialHttp({
        url: near.url,
        protocol,
        capabilities,
        onRequest,
      });
      expect(await toArray(source.callTool(call('book')))).toEqual([
        { type: 'result', result: { content: [{ type: 'text', text: 'true {"day":1}' }] } },
      ]);
    });

  test('end the call without an ask; the call is repeated with answers and state', async () => {
    await using far = await offerHttp(asking, { secret: 'shared' });
    const capabilities = { elicitation: {} };
    await using source = await dialHttp({ url: far.url, protocol: 'stateless', capabilities });
    const first = call('book');
    const [input] = await toArray(source.callTool(first));
    if (input?.type !== 'input') throw new Error('no input');
    expect(input.requests).toMatchObject([
      { id: `${first.id}/day`, callId: first.id, kind: 'question', message: 'When?' },
    ]);
    // Another instance with the same secret can go on: nothing is kept.
    await using other = await offerHttp(asking, { secret: 'shared' });
    await using elsewhere = await dialHttp({ url: other.url, protocol: 'stateless', capabilities });
    const answers = [{ id: `${first.id}/day`, action: 'accept', content: 'Friday' }] as const;
    const again = { ...first, answers, ...(input.state !== undefined && { state: input.state }) };
    expect(await toArray(elsewhere.callTool(again))).toMatchObject([
      { type: 'result', result: { content: [{ text: 'true "Friday"' }] } },
    ]);
    await using stranger = await offerHttp(asking, { secret: 'another' });
    await using third = await dialHttp({ url: stranger.url, protocol: 'stateless', capabilities });
    await expect(toArray(third.callTool(again))).rejects.toMatchObject({ code: 'invalid' });
  });

  test('that the client cannot answer are refused with the missing capability', async () => {
    await using handler = opened({}, asking);
    const response = await stateless(handler, 'tools/call', { name: 'book' });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: -32021, data: { requiredCapabilities: { elicitation: {} } } },
    });
  });
});
