import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { describe, expect, test } from 'vitest';
import { connectA2A, type A2AClient, type A2ATaskPage } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller, httpServer, mountAgent, serveAgent, taskIdOf } from './support.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};
const waiting: Agent = async function* (_turn, ctx) {
  yield { type: 'status', message: 'here' };
  await once(ctx.signal, 'abort');
};

test.each(['0.0.0.0', '::', '192.168.1.5', 'example.com', '127.0.0.1.example.com'])(
  'a server on %s does not start without authentication',
  async (host) => {
    await expect(serve(hello, { host, log: memoryLog() })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('auth') as string,
    });
  },
);

describe('with secrets', () => {
  const auth = {
    bearer: { ada: 'token-of-ada', bob: 'token-of-bob' },
    apiKey: { header: 'x-key', keys: { eve: 'key-of-eve' } },
  };

  test('callers see their own tasks only', async () => {
    await using served = await serve(hello, { log: memoryLog(), page: false, auth });
    const connect = (headers: Record<string, string>) => connectA2A(served.url, { headers });
    const ada = await connect({ authorization: 'Bearer token-of-ada' });
    const bob = await connect({ authorization: 'Bearer token-of-bob' });
    const eve = await connect({ 'x-key': 'key-of-eve' });
    const stream = ada.stream('hi', { messageId: 'same' });
    await stream.result();
    const task = stream.taskId!;
    for (const other of [bob, eve]) {
      await expect(other.get(task)).rejects.toMatchObject({ code: 'not_found' });
      await expect(other.cancel(task)).rejects.toMatchObject({ code: 'not_found' });
      await expect(other.resume(task).result()).rejects.toMatchObject({ code: 'not_found' });
      await expect(other.send('hi', { taskId: task })).rejects.toMatchObject({ code: 'not_found' });
      expect((await other.list()).tasks).toEqual([]);
    }
    // The same message id of another owner is another message.
    expect(await bob.send('hi', { messageId: 'same' })).not.toMatchObject({ id: task });
    expect((await ada.list()).tasks).toHaveLength(1);
  });

  test('a wrong secret is refused; the card is public and names the scheme', async () => {
    await using served = await serve(hello, { log: memoryLog(), page: false, auth });
    const wrong = { authorization: 'Bearer token-of-mallory' };
    const client = await connectA2A(served.url, { headers: wrong });
    expect(client.card).toMatchObject({
      securitySchemes: {
        bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
        apiKey: { apiKeySecurityScheme: { location: 'header', name: 'x-key' } },
      },
    });
    await expect(client.send('hi')).rejects.toMatchObject({ code: 'unauthorized' });
    expect((await fetch(`${served.url}/healthz`)).status).toBe(200);
    expect((await fetch(`${served.url}/readyz`)).status).toBe(200);
    expect((await fetch(`${served.url}/api/tasks`)).status).toBe(401);
  });

  test('the streams of one caller do not count against another', async () => {
    await using served = await serve(waiting, {
      log: memoryLog(),
      page: false,
      graceMs: 50,
      auth,
      a2a: { maxStreams: 1 },
    });
    const open = async (token: string): Promise<Response> => {
      const caller = new Caller(served.url);
      const headers = { authorization: `Bearer ${token}` };
      return caller.post('SendStreamingMessage', caller.message('x'), headers);
    };
    const ada = await open('token-of-ada');
    const bob = await open('token-of-bob');
    for (const response of [ada, bob])
      expect(response.headers.get('content-type')).toMatch(/event-stream/);
    expect(await (await open('token-of-ada')).json()).toMatchObject({ error: { code: -32000 } });
    for (const response of [ada, bob]) await response.body?.cancel();
  });

  test('tokens of an issuer authenticate callers, and the card says where to get one', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256');
    const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }];
    await using issuer = await httpServer(({ url, headers }, response) => {
      const own = `http://${headers.host}`;
      const configuration = { issuer: own, jwks_uri: `${own}/keys` };
      response.end(JSON.stringify(url === '/keys' ? { keys } : configuration));
    });
    const jwt = { issuer: issuer.url, audience: 'agent', scopes: ['run'] };
    await using served = await serve(hello, { log: memoryLog(), page: false, auth: { jwt } });
    const connect = async (sub: string, scope = 'run'): Promise<A2AClient> => {
      const token = await new SignJWT({ scope })
        .setProtectedHeader({ alg: 'ES256', kid: 'k' })
        .setIssuer(issuer.url)
        .setAudience('agent')
        .setSubject(sub)
        .setExpirationTime('1m')
        .sign(privateKey);
      return connectA2A(served.url, { headers: { authorization: `Bearer ${token}` } });
    };
    const ada = await connect('ada');
    const { id } = (await ada.send('hi')) as { id: string };
    expect(await served.log.get(id)).toMatchObject({ owner: 'ada' });
    await expect((await connect('bob')).get(id)).rejects.toMatchObject({ code: 'not_found' });
    const poor = await connect('ada', 'read');
    await expect(poor.get(id)).rejects.toMatchObject({ code: 'unauthorized' });
    const openIdConnectUrl = `${issuer.url}/.well-known/openid-configuration`;
    expect(ada.card).toMatchObject({
      securitySchemes: { jwt: { openIdConnectSecurityScheme: { openIdConnectUrl } } },
      securityRequirements: [{ schemes: { jwt: { list: ['run'] } } }],
    });
    const old = await fetch(`${served.url}/.well-known/agent-card.json`, {
      headers: { 'a2a-version': '0.3' },
    });
    expect(await old.json()).toMatchObject({
      securitySchemes: { jwt: { type: 'openIdConnect', openIdConnectUrl } },
      security: [{ jwt: ['run'] }],
    });
  });

  test('a verify function decides who the caller is', async () => {
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      auth: { verify: async (request) => request.headers.get('x-user') ?? undefined },
    });
    const client = await connectA2A(served.url, { headers: { 'x-user': 'ada' } });
    const { id } = (await client.send('hi')) as { id: string };
    expect(await served.log.get(id)).toMatchObject({ owner: 'ada' });
    await expect((await connectA2A(served.url)).send('hi')).rejects.toMatchObject({
      code: 'unauthorized',
    });
  });
});

