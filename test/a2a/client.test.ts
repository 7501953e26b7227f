import { describe, expect, test } from 'vitest';
import { connectA2A, type A2AStreamEvent } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve } from '../../src/serve/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { verifies } from '../verifies.ts';
import { openProxy } from './proxy.ts';
import { all, httpServer, WAYS } from './support.ts';

const counting = (count: number, ms = 1): Agent =>
  async function* (_turn, ctx) {
    yield { type: 'status', message: 'Starting...' };
    for (let n = 0; n < count; n++) {
      await sleep(ms, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    }
  };
const whole = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');

const quick = { retryMs: 1 };

/** A wire that is cut in gRPC is a matter of its own tests: its events have no ends to be seen from outside. */
const HTTP = WAYS.filter(({ binding }) => binding !== 'GRPC');

describe.each(HTTP)('our client, $version over $binding', (way) => {
  verifies(
    ['S131', 'S191', 'S197', 'S196'],
    `a stream that is lost after any event is complete (${way.version} ${way.binding})`,
    async () => {
      await using proxy = await openProxy();
      await using served = await serve(counting(8), {
        log: memoryLog(),
        page: false,
        publicUrl: proxy.url,
      });
      proxy.target = served.url;
      const client = await connectA2A(proxy.url, way);
      expect(client).toMatchObject(way);
      const uncut = await all(client.stream('go', quick));
      // Other tasks, so other ids and times; the shape must be the same.
      for (let cut = 1; cut <= uncut.length; cut++) {
        proxy.cutAfter = cut;
        const before = proxy.cuts;
        const stream = client.stream('go', quick);
        const events = await all(stream);
        expect(proxy.cuts).toBe(before + 1);
        expect(stream.text).toBe(whole(8));
        expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
        expect(events.filter(isLast)).toHaveLength(1);
        expect(events.filter((event) => 'task' in event)).toHaveLength(1);
      }
    },
  );
});

describe.each(WAYS)('our client, $version over $binding', (way) => {
  verifies(
    ['S175', 'S196'],
    `cancel ends the task, disconnect does not (${way.version} ${way.binding})`,
    async () => {
      await using served = await serve(counting(500, 5), {
        log: memoryLog(),
        graceMs: 50,
        grpc: {},
      });
      await using client = await connectA2A(served.url, way);
      const left = client.stream('go');
      for await (const event of left) if ('artifactUpdate' in event) left.disconnect();
      const task = await client.get(left.taskId!);
      expect(task.status.state).toBe('TASK_STATE_WORKING');
      const back = client.resume(left.taskId!, { after: left.lastEventId! });
      let canceled: Promise<unknown> | undefined;
      for await (const _ of back) canceled ??= back.cancel();
      expect(await canceled).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } });
      expect(back.status?.state).toBe('TASK_STATE_CANCELED');
      await expect(client.get('nobody')).rejects.toMatchObject({ code: 'not_found' });
    },
  );

  test(`a task that was read to its end can be resumed (${way.version} ${way.binding})`, async () => {
    await using served = await serve(counting(2), { log: memoryLog(), page: false, grpc: {} });
    await using client = await connectA2A(served.url, way);
    const stream = client.stream('go', quick);
    await stream.result();
    const [id, after] = [stream.taskId!, stream.lastEventId!];
    const again = client.resume(id, { ...quick, after });
    expect(await again.result()).toMatchObject({ id, status: stream.status });
    expect(again.text).toBe(whole(2));
    expect(again.problems).toEqual([]);
  });

  test(`sends, gets and answers a question (${way.version} ${way.binding})`, async () => {
    const agent: Agent = async function* (turn, ctx) {
      const id = `${turn.messageId}/name`;
      const { content } = await ctx.ask({ id, kind: 'question', message: 'Who are you?' });
      yield { type: 'text.delta', id: 't', delta: `Hello ${String(content)}.` };
    };
    await using served = await serve(agent, { log: memoryLog(), page: false, grpc: {} });
    await using client = await connectA2A(served.url, way);
    const asked = await client.send('hi');
    expect(asked).toMatchObject({ status: { state: 'TASK_STATE_INPUT_REQUIRED' } });
    const { id: taskId } = asked as { id: string };
    const stream = client.stream('Ada', { taskId });
    await stream.result();
    expect(stream.text).toBe('Hello Ada.');
    const { history } = await client.get(taskId, { historyLength: 3 });
    expect(history?.map(({ role, parts: [part] }) => [role, part?.text])).toEqual([
      ['ROLE_AGENT', 'Who are you?'],
      ['ROLE_USER', 'Ada'],
      ['ROLE_AGENT', 'Hello Ada.'],
    ]);
  });
});

