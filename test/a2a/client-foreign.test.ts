import { expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { all, httpServer } from './support.ts';

// Servers of others, as they are: without operations, with queries in their address, with odd cards.

const task = (state: string, text: string): JsonObject => ({
  kind: 'task',
  id: 't',
  contextId: 'c',
  status: { state, timestamp: '2026-01-01T00:00:00Z' },
  artifacts: [{ artifactId: 'a', parts: [{ kind: 'text', text }] }],
});

const sse = (result: JsonObject): string =>
  `data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result })}\n\n`;

/** Cuts every stream behind its first events, and cannot resume one. */
async function withoutResume(refuse: 'json-rpc' | 'http', states: readonly string[]) {
  const asked: string[] = [];
  const server = await httpServer((request, response, body) => {
    if (request.method === 'GET') {
      const capabilities = { streaming: true };
      const card = { name: 'x', protocolVersion: '0.3.0', url: server.url, capabilities };
      return void response.end(JSON.stringify(card));
    }
    const { method, id } = JSON.parse(body) as { method: string; id: number };
    asked.push(method);
    const json = (answer: JsonObject, status = 200): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    };
    if (method === 'message/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(sse(task('working', 'one ')), () => response.destroy());
    } else if (method === 'tasks/get') {
      const state = states[asked.filter((each) => each === 'tasks/get').length - 1] ?? 'completed';
      json({ result: task(state, state === 'completed' ? 'one two' : 'one ') });
    } else if (refuse === 'json-rpc')
      json({ error: { code: -32601, message: 'Method not found' } });
    else json({}, 405);
  });
  return { server, asked };
}

for (const refuse of ['json-rpc', 'http'] as const)
  test(`a lost stream is read to its end if the server cannot resume (${refuse})`, async () => {
    const { server, asked } = await withoutResume(refuse, ['working', 'working', 'completed']);
    await using _ = server;
    const client = await connectA2A(server.url);
    const stream = client.stream('go', { retryMs: 1 });
    await all(stream);
    expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
    expect(stream.text).toBe('one two');
    expect(stream.problems.map(({ kind }) => kind)).toContain('no-streaming');
    expect(asked.filter((method) => method === 'tasks/resubscribe')).toHaveLength(1);
    expect(asked.filter((method) => method === 'tasks/get').length).toBeGreaterThan(2);
  });

test('a server that sends retry with every stream, and none for a final task, is read to the end', async () => {
  const asked: string[] = [];
  const server = await httpServer((request, response, body) => {
    const capabilities = { streaming: true };
    const card = { name: 'x', protocolVersion: '0.3.0', url: server.url, capabilities };
    if (request.method === 'GET') return void response.end(JSON.stringify(card));
    const { method, id } = JSON.parse(body) as { method: string; id: number };
    asked.push(method);
    if (method === 'tasks/get')
      return void response.end(
        JSON.stringify({ jsonrpc: '2.0', id, result: task('completed', 'one') }),
      );
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`retry: 1\n\n${method === 'message/stream' ? sse(task('working', '')) : ''}`);
  });
  await using _ = server;
  const stream = (await connectA2A(server.url)).stream('go', { retryMs: 1, retryForMs: 2000 });
  await all(stream);
  expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  expect(asked).toEqual(['message/stream', 'tasks/resubscribe', 'tasks/get']);
});

test('the query of the URL is kept for the card and every operation', async () => {
  for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
    const asked: string[] = [];
    const server = await httpServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      const url = `${server.url}/a2a?assistant_id=7`;
      const interfaces = [{ url, protocolBinding: binding, protocolVersion: '1.0' }];
      const answer = request.url?.includes('agent-card')
        ? { name: 'x', supportedInterfaces: interfaces }
        : { ...task('x', ''), status: { state: 'TASK_STATE_COMPLETED' } };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(binding === 'JSONRPC' ? { ...answer, result: answer } : answer));
    });
    await using _ = server;
    for (const base of [`${server.url}?assistant_id=7`, `${server.url}/?assistant_id=7#top`]) {
      const client = await connectA2A(base);
      await client.get('t', { historyLength: 1 });
    }
    const card = 'GET /.well-known/agent-card.json?assistant_id=7';
    const get =
      binding === 'JSONRPC'
        ? 'POST /a2a?assistant_id=7'
        : 'GET /a2a/tasks/t?assistant_id=7&historyLength=1';
    expect(asked).toEqual([card, get, card, get]);
  }
});

test('an invalid URL is refused with its text', async () => {
  await expect(connectA2A('example')).rejects.toMatchObject({ code: 'invalid' });
});

test('the version of a card can be overridden, and the error says how', async () => {
  const server = await httpServer((_request, response) =>
    response.end(JSON.stringify({ name: 'x', protocolVersion: '0.2.0', url: server.url })),
  );
  await using _ = server;
  await expect(connectA2A(server.url)).rejects.toThrow(`"0.2.0": if the agent supports 0.3`);
  expect(await connectA2A(server.url, { version: '0.3' })).toMatchObject({
    version: '0.3',
    binding: 'JSONRPC',
  });
});

test('a value that JSON cannot represent is a malformed error', async () => {
  const odd = { toString: 1 };
  const server = await httpServer((request, response) => {
    const card = { name: odd, protocolVersion: odd, url: server.url };
    const good = { ...card, protocolVersion: '0.3.0' };
    const result = { name: odd, pushNotificationConfig: { id: odd } };
    if (request.url?.startsWith('/odd')) return void response.end(JSON.stringify(card));
    const answer = request.method === 'GET' ? good : { jsonrpc: '2.0', id: 1, result };
    response.end(JSON.stringify(answer));
  });
  await using _ = server;
  await expect(connectA2A(`${server.url}/odd`)).rejects.toMatchObject({ code: 'unsupported' });
  const client = await connectA2A(server.url);
  await expect(client.getPushConfig('t', 'p')).rejects.toMatchObject({ code: 'malformed' });
});
