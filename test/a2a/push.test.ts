import type { IncomingHttpHeaders } from 'node:http';
import { expect, test, vi } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { untilAborted } from '../../src/stream/abort.ts';
import { memoryDatabase, openLog, storeFromCalls } from '../../src/task/store/index.ts';
import { all, Caller, httpServer, taskIdOf } from './support.ts';

interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly got: { readonly body: string; readonly headers: IncomingHttpHeaders }[];
  /** What the next requests are answered with; 200 when it is empty. */
  readonly answers: number[];
}

async function receive(): Promise<Receiver> {
  const got: Receiver['got'][number][] = [];
  const answers: number[] = [];
  const server = await httpServer(({ headers }, response, body) => {
    const status = answers.shift() ?? 200;
    if (status === 200) got.push({ body, headers });
    response.writeHead(status).end();
  });
  return { ...server, url: `${server.url}/hook`, got, answers };
}

const counting = (count: number, ms: number): Agent =>
  async function* (_turn, ctx) {
    for (let n = 0; n < count; n++) {
      await sleep(ms, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    }
  };
const whole = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');
const push = { allowPrivateAddresses: true, retryMs: 1 };
const shapes = ({ got }: Receiver): string[] =>
  got.map(({ body }) => Object.keys(JSON.parse(body) as object)[0] ?? '');

test('a receiver gets the events in order, its credentials and merged chunks, also after failures', async () => {
  await using hook = await receive();
  hook.answers.push(500, 200, 503, 429);
  await using served = await serve(counting(50, 1), {
    log: openLog(memoryDatabase()),
    page: false,
    a2a: { push },
  });
  const caller = new Caller(served.url);
  const taskPushNotificationConfig = {
    id: 'mine',
    url: hook.url,
    token: 'tok',
    authentication: { scheme: 'Bearer', credentials: 'abc' },
  };
  const sent = await caller.call('SendMessage', {
    ...caller.message('go'),
    configuration: { taskPushNotificationConfig },
  });
  const { id } = (sent['result'] as { task: { id: string } }).task;
  await expect.poll(() => hook.got.at(-1)?.body).toContain('TASK_STATE_COMPLETED');
  expect(shapes(hook)).toEqual([
    'task',
    'statusUpdate',
    'artifactUpdate',
    'artifactUpdate', // the last chunk, which is empty
    'statusUpdate',
  ]);
  const { artifactUpdate } = JSON.parse(hook.got[2]!.body) as {
    artifactUpdate: { artifact: { parts: { text: string }[] } };
  };
  expect(artifactUpdate.artifact.parts[0]!.text).toBe(whole(50));
  for (const { headers } of hook.got)
    expect(headers).toMatchObject({
      'content-type': 'application/a2a+json',
      authorization: 'Bearer abc',
      'x-a2a-notification-token': 'tok',
    });
  const params = { taskId: id, id: 'mine' };
  expect(await caller.call('GetTaskPushNotificationConfig', params)).toMatchObject({
    result: { ...taskPushNotificationConfig, taskId: id },
  });
  await caller.call('DeleteTaskPushNotificationConfig', params);
  await caller.call('DeleteTaskPushNotificationConfig', params);
  expect(await caller.call('GetTaskPushNotificationConfig', params)).toMatchObject({
    error: { code: -32001 },
  });
});

test('a message that is sent again creates no second receiver', async () => {
  await using hook = await receive();
  await using served = await serve(counting(2, 1), {
    log: openLog(memoryDatabase()),
    page: false,
    a2a: { push },
  });
  const caller = new Caller(served.url);
  const configuration = { taskPushNotificationConfig: { url: hook.url } };
  const params = { ...caller.message('go'), configuration };
  const sent = await caller.call('SendMessage', params);
  const { id } = (sent['result'] as { task: { id: string } }).task;
  await expect.poll(() => hook.got.at(-1)?.body).toContain('TASK_STATE_COMPLETED');
  const told = hook.got.length;
  await caller.call('SendMessage', params);
  const listed = await caller.call('ListTaskPushNotificationConfigs', { taskId: id });
  expect((listed['result'] as { configs: unknown[] }).configs).toHaveLength(1);
  await served[Symbol.asyncDispose]();
  expect(hook.got).toHaveLength(told);
});

test.each([
  'http://127.0.0.1/',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://017700000001/',
  'http://localhost/',
  'http://[::1]/',
  'http://[::]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[::127.0.0.1]/',
  'http://[::ffff:0:127.0.0.1]/',
  'http://[64:ff9b::127.0.0.1]/',
  'http://[2002:7f00:1::]/',
  'http://[2001:0:7f00:1::]/',
  'http://[fe80::1]/',
  'http://[fd00::1]/',
  'http://user@10.1.2.3/',
  'http://168.63.129.16/machine',
  'http://169.254.169.254/latest/meta-data',
  'file:///etc/passwd',
])('%s is refused as a receiver: its address is private', async (url) => {
  await using served = await serve(counting(1, 1), { log: openLog(memoryDatabase()), page: false });
  const caller = new Caller(served.url);
  const configuration = { taskPushNotificationConfig: { url } };
  const sent = await caller.call('SendMessage', { ...caller.message('go'), configuration });
  expect(sent).toMatchObject({ error: { code: -32602 } });
  expect((await all(served.log.list({}))).length).toBe(0);
});

test('a 0.3 receiver gets the complete task when its state changes', async () => {
  await using hook = await receive();
  await using served = await serve(counting(5, 1), {
    log: openLog(memoryDatabase()),
    page: false,
    a2a: { push },
  });
  const caller = new Caller(served.url, '0.3');
  await caller.call('message/send', {
    ...caller.message('go'),
    configuration: { pushNotificationConfig: { url: hook.url, token: 'tok' } },
  });
  await expect.poll(() => hook.got.length).toBe(3);
  const states = hook.got.map(
    ({ body }) => (JSON.parse(body) as { status: { state: string } }).status.state,
  );
  expect(states).toEqual(['submitted', 'working', 'completed']);
});

test('the next server on the same log continues undelivered events', async () => {
  await using hook = await receive();
  const database = memoryDatabase();
  const first = await serve(counting(3, 1), {
    log: openLog(database),
    page: false,
    a2a: { push: { ...push, retryMs: 60_000 } },
  });
  hook.answers.push(200, 500);
  const caller = new Caller(first.url);
  const configuration = { taskPushNotificationConfig: { url: hook.url } };
  await caller.call('SendMessage', { ...caller.message('go'), configuration });
  await expect.poll(() => hook.answers.length).toBe(0);
  await first[Symbol.asyncDispose]();
  expect(shapes(hook)).toEqual(['task']);
  await using second = await serve(counting(3, 1), {
    log: openLog(database),
    page: false,
    a2a: { push },
  });
  await expect.poll(() => hook.got.at(-1)?.body).toContain('TASK_STATE_COMPLETED');
  expect(second.url).toBeDefined();
  expect(shapes(hook)).toEqual([
    'task',
    'statusUpdate',
    'artifactUpdate',
    'artifactUpdate', // the last chunk, which is empty
    'statusUpdate',
  ]);
});

test.each([
  'http://127.0.0.1:1/',
  'http://localhost:1/',
  'http://[::1]:1/',
  'http://[::ffff:10.0.0.1]/',
  'http://169.254.169.254/latest/',
  'http://10.1.2.3/',
  'http://0x7f.1/',
  'http://[64:ff9b::7f00:1]/',
  'ftp://example.com/',
  'nonsense',
])('no request is sent to %s', async (url) => {
  await using served = await serve(counting(1, 1), { log: openLog(memoryDatabase()), page: false });
  const caller = new Caller(served.url);
  const task = taskIdOf(await all(caller.say('go')));
  const refused = await caller.call('CreateTaskPushNotificationConfig', { taskId: task, url });
  expect(refused).toMatchObject({ error: { code: -32602 } });
  const sent = await caller.call('SendMessage', {
    ...caller.message('go'),
    configuration: { taskPushNotificationConfig: { url } },
  });
  expect(sent).toMatchObject({ error: { code: -32602 } });
});

test.each(['id', 'token', 'url'])(
  'a push config that is too long is refused (%s)',
  async (member) => {
    await using served = await serve(counting(1, 1), {
      log: openLog(memoryDatabase()),
      page: false,
    });
    const caller = new Caller(served.url);
    const long = member === 'url' ? `https://192.0.2.1/${'x'.repeat(9000)}` : 'x'.repeat(9000);
    const config = { url: 'https://192.0.2.1/', [member]: long };
    const answer = await caller.call('SendMessage', {
      ...caller.message('go'),
      configuration: { taskPushNotificationConfig: config },
    });
    expect(answer).toMatchObject({
      error: { code: -32602, message: 'invalid push config: expected at most 8192 characters' },
    });
  },
);

test.each([
  ['1.0', 'authentication', 'Bearer secret'],
  ['1.0', 'authentication', ['Bearer']],
  ['0.3', 'authentication', 'Bearer secret'],
  ['1.0', 'id', 'a\0b'],
  ['1.0', 'id', 'a\ud800b'],
] as const)(
  'a push config of %s with an invalid %s (%j) is refused before anything is stored',
  async (version, member, value) => {
    await using served = await serve(counting(1, 1), {
      log: openLog(memoryDatabase()),
      page: false,
    });
    const caller = new Caller(served.url, version);
    const [method, name] =
      version === '1.0'
        ? ['SendMessage', 'taskPushNotificationConfig']
        : ['message/send', 'pushNotificationConfig'];
    const configuration = { [name]: { url: 'https://192.0.2.1/', [member]: value } };
    const sent = await caller.call(method, { ...caller.message('go'), configuration });
    expect(sent).toMatchObject({ error: { code: -32602 } });
    expect(await all(served.log.list({}))).toEqual([]);
  },
);

test.each(['1.0', '0.3'] as const)(
  'a push config that is not an object is refused (%s)',
  async (version) => {
    await using served = await serve(counting(1, 1), {
      log: openLog(memoryDatabase()),
      page: false,
    });
    const caller = new Caller(served.url, version);
    const [method, name] =
      version === '1.0'
        ? ['SendMessage', 'taskPushNotificationConfig']
        : ['message/send', 'pushNotificationConfig'];
    const configuration = { [name]: 'https://192.0.2.1/' };
    const sent = await caller.call(method, { ...caller.message('go'), configuration });
    expect(sent).toMatchObject({ error: { code: -32602 } });
    expect(await all(served.log.list({}))).toEqual([]);
  },
);

test('a message with a webhook too many is refused and not stored', async () => {
  const asks: Agent = async function* (_turn, ctx) {
    await ctx.ask({ id: 'q', kind: 'question', message: 'go on?' });
    yield { type: 'text.delta', id: 't', delta: 'done' };
  };
  await using hook = await receive();
  await using served = await serve(asks, {
    log: openLog(memoryDatabase()),
    page: false,
    a2a: { push },
  });
  const caller = new Caller(served.url);
  const task = taskIdOf(await all(caller.say('go')));
  for (let n = 0; n < 16; n++)
    await caller.call('CreateTaskPushNotificationConfig', {
      taskId: task,
      id: `c${n}`,
      url: hook.url,
    });
  const before = (await served.log.get(task))?.turns.length;
  const configuration = { taskPushNotificationConfig: { id: 'c16', url: hook.url } };
  const more = { ...caller.message('more', { taskId: task }), configuration };
  expect(await caller.call('SendMessage', more)).toMatchObject({ error: { code: -32602 } });
  expect((await served.log.get(task))?.turns).toHaveLength(before ?? 0);
});

test('a receiver that switches protocols is retried, and does not stop the shutdown', async () => {
  let requests = 0;
  await using hook = await httpServer(({ socket }) => {
    requests += 1;
    socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n');
  });
  const served = await serve(counting(1, 1), {
    log: openLog(memoryDatabase()),
    page: false,
    a2a: { push: { ...push, timeoutMs: 1000 } },
  });
  const caller = new Caller(served.url);
  const configuration = { taskPushNotificationConfig: { id: 'mine', url: hook.url } };
  await caller.call('SendMessage', { ...caller.message('go'), configuration });
  await expect.poll(() => requests).toBeGreaterThan(2);
  await served[Symbol.asyncDispose]();
});

test('the log names a receiver that is given up by its origin only', async () => {
  await using hook = await receive();
  hook.answers.push(410);
  const logged: unknown[] = [];
  const error = (...args: unknown[]): number => logged.push(args);
  await using served = await serve(counting(1, 1), {
    log: openLog(memoryDatabase()),
    page: false,
    logger: { debug() {}, info() {}, warn() {}, error },
    a2a: { push },
  });
  const caller = new Caller(served.url);
  const url = `${hook.url.replace('://', '://me:pass@')}/T0secret?token=sesame`;
  await caller.call('SendMessage', {
    ...caller.message('go'),
    configuration: { taskPushNotificationConfig: { id: 'mine', url } },
  });
  await expect.poll(() => JSON.stringify(logged)).toContain(new URL(hook.url).origin);
  expect(JSON.stringify(logged)).not.toMatch(/sesame|T0secret|pass/);
});

/** A log whose `method` fails as long as `down` is set. */
function failingLog(method: 'bookmark' | 'read' | 'bookmarks') {
  const inner = memoryDatabase();
  const state = { down: false, failed: 0 };
  const calls = storeFromCalls(async (name, args) => {
    if (state.down && name === method) {
      state.failed++;
      throw new DuolaneError('server', 'the disk is full');
    }
    return (inner[name] as (...args: unknown[]) => Promise<unknown>)(...args);
  });
  const log = openLog(
    {
      ...calls,
      announcesAll: inner.announcesAll,
      onCommit: (listener) => inner.onCommit(listener),
      async [Symbol.asyncDispose]() {},
    },
    { logger: quiet },
  );
  return { log, state };
}

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

test('deliveries continue without repetition after progress could not be saved for a while', async () => {
  await using hook = await receive();
  const { log, state } = failingLog('bookmark');
  const told = new AbortController();
  await using served = await serve(
    async function* () {
      yield { type: 'status', message: 'one' };
      await untilAborted(told.signal);
      yield { type: 'status', message: 'two' };
      while (state.failed === 0) await sleep(5);
      yield { type: 'status', message: 'three' };
    },
    { log, page: false, a2a: { push }, logger: quiet },
  );
  const caller = new Caller(served.url);
  await caller.call('SendMessage', {
    ...caller.message('go'),
    configuration: { returnImmediately: true, taskPushNotificationConfig: { url: hook.url } },
  });
  await expect.poll(() => hook.got.at(-1)?.body).toContain('one');
  state.down = true;
  told.abort();
  await expect.poll(() => state.failed).toBeGreaterThan(0);
  state.down = false;
  await expect.poll(() => hook.got.at(-1)?.body, { timeout: 5000 }).toContain('COMPLETED');
  const words = hook.got.map(({ body }) => /"text":"(\w+)"/.exec(body)?.[1]).filter(Boolean);
  expect(words).toEqual(['go', 'one', 'two', 'three']);
});

test('receivers of an earlier process are found after a failed read of the log', async () => {
  await using hook = await receive();
  const { log, state } = failingLog('bookmarks');
  const [task, id] = ['t', 'mine'];
  const turn = { agent: 'agent', task, context: 'c', messageId: 'm', parts: [{ text: 'go' }] };
  await log.submit(turn);
  const config = { id, taskId: task, url: hook.url };
  const data = { agent: 'agent', version: '1.0', config, rev: 'r' };
  await log.bookmark({ task, name: `push/${id}`, after: 0, data });
  state.down = true;
  await using _served = await serve(counting(1, 1), {
    log,
    page: false,
    a2a: { push },
    logger: quiet,
  });
  await expect.poll(() => state.failed).toBeGreaterThan(0);
  state.down = false;
  await expect.poll(() => hook.got.at(-1)?.body, { timeout: 5000 }).toContain('COMPLETED');
});

test('a change of the system clock does not make a server give up a receiver', async () => {
  await using hook = await receive();
  hook.answers.push(500);
  const now = Date.now.bind(Date);
  let steps = 0;
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + steps * 7_200_000);
  try {
    await using served = await serve(
      async function* () {
        steps++;
        yield { type: 'status', message: 'one' };
        steps++;
      },
      { log: openLog(memoryDatabase()), page: false, a2a: { push }, logger: quiet },
    );
    const caller = new Caller(served.url);
    await caller.call('SendMessage', {
      ...caller.message('go'),
      configuration: { taskPushNotificationConfig: { url: hook.url } },
    });
    await expect.poll(() => hook.got.at(-1)?.body, { timeout: 5000 }).toContain('COMPLETED');
  } finally {
    clock.mockRestore();
  }
});
