import { expect, test } from 'vitest';
import { call as callOf, toArray } from '../../../../../test/contracts/tool-source.contract.ts';
import { isObject, type JsonObject } from '../../../../json.ts';
import { Channel } from '../../../../stream/channel.ts';
import { relaySource } from '../../../relay/upstream.ts';
import type { ToolSource } from '../../../types.ts';
import { createRegistry } from '../../../registry/registry.ts';
import { tool } from '../../../registry/tool.ts';
import { serveMessages } from '../../server/serve-messages.ts';
import { dialHttp } from '../client/dial-http.ts';
import { type McpHandler, mcpHandler } from './mcp-handler.ts';
import { offerHttp } from './offer-http.ts';

const registry = createRegistry({
  name: 'desk',
  tools: [
    tool('book', 'Books', {}, async (_, ctx) => {
      const { content } = await ctx.ask({ id: 'day', kind: 'question', message: 'When?' });
      return JSON.stringify(content);
    }),
    tool(
      'move',
      'Moves',
      { type: 'object', properties: { to: { type: 'string', 'x-mcp-header': 'To' } } },
      () => 'moved',
    ),
  ],
});

const post = (
  handler: McpHandler,
  owner: string | undefined,
  message: JsonObject,
  headers: Record<string, string> = {},
): Promise<Response> =>
  handler.handle(
    new Request('http://localhost/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    }),
    owner,
  );

const STATELESS_META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
};

async function stateless(
  handler: McpHandler,
  owner: string,
  params: JsonObject,
  headers: Record<string, string> = {},
): Promise<JsonObject> {
  const response = await callStateless(handler, owner, params, headers);
  return (await response.json()) as JsonObject;
}

/** Calls a tool, or lists the tools. The id of the request is always 1. */
function callStateless(
  handler: McpHandler,
  owner: string,
  params: JsonObject,
  headers: Record<string, string> = {},
): Promise<Response> {
  const method = typeof params['name'] === 'string' ? 'tools/call' : 'tools/list';
  return post(
    handler,
    owner,
    { id: 1, method, params: { ...params, _meta: STATELESS_META } },
    {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof params['name'] === 'string' && { 'mcp-name': params['name'] }),
      ...headers,
    },
  );
}

async function begin(handler: McpHandler, owner: string): Promise<Record<string, string>> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
  const response = await post(handler, owner, { id: 0, method: 'initialize', params });
  return { 'mcp-session-id': response.headers.get('mcp-session-id')! };
}

test('a session is available to its owner only', async () => {
  await using handler = mcpHandler(registry);
  const session = await begin(handler, 'anna');
  const ping = { id: 1, method: 'ping' };
  expect((await post(handler, 'bert', ping, session)).status).toBe(404);
  const get = new Request('http://localhost/mcp', {
    headers: { ...session, accept: 'text/event-stream' },
  });
  expect((await handler.handle(get, 'bert')).status).toBe(404);
  const bye = new Request('http://localhost/mcp', { method: 'DELETE', headers: session });
  expect((await handler.handle(bye, 'bert')).status).toBe(404);
  expect((await post(handler, 'anna', ping, session)).status).toBe(200);
});

test('an owner who opens many sessions ends none of another owner', async () => {
  await using handler = mcpHandler(registry, { maxSessions: 4 });
  const session = await begin(handler, 'anna');
  for (let i = 0; i < 8; i++) await begin(handler, 'eve');
  expect(handler.sessions).toBe(4);
  const ping = { id: 1, method: 'ping' };
  expect((await post(handler, 'anna', ping, session)).status).toBe(200);
});

test('an owner whose sessions are all in use does not keep others out', async () => {
  await using handler = mcpHandler(registry, { maxSessions: 2 });
  const closing = new AbortController();
  for (let i = 0; i < 2; i++) {
    const headers = { ...(await begin(handler, 'eve')), accept: 'text/event-stream' };
    const { signal } = closing;
    const stream = new Request('http://localhost/mcp', { headers, signal });
    expect((await handler.handle(stream, 'eve')).status).toBe(200);
  }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
  const initialize = { id: 0, method: 'initialize', params };
  expect((await post(handler, 'eve', initialize)).status).toBe(503);
  expect((await post(handler, 'anna', initialize)).status).toBe(200);
  closing.abort();
});

test('calls of one owner do not use up the calls of another', async () => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  const slow = createRegistry({
    name: 'slow',
    tools: [
      tool('wait', '', {}, async () => (await gate, 'done')),
      tool('hi', '', {}, () => 'hello'),
    ],
  });
  await using handler = mcpHandler(slow);
  const calls = Array.from({ length: 1025 }, () => stateless(handler, 'eve', { name: 'wait' }));
  const overloaded = { error: { message: expect.stringContaining('exceed the limit') as string } };
  expect(await Promise.race(calls)).toMatchObject(overloaded);
  expect(await stateless(handler, 'anna', { name: 'hi' })).toMatchObject({
    result: { content: [{ text: 'hello' }] },
  });
  release();
  await Promise.allSettled(calls); // slow calls respond with a stream, which is not JSON
});

test('only the owner of a call can answer its questions', async () => {
  await using handler = mcpHandler(registry);
  const asked = await stateless(handler, 'anna', { name: 'book' });
  const { requestState } = asked['result'] as JsonObject;
  const inputResponses = { day: { action: 'accept', content: { day: 'Friday' } } };
  const again = { name: 'book', requestState, inputResponses };
  expect(await stateless(handler, 'bert', again)).toMatchObject({ error: { code: -32602 } });
  expect(await stateless(handler, 'anna', again)).toMatchObject({
    result: { content: [{ text: '{"day":"Friday"}' }] },
  });
});