test('tasks of another tenant do not exist for a caller', async () => {
  const url = 'http://127.0.0.1/agent';
  await using mounted = mountAgent(url, hello);
  const send = async (path: string, body: unknown): Promise<{ task: { id: string } }> => {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await mounted.handle(new Request(`${url}${path}`, init))).json() as never;
  };
  const get = (path: string): Promise<Response> => mounted.handle(new Request(`${url}${path}`));
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
  const { task } = await send('/acme/message:send', { message });
  expect((await get(`/acme/tasks/${task.id}`)).status).toBe(200);
  expect((await get(`/tasks/${task.id}`)).status).toBe(404);
  expect((await get(`/other/tasks/${task.id}`)).status).toBe(404);
  expect(await (await get('/other/tasks')).json()).toMatchObject({ tasks: [], totalSize: 0 });
  // The same message id in another place is another message, also as a stream.
  const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
  const init = { method: 'POST', headers, body: JSON.stringify({ message }) };
  const other = await mounted.handle(new Request(`${url}/other/message:stream`, init));
  expect(await other.text()).not.toContain(task.id);
});

test('a message id of another task does not return that task', async () => {
  const asks: Agent = async function* (_turn, ctx) {
    await ctx.ask({ id: 'q', kind: 'question', message: 'who?' });
  };
  await using served = await serveAgent(asks);
  const client = await connectA2A(served.url);
  const [first, second] = [await client.send('a'), await client.send('b')] as { id: string }[];
  await client.send('ada', { taskId: first!.id, messageId: 'same' });
  await expect(client.send('bob', { taskId: second!.id, messageId: 'same' })).rejects.toMatchObject(
    { code: 'invalid' },
  );
});

test('requests that are too large or too many are refused with a message', async () => {
  await using served = await serve(waiting, {
    log: memoryLog(),
    page: false,
    graceMs: 50,
    a2a: { maxBodyBytes: 10_000, maxParts: 3, maxStreams: 2 },
  });
  const caller = new Caller(served.url);
  const large = await caller.call('SendMessage', caller.message('x'.repeat(20_000)));
  expect(large).toMatchObject({ error: { message: expect.stringContaining('10000') as string } });
  const parts = Array.from({ length: 4 }, () => ({ text: 'x' }));
  const many = await caller.call('SendMessage', caller.message('x', { parts }));
  expect(many).toMatchObject({ error: { code: -32602 } });
  const open = [caller.say('one'), caller.say('two')];
  for (const stream of open) await stream.next();
  const third = await caller.call('SendStreamingMessage', caller.message('three'));
  expect(third).toMatchObject({ error: { code: -32000 } });
  await open[0]!.return();
  // A place that was left is free again, as soon as the server has noticed.
  await expect
    .poll(async () => {
      const response = await caller.post('SendStreamingMessage', caller.message('four'));
      await response.body?.cancel();
      return response.headers.get('content-type');
    })
    .toMatch(/event-stream/);
  await open[1]!.return();
});