const isLast = (event: A2AStreamEvent): boolean =>
  'statusUpdate' in event && event.statusUpdate.status.state === 'TASK_STATE_COMPLETED';

verifies('S134', 'lists one page of tasks, and the next one', async () => {
  await using served = await serve(counting(1), { log: memoryLog(), page: false });
  const client = await connectA2A(served.url);
  const sent = [];
  for (let n = 0; n < 5; n++) sent.push((await client.send('go')) as { id: string });
  const first = await client.list({ pageSize: 3 });
  const second = await client.list({ pageSize: 3, pageToken: first.nextPageToken });
  expect([...first.tasks, ...second.tasks].map(({ id }) => id)).toEqual(
    sent.map(({ id }) => id).toReversed(),
  );
  expect(first).toMatchObject({ pageSize: 3, totalSize: 5 });
  expect(second).toMatchObject({ pageSize: 3, totalSize: 5, nextPageToken: '' });
});

test('a card that names another origin gets no credentials', async () => {
  await using served = await serve(counting(1), {
    log: memoryLog(),
    page: false,
    publicUrl: 'https://agents.example',
  });
  await expect(connectA2A(served.url)).rejects.toMatchObject({ code: 'invalid' });
});

test('a card that was read over TLS cannot name gRPC without TLS', async () => {
  const connect = async (url: string): Promise<string> => {
    const supportedInterfaces = [{ url, protocolBinding: 'GRPC', protocolVersion: '1.0' }];
    const card = async (): Promise<Response> => Response.json({ name: 'x', supportedInterfaces });
    await using client = await connectA2A('https://agents.example', { fetch: card });
    return client.binding;
  };
  for (const url of ['grpc://agents.example:50051', 'http://agents.example:50051'])
    await expect(connect(url)).rejects.toMatchObject({ code: 'invalid' });
  for (const url of ['agents.example:50051', 'grpcs://agents.example:50051'])
    expect(await connect(url)).toBe('GRPC');
});

/** A 0.3 server that says exactly this, stream by stream. */
async function badServer(
  streams: readonly (readonly unknown[])[],
): Promise<AsyncDisposable & { readonly url: string; readonly asked: string[] }> {
  const asked: string[] = [];
  const left = [...streams];
  const server = await httpServer((request, response, body) => {
    if (request.method === 'GET') {
      const card = { name: 'bad', protocolVersion: '0.3.0', url: server.url };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(card));
      return;
    }
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    asked.push(method);
    const answer = (result: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of left.shift() ?? [])
      response.write(`data: ${typeof event === 'string' ? event : answer(event)}\n\n`);
    response.end();
  });
  return { ...server, asked };
}

const place = { taskId: 't', contextId: 'c' };
const task = (state: string, more: JsonObject = {}): JsonObject => ({
  kind: 'task',
  id: 't',
  contextId: 'c',
  status: { state },
  ...more,
});
const status = (state: string, text?: string, final = false): JsonObject => ({
  kind: 'status-update',
  ...place,
  status: {
    state,
    ...(text !== undefined && {
      message: { kind: 'message', messageId: 'm', role: 'agent', parts: [{ kind: 'text', text }] },
    }),
  },
  final,
});
const artifact = (text: string, append: boolean): JsonObject => ({
  kind: 'artifact-update',
  ...place,
  artifact: { artifactId: 'a', parts: [{ kind: 'text', text }] },
  append,
});