test.each([
  ['of a registry', (source: ToolSource) => source],
  [
    'behind a bridge',
    (source: ToolSource) =>
      relaySource(async () => {
        const [toServer, toClient] = [1, 2].map(() => new Channel<JsonObject>({ capacity: 64 }));
        serveMessages(source, {
          incoming: toServer!,
          send: (message) => toClient!.push(message),
          close: async () => toClient!.close(),
        });
        return {
          incoming: toClient!,
          send: (message) => toServer!.push(message),
          close: async () => toServer!.close(),
        };
      }),
  ],
])('a caller without a session cannot end the calls of others: %s', async (_, sourceOf) => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  let begun = (): void => {};
  const started = new Promise<void>((resolve) => (begun = resolve));
  const wait = tool('wait', '', {}, async () => (begun(), await gate, 'done'));
  const hi = tool('hi', '', {}, () => 'hello');
  await using handler = mcpHandler(sourceOf(createRegistry({ name: 'slow', tools: [wait, hi] })));
  const call = callStateless(handler, 'anna', { name: 'wait' });
  await started;
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'notifications/cancelled' };
  const params = { requestId: 1 };
  for (const message of [
    { method: 'notifications/cancelled', params },
    { method: 'notifications/cancelled', params: { ...params, _meta: STATELESS_META } },
    { id: 1, result: {} },
    { id: 1, error: { code: 0, message: '' } },
  ])
    expect((await post(handler, 'eve', message, headers)).status).toBe(202);
  // The same id is free for another client.
  expect(await (await callStateless(handler, 'eve', { name: 'hi' })).text()).toContain('hello');
  release();
  expect(await (await call).text()).toContain('done');
});

test('a client cannot take the caller name that another request was given', async () => {
  const callers: unknown[] = [];
  const source: ToolSource = {
    info: { name: 'names', version: '1' },
    listTools: async function* () {},
    async *callTool(_, options) {
      callers.push(options?.caller);
      yield { type: 'result', result: { content: [] } };
    },
  };
  await using handler = mcpHandler(source);
  const params = { name: 'x', arguments: {} };
  const headers = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'x',
  };
  for (const name of [undefined, '#1', '#2', '#3', '=#1']) {
    const _meta = { ...STATELESS_META, ...(name !== undefined && { 'duolane/caller': name }) };
    const message = { id: 1, method: 'tools/call', params: { ...params, _meta } };
    await post(handler, undefined, message, headers);
  }
  expect(new Set(callers).size).toBe(5);
});

test('a cancel that arrives before its call is applied', async () => {
  await using handler = mcpHandler(registry);
  const session = await begin(handler, 'anna');
  const cancel = { method: 'notifications/cancelled', params: { requestId: 5 } };
  await post(handler, 'anna', cancel, session);
  const call = { method: 'tools/call', params: { name: 'move', arguments: {} } };
  expect((await post(handler, 'anna', { id: 5, ...call }, session)).status).toBe(202);
  expect((await post(handler, 'anna', { id: 6, ...call }, session)).status).toBe(200);
});

test('a call of a tool that was not listed here finds its parameter headers', async () => {
  await using offered = await offerHttp(registry);
  await using first = await dialHttp({ url: offered.url, protocol: 'stateless' });
  for await (const tool of first.listTools()) expect(tool.name).toBeDefined();
  // The server knows its marks now; this client does not.
  await using second = await dialHttp({ url: offered.url, protocol: 'stateless' });
  expect(await toArray(second.callTool(callOf('move', { to: 'käse' })))).toEqual([
    { type: 'result', result: { content: [{ type: 'text', text: 'moved' }] } },
  ]);
});

test('a parameter header of a listed tool must be present and equal to the body', async () => {
  await using handler = mcpHandler(registry);
  await stateless(handler, 'anna', {});
  const move = { name: 'move', arguments: { to: 'käse' } };
  const codeOf = async (headers: Record<string, string>): Promise<unknown> => {
    const { error } = await stateless(handler, 'anna', move, headers);
    return isObject(error) ? error['code'] : undefined;
  };
  expect(await codeOf({})).toBe(-32020);
  expect(await codeOf({ 'mcp-param-to': 'brot' })).toBe(-32020);
  expect(await codeOf({ 'mcp-param-to': '=?base64?a8Okc2U?=' })).toBe(-32020);
  expect(await codeOf({ 'mcp-param-to': '=?base64?a8Okc2U=?=' })).toBeUndefined();
});

test.each([
  ['in the first request', {}],
  ['with the id of its call', { 'claudecode/toolUseId': 'c1' }],
])('a client cannot answer %s in place of the person that `ask` asks', async (_, meta) => {
  const asked: string[] = [];
  const pay = tool('pay', 'Pays', {}, async (_args, ctx) => {
    const { action } = await ctx.ask({ id: 'sure', kind: 'approval', message: 'Pay?' });
    return action;
  });
  await using handler = mcpHandler(createRegistry({ name: 'desk', tools: [pay] }), {
    ask: async ({ id, message = '' }) => {
      asked.push(message);
      return { id, action: 'decline' };
    },
  });
  const yes = { action: 'accept', content: {} };
  const inputResponses = { sure: yes, 'c1/sure': yes };
  const params = {
    name: 'pay',
    arguments: {},
    inputResponses,
    _meta: { ...STATELESS_META, ...meta },
  };
  const response = await post(
    handler,
    'ada',
    { id: 1, method: 'tools/call', params },
    { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'pay' },
  );
  expect(await response.json()).toMatchObject({ result: { content: [{ text: 'decline' }] } });
  expect(asked).toEqual(['Pay?']);
});
