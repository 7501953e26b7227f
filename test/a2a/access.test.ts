import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller, mountAgent, taskIdOf } from './support.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};
const waiting: Agent = async function* (_turn, ctx) {
  yield { type: 'status', message: 'here' };
  await once(ctx.signal, 'abort');
};

test.each(['0.0.0.0', '::', '192.168.1.5', 'example.com', '127.0.0.1.example.com'])(
  'a server on %s does not start without a way to tell callers apart',
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
    // The same message id of somebody else is another message.
    expect(await bob.send('hi', { messageId: 'same' })).not.toMatchObject({ id: task });
    expect((await ada.list()).tasks).toHaveLength(1);
  });

  test('a wrong secret is refused, the card is public and says what is wanted', async () => {
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

  test('a verify function decides who it is', async () => {
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

test('a tenant is a wall too', async () => {
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
});

test('what is too large or too many is refused with a word', async () => {
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

test('a page of another site is not let in, and no answer invites one', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const cross = await caller.post('SendMessage', caller.message('x'), {
    origin: 'https://evil.example',
  });
  expect(cross.status).toBe(403);
  const own = await caller.post('SendMessage', caller.message('x'));
  expect(own.headers.get('access-control-allow-origin')).toBeNull();
});

test('an extension that the agent requires must be named', async () => {
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

test('a type that the card does not name is refused', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const part = (mediaType: string): Promise<unknown> =>
    caller.call('SendMessage', caller.message('', { parts: [{ raw: 'aGk=', mediaType }] }));
  expect(await part('image/png')).toMatchObject({ error: { code: -32005 } });
  expect(await part('text/plain; charset=utf-8')).toHaveProperty('result.task');
});

test('an agent may answer with a plain message, and then there is no task', async () => {
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

test('a silent stream beats', async () => {
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

test('a resume beyond the end, or from nowhere, is refused', async () => {
  await using served = await serve(hello, { log: memoryLog(), page: false });
  const caller = new Caller(served.url);
  const id = taskIdOf(await all(caller.say('x')));
  for (const after of ['999', 'nonsense', '-1']) {
    const response = await caller.post('SubscribeToTask', { id }, { 'last-event-id': after });
    expect(await response.json()).toMatchObject({ error: { code: -32602 } });
  }
  const byMetadata = await caller.post('SubscribeToTask', { id, metadata: { lastEventId: '2' } });
  expect(await byMetadata.text()).toMatch(/^id: 3\n/);
});
