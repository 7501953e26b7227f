import { expect, test } from 'vitest';
import { createRegistry } from '../../mcp/registry/registry.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { serve, type Served } from '../serve.ts';

const ORIGIN = 'https://app.example.com';

const start = (origins?: readonly string[]): Promise<Served> =>
  serve(
    async function* () {
      yield { type: 'text.delta', id: 't', delta: 'hello' };
    },
    { log: memoryLog(), page: false, auth: { bearer: 'secret' }, ...(origins && { origins }) },
  );

const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] };
const post = (url: string, headers: Record<string, string>): Promise<Response> =>
  fetch(`${url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendStreamingMessage',
      params: { message },
    }),
  });

const preflight = (url: string, origin: string): Promise<Response> =>
  fetch(`${url}/a2a`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, content-type, a2a-version, last-event-id',
    },
  });

test('pages of the configured origins may send requests and read the responses', async () => {
  await using served = await start([ORIGIN]);
  const asked = await preflight(served.url, ORIGIN);
  expect(asked.status).toBe(204);
  expect(Object.fromEntries(asked.headers)).toMatchObject({
    'access-control-allow-origin': ORIGIN,
    'access-control-allow-methods': 'GET, POST, DELETE',
    'access-control-allow-headers': 'authorization, content-type, a2a-version, last-event-id',
    vary: 'Origin',
  });
  const told = await post(served.url, { origin: ORIGIN, authorization: 'Bearer secret' });
  expect(told.headers.get('content-type')).toContain('text/event-stream');
  expect(told.headers.get('access-control-allow-origin')).toBe(ORIGIN);
  expect(await told.text()).toContain('TASK_STATE_COMPLETED');
  // Cookies are for the page of this server alone.
  expect(told.headers.get('access-control-allow-credentials')).toBeNull();
  const refused = await post(served.url, { origin: ORIGIN });
  expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([
    401,
    ORIGIN,
  ]);
  const card = await fetch(`${served.url}/.well-known/agent-card.json`, {
    headers: { origin: ORIGIN },
  });
  expect(card.headers.get('access-control-allow-origin')).toBe(ORIGIN);
  expect(card.headers.get('vary')).toBe('A2A-Version, Origin');
});

test.each([
  [undefined, ORIGIN],
  [[ORIGIN], 'https://evil.example'],
  [[ORIGIN], 'http://app.example.com'],
  [[ORIGIN], 'null'],
])('with %s named, pages of %s are refused', async (origins, origin) => {
  await using served = await start(origins);
  const first = await preflight(served.url, origin);
  const second = await post(served.url, { origin, authorization: 'Bearer secret' });
  for (const response of [first, second]) {
    expect(response.status).toBe(403);
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
    await response.body?.cancel();
  }
});

test('an origin that no page can have is refused at the start', async () => {
  for (const origin of ['*', 'app.example.com', 'https://app.example.com/path'])
    await expect(start([origin])).rejects.toMatchObject({ code: 'invalid' });
});

test.each([
  ['https://app.example.com', 200],
  ['https://agents.example.com', 200],
  ['https://evil.example', 403],
])('the MCP endpoint treats pages of %s as all routes do', async (origin, status) => {
  await using served = await serve(async function* () {}, {
    log: memoryLog(),
    page: false,
    tools: createRegistry({ name: 'none' }),
    auth: { bearer: 'secret' },
    origins: ['https://app.example.com'],
    publicUrl: 'https://agents.example.com',
  });
  const headers = { origin, authorization: 'Bearer secret' };
  const params = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'a', version: '1' },
  };
  const response = await fetch(`${served.url}/mcp`, {
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  });
  expect(response.status).toBe(status);
  if (origin === 'https://app.example.com')
    expect(response.headers.get('access-control-expose-headers')).toContain('mcp-session-id');
  expect((await fetch(`${served.url}/api/agents`, { headers })).status).toBe(status);
});