test.each([1001, 200_000])(
  '%i answers in one message are refused with a message',
  async (length) => {
    await using served = await serve(waiting, { log: memoryLog(), page: false, graceMs: 50 });
    const caller = new Caller(served.url);
    const answers = Array.from({ length }, () => ({ id: 'q', action: 'accept' }));
    const refused = await caller.call(
      'SendMessage',
      caller.message('x', { parts: [{ data: { answers } }] }),
    );
    expect(refused).toMatchObject({
      error: { code: -32602, message: `invalid answers: expected at most 1000, got ${length}` },
    });
  },
);

test('a stream that is never read frees its slot when the caller disconnects', async () => {
  const url = 'http://127.0.0.1/agent';
  await using mounted = mountAgent(url, waiting, { maxStreams: 1 });
  const open = (signal?: AbortSignal): Promise<Response> => {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
    const init = { method: 'POST', headers, body: JSON.stringify({ message }) };
    const request = new Request(`${url}/message:stream`, { ...init, ...(signal && { signal }) });
    return mounted.handle(request);
  };
  const leave = new AbortController();
  expect((await open(leave.signal)).status).toBe(200);
  expect((await open()).status).toBe(429);
  leave.abort();
  const second = await open();
  expect(second.status).toBe(200);
  await second.body?.cancel();
});

test.each(['SendMessage', 'GetTask', 'ListTasks', 'SubscribeToTask', 'SendStreamingMessage'])(
  'an internal failure of %s is logged and not shown to the caller',
  async (method) => {
    const told: unknown[] = [];
    const fail = (): never => {
      throw new Error('secret of the house');
    };
    const log = Object.assign(memoryLog(), { get: fail, list: fail, submit: fail });
    await using served = await serve(hello, {
      log,
      page: false,
      logger: { debug() {}, info() {}, warn() {}, error: (_, fields) => told.push(fields) },
    });
    const caller = new Caller(served.url);
    const params = method.startsWith('Send') ? caller.message('x') : { id: 'x' };
    const response = await caller.post(method, params);
    const text = await response.text();
    expect(text).toContain('-32603');
    expect(text).not.toContain('secret');
    expect(text).not.toMatch(/\.ts:|node_modules/);
    expect(JSON.stringify(told)).toContain('secret of the house');
  },
);

test('a 0.3 caller that writes snake_case gets snake_case', async () => {
  const url = 'http://127.0.0.1/agent';
  await using mounted = mountAgent(url, hello);
  const send = async (message: unknown): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: JSON.stringify({ message }) };
    return (await mounted.handle(new Request(`${url}/v1/message:send`, init))).json();
  };
  const content = [{ text: 'hi' }];
  const metadata = { myOwn: 1 };
  const snake = await send({ message_id: 'a', role: 'ROLE_USER', content, metadata });
  expect(snake).toHaveProperty('task.context_id');
  expect(snake).toHaveProperty('task.history.0.message_id', 'a');
  expect(snake).toHaveProperty('task.history.0.metadata', metadata);
  expect(snake).not.toHaveProperty('task.contextId');
  const camel = await send({ messageId: 'b', role: 'ROLE_USER', content });
  expect(camel).toHaveProperty('task.contextId');
  expect(camel).not.toHaveProperty('task.context_id');
});

test('a page of another site is refused, and no response allows it', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const cross = await caller.post('SendMessage', caller.message('x'), {
    origin: 'https://evil.example',
  });
  expect(cross.status).toBe(403);
  const own = await caller.post('SendMessage', caller.message('x'));
  expect(own.headers.get('access-control-allow-origin')).toBeNull();
});

