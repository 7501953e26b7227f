import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import type { Agent } from '../../event/types.ts';
import { memoryLog } from '../../task/index.ts';
import type { TaskLog } from '../../task/types.ts';
import { serve } from '../index.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

const AG_UI = { threadId: 'c', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hi' }] };
const UI = {
  id: 'c',
  messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
};
const STREAM_JSON = { type: 'user', message: { role: 'user', content: 'hi' } };

test('a message that is sent again returns the task that it created, and creates no other', async () => {
  let runs = 0;
  const agent: Agent = async function* () {
    runs++;
    yield { type: 'text.delta', id: 't', delta: 'done' };
  };
  await using served = await serve(agent, { log: memoryLog(), page: false });
  const send = async (): Promise<object> => {
    const response = await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text: 'hi', messageId: 'm1' }),
    });
    expect(response.status).toBe(201);
    return (await response.json()) as object;
  };
  const first = await send();
  expect(await send()).toEqual(first);
  const { task } = first as { readonly task: string };
  const stream = await fetch(`${served.url}/api/tasks/${task}/entries`);
  expect(await stream.text()).toContain('"run.finished"');
  expect(runs).toBe(1);
});

test.each(['-1', '0.5', '0', 'x', '1e9', 'Infinity'])(
  'a list of tasks has a limit, also for ?limit=%s',
  async (limit) => {
    const log = memoryLog();
    for (let i = 0; i < 201; i++) {
      const turn = { agent: 'agent', task: `t${i}`, context: 'c', messageId: `m${i}` };
      await log.submit({ ...turn, parts: [{ text: 'hi' }] });
    }
    await using served = await serve(hello, { log, page: false, maxRuns: 0 });
    const response = await fetch(`${served.url}/api/tasks?limit=${limit}`);
    const { tasks, after } = (await response.json()) as { tasks: unknown[]; after?: string };
    expect(tasks).toHaveLength(limit === '1e9' ? 200 : 50);
    expect(after).toBeDefined();
  },
);

test('the error for an input with many problems lists the first of them', async () => {
  const form = { type: 'object', properties: { n: { type: 'array', items: { type: 'number' } } } };
  await using served = await serve(hello, { log: memoryLog(), page: false, form });
  const response = await fetch(`${served.url}/api/agents/agent/turns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ data: { n: Array.from({ length: 900 }, () => 'x') } }),
  });
  const { error } = (await response.json()) as { error: { message: string } };
  expect(response.status).toBe(400);
  expect(error.message).toContain('n.0 must be number; n.1 must be number');
  expect(error.message).toMatch(/; and 880 more$/);
});

describe('a failing store', () => {
  const SECRET = 'password authentication failed for user "duolane" at 10.0.0.5';
  const entries: [string, string, string, unknown?][] = [
    ['GET', '/api/tasks', 'the page'],
    ['GET', '/api/tasks/t1', 'the page'],
    ['POST', '/api/agents/agent/turns', 'the page', { text: 'hi' }],
    ['POST', '/ag-ui/agent', 'AG-UI', AG_UI],
    ['POST', '/ui/agent', 'the AI SDK', UI],
    ['POST', '/stream-json/agent', 'stream-json', STREAM_JSON],
  ];
  test.each(entries)('%s %s sends %s only the time to try again', async (method, path, _, body) => {
    const logged: unknown[] = [];
    const error = (...args: unknown[]): number => logged.push(args);
    const logger = { debug() {}, info() {}, warn() {}, error };
    await using served = await serve(hello, {
      log: failing(memoryLog(), SECRET),
      page: false,
      logger,
    });
    const response = await fetch(`${served.url}${path}`, {
      method,
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    });
    const text = await response.text();
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
    expect(text).not.toContain('10.0.0.5');
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'server', retryable: true } });
    expect(JSON.stringify(logged)).toContain('10.0.0.5');
  });

  test('in the middle of a stream of entries, the page gets only the time to reconnect', async () => {
    const logged: unknown[] = [];
    const error = (...args: unknown[]): number => logged.push(args);
    const logger = { debug() {}, info() {}, warn() {}, error };
    const log = memoryLog();
    await using served = await serve(hello, { log, page: false, logger });
    const begun = await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"text":"hi"}',
    });
    const { task } = (await begun.json()) as { task: string };
    log.read = () => {
      throw new DuolaneError('server', SECRET);
    };
    const text = await (await fetch(`${served.url}/api/tasks/${task}/entries`)).text();
    expect(text).toContain('event: failure');
    expect(text).toMatch(/^retry: 5000$/m);
    expect(text).not.toContain('10.0.0.5');
    expect(JSON.stringify(logged)).toContain('10.0.0.5');
  });
});

test('a caller without an owner lists tasks without an owner, and reads no others', async () => {
  await using log = memoryLog();
  const asked: unknown[] = [];
  const list = log.list.bind(log);
  log.list = (query) => {
    asked.push(query);
    return list(query);
  };
  await using served = await serve(hello, { log, page: false });
  await fetch(`${served.url}/api/tasks`);
  await fetch(`${served.url}/ui/agent/some-context/stream`);
  expect(asked).toEqual([
    { owner: '', outline: true },
    { owner: '', context: 'some-context', outline: true },
  ]);
});

/** The same log, where everything that a caller asks for fails. */
function failing(log: TaskLog, message: string): TaskLog {
  const fail = (): never => {
    throw new DuolaneError('server', `PostgreSQL failed: ${message}`);
  };
  return Object.assign(log, { get: fail, list: fail, submit: fail });
}

test('of two answers from two tabs one is accepted, and the other gets a 409 that names it', async () => {
  const asks: Agent = async function* (_turn, ctx) {
    const { action } = await ctx.ask({ id: 'q', kind: 'approval', message: 'Delete everything?' });
    yield { type: 'text.delta', id: 't', delta: action };
    await new Promise(() => {});
  };
  await using served = await serve(asks, {
    log: memoryLog(),
    page: false,
    graceMs: 1,
    auth: { bearer: { ada: 'alpha' } },
  });
  const post = (path: string, body: object): Promise<Response> =>
    fetch(`${served.url}/api/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer alpha' },
      body: JSON.stringify(body),
    });
  const { task } = (await (await post('agents/agent/turns', { text: 'go' })).json()) as {
    readonly task: string;
  };
  await expect.poll(async () => (await served.log.get(task))?.pending.length).toBe(1);
  const answer = (action: string, messageId: string): Promise<Response> =>
    post(`tasks/${task}/turns`, { answers: [{ id: 'q', action }], messageId });
  const both = await Promise.all([answer('accept', 'tab1'), answer('decline', 'tab2')]);
  const won = both[0].status === 201 ? 'tab1' : 'tab2';
  const [first, second] = won === 'tab1' ? both : [both[1], both[0]];
  expect([first.status, second.status]).toEqual([201, 409]);
  const { error } = (await second.json()) as { readonly error: object };
  expect(error).toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(
      `was already answered by "ada" with message "${won}"`,
    ) as string,
    retryable: false,
  });
});