verifies(
  ['S146', 'S139'],
  'text in statuses and text in artifacts give the same result',
  async () => {
    const accumulated = [
      task('submitted'),
      status('working', 'Hel'),
      status('working', 'Hello'),
      status('completed', undefined, true),
    ];
    const appended = [
      task('submitted'),
      status('working', 'Starting...'),
      artifact('Hel', false),
      artifact('lo', true),
      status('completed', undefined, true),
    ];
    for (const events of [accumulated, appended]) {
      await using server = await badServer([events]);
      const stream = (await connectA2A(server.url)).stream('go');
      await stream.result();
      expect(stream.text).toBe('Hello');
      expect(stream.problems).toEqual([]);
    }
  },
);

verifies('S140', 'a stream with `final` on a working status is read to its real end', async () => {
  await using server = await badServer([
    [task('submitted'), status('working', 'Hello', true), status('completed', undefined, true)],
  ]);
  const stream = (await connectA2A(server.url)).stream('go');
  await stream.result();
  expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  expect(stream.text).toBe('Hello');
  expect(stream.problems.map(({ kind }) => kind)).toEqual(['final-not-terminal']);
});

verifies(
  ['S131', 'S130'],
  'a stream that closes without a final event is resumed, and reported as a problem',
  async () => {
    const snapshot = task('working', {
      artifacts: [{ artifactId: 'a', parts: [{ kind: 'text', text: 'Hel' }] }],
    });
    await using server = await badServer([
      [task('submitted'), artifact('H', false)],
      [snapshot, artifact('lo', true), status('completed', undefined, true)],
    ]);
    const stream = (await connectA2A(server.url)).stream('go', quick);
    await stream.result();
    expect(server.asked).toEqual(['message/stream', 'tasks/resubscribe']);
    expect(stream.text).toBe('Hello');
    expect(stream.problems.map(({ kind }) => kind)).toEqual(['closed-without-final']);
  },
);

test('a stream that never ends fails after retryForMs with a message', async () => {
  const working = [task('working')];
  await using server = await badServer([working, working, working, working, working, working]);
  const stream = (await connectA2A(server.url)).stream('go', { retryMs: 20, retryForMs: 1 });
  await expect(stream.result()).rejects.toMatchObject({ code: 'network', retryable: true });
});

test('an unchanged task after a reconnect does not count as progress', async () => {
  const working = Array.from({ length: 1000 }, (_, n) => [
    { ...task('working'), status: { state: 'working', timestamp: new Date(n).toISOString() } },
  ]);
  await using server = await badServer(working);
  const stream = (await connectA2A(server.url)).stream('go', { retryMs: 5, retryForMs: 300 });
  await expect(stream.result()).rejects.toMatchObject({ code: 'network' });
  expect(server.asked.length).toBeGreaterThan(1);
  expect(server.asked.length).toBeLessThan(12);
});

test('a stream that closes early repeats no event that has an id', async () => {
  const left = [
    [task('submitted'), artifact('a', false)],
    [],
    [artifact('b', true), status('completed', undefined, true)],
  ];
  const asked: string[] = [];
  let events = 0;
  await using server = await httpServer((request, response, body) => {
    const extensions = [{ uri: 'urn:duolane:a2a:resume:v1' }];
    const card = {
      name: 'x',
      protocolVersion: '0.3.0',
      url: server.url,
      capabilities: { extensions },
    };
    if (request.method === 'GET') return void response.end(JSON.stringify(card));
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    asked.push(`${method} ${String(request.headers['last-event-id'] ?? '')}`.trim());
    const answer = (result: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result });
    const artifacts = [{ artifactId: 'a', parts: [{ kind: 'text', text: 'a' }] }];
    if (method === 'tasks/get') return void response.end(answer(task('working', { artifacts })));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of left.shift() ?? [])
      response.write(`id: ${++events}\ndata: ${answer(event)}\n\n`);
    response.end();
  });
  const stream = (await connectA2A(server.url)).stream('go', quick);
  await stream.result();
  expect(stream.text).toBe('ab');
  expect(asked).toEqual([
    'message/stream',
    'tasks/resubscribe 2',
    'tasks/get',
    'tasks/resubscribe 2',
  ]);
});

