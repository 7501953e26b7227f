import { PassThrough } from 'node:stream';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { listen } from '../../src/http/node-server.ts';
import type { JsonObject } from '../../src/json.ts';
import {
  createRegistry,
  dialHttp,
  mcpHandler,
  type McpHandler,
  offerStdio,
  tool,
} from '../../src/mcp/index.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';

const work = tool('work', 'Reports and returns', {}, async (_, context) => {
  await context.progress(1);
  return 'done';
});
const registry = createRegistry({ name: 'batched', tools: [work] });

const rpc = (id: number | undefined, method: string, params: JsonObject = {}): JsonObject => ({
  jsonrpc: '2.0',
  ...(id !== undefined && { id }),
  method,
  params,
});
const initialize = (protocolVersion: string): JsonObject =>
  rpc(0, 'initialize', {
    protocolVersion,
    capabilities: {},
    clientInfo: { name: 'c', version: '1' },
  });
const CALL = rpc(2, 'tools/call', { name: 'work', _meta: { progressToken: 'p' } });
const BATCH = [rpc(undefined, 'notifications/initialized'), rpc(1, 'tools/list'), CALL];

const post = (handler: McpHandler, body: unknown, session = ''): Promise<Response> =>
  handler.handle(
    new Request('http://localhost/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session !== '' && { 'mcp-session-id': session }),
      },
      body: JSON.stringify(body),
    }),
  );

async function begin(handler: McpHandler, version: string): Promise<string> {
  const response = await post(handler, initialize(version));
  return response.headers.get('mcp-session-id') ?? '';
}

const dataOf = (text: string): JsonObject[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json) as JsonObject);

test('a batch of 2025-03-26 gets the responses to all of its requests', async () => {
  await using handler = mcpHandler(registry);
  const session = await begin(handler, '2025-03-26');
  const response = await post(handler, BATCH, session);
  expect(response.status).toBe(200);
  const messages = dataOf(await response.text());
  expect(messages.map(({ id }) => id).filter((id) => id !== undefined)).toEqual(
    expect.arrayContaining([1, 2]),
  );
  expect(messages.filter(({ method }) => method === 'notifications/progress')).toHaveLength(1);
  expect((await post(handler, [BATCH[0]], session)).status).toBe(202);
});

test('a batch is refused in other versions, without messages, and to begin with', async () => {
  await using handler = mcpHandler(registry);
  const newer = await begin(handler, '2025-06-18');
  const old = await begin(handler, '2025-03-26');
  expect((await post(handler, BATCH, newer)).status).toBe(400);
  expect((await post(handler, [], old)).status).toBe(400);
  expect((await post(handler, Array(101).fill(BATCH[1]), old)).status).toBe(400);
  expect((await post(handler, [{ not: 'a message' }], old)).status).toBe(400);
  expect((await post(handler, [initialize('2025-03-26')])).status).toBe(400);
});

test('a batch over stdio is handled message by message', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  await using _served = offerStdio(registry, { input, output });
  const lines = createInterface(output)[Symbol.asyncIterator]();
  const next = async (): Promise<JsonObject> =>
    JSON.parse(String((await lines.next()).value)) as JsonObject;
  input.write(`${JSON.stringify(initialize('2025-03-26'))}\n`);
  expect((await next())['id']).toBe(0);
  input.write(`${JSON.stringify(BATCH)}\n`);
  const ids = [await next(), await next(), await next()].map(({ id }) => id);
  expect(ids).toEqual(expect.arrayContaining([1, 2]));
});

test('a server that sends an event with several messages is understood', async () => {
  await using listening = await listen(async (request) => {
    if (request.method !== 'POST') return new Response(null, { status: 405 });
    const { id, method } = (await request.json()) as JsonObject;
    if (id === undefined) return new Response(null, { status: 202 });
    const headers = { 'content-type': 'text/event-stream', 'mcp-session-id': 's' };
    const results: Record<string, JsonObject> = {
      initialize: {
        protocolVersion: '2025-03-26',
        capabilities: { tools: {} },
        serverInfo: { name: 's', version: '1' },
      },
      'tools/call': { content: [{ type: 'text', text: 'done' }] },
    };
    const log = rpc(undefined, 'notifications/message', { level: 'info', data: 'first' });
    const response = { jsonrpc: '2.0', id, result: results[String(method)] ?? {} };
    return new Response(`data: ${JSON.stringify([log, response])}\n\n`, { headers });
  });
  await using source = await dialHttp({ url: listening.url, protocol: 'session' });
  const events = await toArray(source.callTool(call('work')));
  expect(events.at(-1)).toMatchObject({
    type: 'result',
    result: { content: [{ type: 'text', text: 'done' }] },
  });
});