test('a caller whose queue is full gets 429 and the time to try again', async () => {
  const log = memoryLog();
  log.submit = async () => {
    throw new DuolaneError('overloaded', 'tasks of "ada" exceed maxQueuedPerOwner (1)', {
      retryAfterMs: 7000,
    });
  };
  await using served = await serve(hello, { log, page: false });
  const response = await fetch(`${served.url}/api/agents/agent/turns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"text":"hi"}',
  });
  expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7']);
  expect(await response.text()).toContain('maxQueuedPerOwner');
});

test('an error of a route or of the guard is withheld and logged, too', async () => {
  const logged: unknown[] = [];
  const error = (...args: unknown[]): number => logged.push(args);
  const logger = { debug() {}, info() {}, warn() {}, error };
  const verify = async (): Promise<never> => {
    throw new Error('ldap://10.0.0.6 refused');
  };
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    logger,
    auth: { verify },
  });
  const response = await fetch(`${served.url}/api/tasks`);
  expect(response.status).toBe(500);
  expect(await response.json()).toEqual({
    error: {
      code: 'internal',
      message: 'the server failed; its log has the cause',
      retryable: false,
    },
  });
  expect(JSON.stringify(logged)).toContain('10.0.0.6');
});

test.each([
  ['/ui/agent', UI],
  ['/ag-ui/agent', AG_UI],
])(
  'a stream of %s that fails sends the time to reconnect, and breaks instead of ending',
  async (path, body) => {
    const warned: unknown[] = [];
    const warn = (...args: unknown[]): number => warned.push(args);
    const logger = { debug() {}, info() {}, warn, error() {} };
    const log = memoryLog();
    const read = log.read.bind(log);
    log.read = (task, after, options) => {
      const entries = read(task, after, options);
      const broken = (async function* () {
        for await (const entry of entries) {
          yield entry;
          if (entry.type === 'run.started') throw new DuolaneError('server', 'gone: 10.0.0.5');
        }
      })();
      return Object.assign(broken, { take: () => undefined }) as never;
    };
    await using served = await serve(hello, { log, page: false, logger });
    const response = await fetch(`${served.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    let text = '';
    const reading = (async () => {
      for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
    })();

    await expect(reading).rejects.toThrow();
    expect(text).toMatch(/^retry: 5000$/m);
    expect(text).not.toMatch(/10\.0\.0\.5|\[DONE\]/);
    expect(JSON.stringify(warned)).toContain('10.0.0.5');
  },
);