test('a message is not sent again to a server that does not detect duplicates', async () => {
  await using server = await badServer([
    [],
    [task('submitted'), status('completed', 'twice', true)],
  ]);
  const stream = (await connectA2A(server.url)).stream('go', quick);
  await expect(stream.result()).rejects.toMatchObject({ code: 'malformed', retryable: false });
  expect(server.asked).toEqual(['message/stream']);
});

test('a single response to a streaming request is accepted, and reported as a problem', async () => {
  await using server = await httpServer((request, response, body) => {
    const card = { name: 'bad', protocolVersion: '0.3.0', url: server.url };
    const { id } = body === '' ? {} : (JSON.parse(body) as JsonObject);
    const answer = { jsonrpc: '2.0', id, result: task('completed') };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(request.method === 'GET' ? card : answer));
  });
  const stream = (await connectA2A(server.url)).stream('go', quick);
  expect(await stream.result()).toMatchObject({ id: 't' });
  expect(stream.problems.map(({ kind }) => kind)).toEqual(['malformed']);
});

test('an abort of any call rejects with its reason', async () => {
  await using server = await httpServer(({ method }, response) => {
    const card = { name: 'mute', protocolVersion: '0.3.0', url: server.url };
    if (method === 'GET') response.end(JSON.stringify(card));
  });
  const client = await connectA2A(server.url);
  const reason = new Error('enough');
  const stop = new AbortController();
  const call = client.get('t', { signal: stop.signal });
  stop.abort(reason);
  await expect(call).rejects.toBe(reason);
});

test('a redirect of the card to another origin is not followed', async () => {
  const heard: unknown[] = [];
  await using thief = await httpServer((request, response) => {
    heard.push(request.headers['x-api-key']);
    const card = { name: 'thief', protocolVersion: '0.3.0', url: thief.url };
    response.end(JSON.stringify(card));
  });
  await using server = await httpServer(({ url }, response) => {
    const card = { name: 'moved', protocolVersion: '0.3.0', url: server.url };
    const moves: Record<string, string> = {
      '/a/.well-known/agent-card.json': `${thief.url}/.well-known/agent-card.json`,
      '/b/.well-known/agent-card.json': '/here.json',
      '/c/.well-known/agent-card.json': '/c/.well-known/agent-card.json',
    };
    const to = moves[url ?? ''];
    if (to === undefined) response.end(JSON.stringify(card));
    else response.writeHead(302, { location: to }).end();
  });
  const connect = (path: string) =>
    connectA2A(`${server.url}${path}`, { headers: { 'x-api-key': 'secret' } });
  await expect(connect('/a')).rejects.toMatchObject({ code: 'invalid' });
  expect(heard).toEqual([]);
  expect((await connect('/b')).card).toMatchObject({ name: 'moved' });
  await expect(connect('/c')).rejects.toMatchObject({ code: 'invalid' });
});

test('other mistakes of a server are tolerated and reported', async () => {
  await using server = await badServer([
    [
      status('working'),
      'not json',
      '5',
      'null',
      { ...task('working'), id: 'other' },
      artifact('lost', true),
      { kind: 'status-update', taskId: 'other', contextId: 'c', status: { state: 'completed' } },
      task('working'),
      { kind: 'nonsense' },
      status('completed', 'done', true),
    ],
  ]);
  const stream = (await connectA2A(server.url)).stream('go', quick);
  await stream.result();
  expect(stream.problems.map(({ kind }) => kind)).toEqual([
    'no-task-first',
    'malformed',
    'malformed',
    'malformed',
    'other-task',
    'append-to-nothing',
    'other-task',
    'second-task',
    'malformed',
  ]);
  expect(stream.text).toBe('done');
});

test('an abort ends a stream with its reason', async () => {
  await using served = await serve(counting(500, 5), { log: memoryLog(), graceMs: 50 });
  const stop = new AbortController();
  const reason = new Error('enough');
  const stream = (await connectA2A(served.url)).stream('go', { signal: stop.signal });
  await expect(
    (async () => {
      for await (const _ of stream) stop.abort(reason);
    })(),
  ).rejects.toBe(reason);
});