test.each([
  ['//localhost:PORT/api/tasks', 'evil.example', 403],
  ['http://localhost:PORT/api/tasks', 'evil.example:80', 403],
  ['/api/tasks', 'evil.example', 403],
  ['//evil.example/api/tasks', 'localhost', 404],
  ['//', 'localhost', 404],
  ['/', 'a b', 400],
  ['/api/tasks', 'localhost', 200],
])('a request for %s at host %s is answered %i', async (target, host, status) => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const { port } = new URL(served.url);
  const path = target.replace('PORT', port);
  const sent = request({ host: '127.0.0.1', port, path, headers: { host }, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  expect(response.statusCode).toBe(status);
});

test('a caller must name the extensions that the agent requires', async () => {
  const uri = 'https://example.com/ext/v1';
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    card: { extensions: [{ uri, required: true }] },
  });
  const caller = new Caller(served.url);
  const refused = await caller.call('SendMessage', caller.message('x'));
  expect(refused).toMatchObject({
    error: { code: -32008, data: [{ reason: 'EXTENSION_SUPPORT_REQUIRED' }] },
  });
  const named = { 'a2a-extensions': `other, ${uri}` };
  const response = await caller.post('SendMessage', caller.message('x'), named);
  expect(response.headers.get('a2a-extensions')).toBe(uri);
  expect(await response.json()).toHaveProperty('result.task');
});

test('a media type that the card does not name is refused', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const part = (mediaType: string): Promise<unknown> =>
    caller.call('SendMessage', caller.message('', { parts: [{ raw: 'aGk=', mediaType }] }));
  expect(await part('image/png')).toMatchObject({ error: { code: -32005 } });
  expect(await part('text/plain; charset=utf-8')).toHaveProperty('result.task');
});

test('an agent may reply with a message, which creates no task', async () => {
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    a2a: { reply: async ({ parts }) => ('text' in parts[0]! ? [{ text: 'pong' }] : undefined) },
  });
  const client = await connectA2A(served.url);
  expect(await client.send('ping')).toMatchObject({
    role: 'ROLE_AGENT',
    parts: [{ text: 'pong' }],
  });
  const stream = client.stream('ping');
  expect(await all(stream)).toHaveLength(1);
  expect(stream.text).toBe('pong');
  expect((await client.list()).tasks).toEqual([]);
});

test('a silent stream sends heartbeats', async () => {
  await using served = await serve(waiting, {
    log: memoryLog(),
    page: false,
    graceMs: 50,
    a2a: { heartbeatMs: 30 },
  });
  const caller = new Caller(served.url);
  const response = await caller.post('SendStreamingMessage', caller.message('x'));
  const reader = response.body!.getReader();
  let text = '';
  while ((text.match(/^: $/gm) ?? []).length < 3) {
    text += new TextDecoder().decode((await reader.read()).value);
  }
  expect(text).toMatch(/\n\n: \n\n: \n\n: /);
  await reader.cancel();
});

test('a resume after an event that does not exist is refused', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const id = taskIdOf(await all(caller.say('x')));
  for (const after of ['999', 'nonsense', '-1']) {
    const response = await caller.post('SubscribeToTask', { id }, { 'last-event-id': after });
    expect(await response.json()).toMatchObject({ error: { code: -32602 } });
  }
  for (const lastEventId of ['999', 'nonsense', -1, true, {}]) {
    const response = await caller.post('SubscribeToTask', { id, metadata: { lastEventId } });
    expect(await response.json()).toMatchObject({ error: { code: -32602 } });
  }
  for (const lastEventId of ['2', 2]) {
    const response = await caller.post('SubscribeToTask', { id, metadata: { lastEventId } });
    expect(await response.text()).toMatch(/^id: 3\n/);
  }
});

test('an error has the id of the request, also for an unknown version or content type', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  for (const headers of [{ 'a2a-version': '1.1' }, { 'a2a-version': 'junk' }]) {
    const response = await caller.post('GetTask', { id: 'x' }, headers);
    expect(await response.json()).toMatchObject({ id: 7, error: { code: -32009 } });
  }
});

test('a page token is valid for its own query only', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  for (const contextId of ['a', 'a', 'true', 'true'])
    await caller.call('SendMessage', caller.message('x', { contextId }));
  const list = async (params: object): Promise<A2ATaskPage> =>
    (await caller.call('ListTasks', params))['result'] as A2ATaskPage;
  const { nextPageToken: pageToken, totalSize } = await list({ pageSize: 1 });
  expect(totalSize).toBe(4);
  expect(await list({ pageSize: 3, pageToken, includeArtifacts: true })).toMatchObject({
    totalSize: 4,
    nextPageToken: '',
  });
  expect(await caller.call('ListTasks', { contextId: 'a', pageToken })).toMatchObject({
    error: { code: -32602, message: expect.stringContaining('pageToken') as string },
  });
  const rest = await fetch(`${served.url}/a2a/agent/tasks?contextId=true&includeArtifacts=true`);
  expect(await rest.json()).toMatchObject({ totalSize: 2, tasks: [{ artifacts: [{}] }, {}] });
});

test('a list page of large tasks ends early, and the next one continues', async () => {
  const log = memoryLog();
  for (let i = 0; i < 12; i++) {
    const turn = { agent: 'agent', task: `t${i}`, context: 'c', messageId: `m${i}` };
    await log.submit({ ...turn, parts: [{ text: 'x'.repeat(1_000_000) }] });
  }
  await using served = await serve(hello, { log, page: false, maxRuns: 0 });
  const caller = new Caller(served.url);
  const pages: number[] = [];
  for (let pageToken: string | undefined; pageToken !== '';) {
    const params = { pageSize: 100, historyLength: 1, ...(pageToken && { pageToken }) };
    const page = (await caller.call('ListTasks', params))['result'] as A2ATaskPage;
    pages.push(page.tasks.length);
    pageToken = page.nextPageToken;
  }
  expect(pages).toEqual([9, 3]);
});

test('no response has more history than maxHistory', async () => {
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    a2a: { maxHistory: 1 },
  });
  const caller = new Caller(served.url);
  const message = caller.message('x');
  const configuration = { historyLength: 9 };
  const sent = await caller.call('SendMessage', { ...message, configuration });
  expect(sent).toMatchObject({ result: { task: { history: [{ role: 'ROLE_AGENT' }] } } });
  const listed = (await caller.call('ListTasks', { historyLength: 9 }))['result'] as A2ATaskPage;
  expect(listed.tasks[0]?.history).toHaveLength(1);
  const none = { ...caller.message('y'), configuration: { historyLength: 0 } };
  const [first] = await all(caller.stream('SendStreamingMessage', none));
  expect(first?.result['task']).toMatchObject({ status: { state: 'TASK_STATE_SUBMITTED' } });
  expect(first?.result['task']).not.toHaveProperty('history');
});

test('parameters of a list are validated, and empty ones are ignored', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  await caller.call('SendMessage', caller.message('x'));
  const rest = async (query: string): Promise<unknown> => {
    const response = await fetch(`${served.url}/a2a/agent${query}`);
    return response.status === 200 ? ((await response.json()) as A2ATaskPage).totalSize : 'refused';
  };
  for (const params of [
    { pageSize: null, status: null },
    { status: '', contextId: '' },
  ])
    expect(await caller.call('ListTasks', params)).toMatchObject({ result: { totalSize: 1 } });
  expect(await rest('/tasks?status=&pageSize=&contextId=&historyLength=')).toBe(1);
  for (const statusTimestampAfter of ['5', 'yesterday', '2026-13-01T00:00:00Z'])
    expect(await caller.call('ListTasks', { statusTimestampAfter })).toMatchObject({
      error: { code: -32602 },
    });
  // The protobuf of 0.3 writes it with two l.
  expect(await rest('/v1/tasks?status=TASK_STATE_CANCELLED')).toBe(0);
  expect(await rest('/tasks?status=TASK_STATE_CANCELLED')).toBe('refused');
});

test('the card accepts only GET and HEAD', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const url = `${served.url}/.well-known/agent-card.json`;
  const head = await fetch(url, { method: 'HEAD' });
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/json']);
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const response = await fetch(url, { method });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  }
});

test('a 0.3 caller gets the extensions in the header of 0.3', async () => {
  const uri = 'https://example.com/ext';
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    card: { extensions: [{ uri }] },
  });
  const old = new Caller(served.url, '0.3');
  const sent = await old.post('message/send', old.message('x'), { 'x-a2a-extensions': uri });
  expect(sent.headers.get('x-a2a-extensions')).toBe(uri);
});
