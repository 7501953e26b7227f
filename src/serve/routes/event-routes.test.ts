import { expect, test } from 'vitest';
import { advance } from '../../event/index.ts';
import type { Agent, Snapshot } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { memoryLog } from '../../task/index.ts';
import type { TaskLog } from '../../task/types.ts';
import { serve } from '../index.ts';
import { createEvents } from './event-routes.ts';

const KEY = 'a key of at least thirty-two characters';
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const schema = {
  type: 'object',
  properties: { cents: { type: 'number' } },
  required: ['cents'],
};

/** Says where its event can be posted, waits for it, then says what it was. */
const cashier: Agent = async function* (_turn, ctx) {
  const url = await ctx.step('address', () => ctx.eventUrl('paid'));
  yield { type: 'status', message: url };
  const { cents } = await ctx.waitFor<{ cents: number }>('paid', { schema });
  yield { type: 'text.delta', id: 't', delta: `paid ${cents}` };
};

const post = async (
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; body: JsonObject }> => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json');
  return { status: response.status, body: isJson ? (JSON.parse(text) as JsonObject) : {} };
};

/** The task as soon as it waits for its event, with the address that it made. */
async function waiting(log: TaskLog, task: string): Promise<string> {
  let snapshot: Snapshot | undefined;
  let url = '';
  for await (const entry of log.read(task, 0)) {
    snapshot = advance(snapshot, entry);
    if (entry.type === 'status') url = entry.message;
    if (snapshot.waits?.length) return url;
  }
  throw new Error('the task has ended');
}

async function textAtEnd(log: TaskLog, task: string): Promise<string> {
  let snapshot: Snapshot | undefined;
  for await (const entry of log.read(task, 0)) snapshot = advance(snapshot, entry);
  return snapshot?.text ?? '';
}

test('a signed address delivers its event once, and a repeated delivery changes nothing', async () => {
  const audited: unknown[] = [];
  await using served = await serve(cashier, {
    log: memoryLog(),
    page: false,
    audit: { sink: ({ actor, object }) => void audited.push([actor, object['question']]) },
    auth: { bearer: { ann: 'secret of ann' } },
    events: { key: KEY },
    logger: SILENT,
  });
  const ann = { authorization: 'Bearer secret of ann' };
  const sent = await post(`${served.url}/api/agents/agent/turns`, { text: 'buy' }, ann);
  const task = String(sent.body['task']);
  const url = await waiting(served.log, task);
  expect((await post(url, { dollars: 5 })).status).toBe(400);
  expect((await post(`${url}x`, { cents: 1 })).status).toBe(401);
  const [payload = '', signature = ''] = (url.split('/events/')[1] ?? '').split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as unknown[];
  const forged = Buffer.from(JSON.stringify([...claims.slice(0, 2), 'other', claims[3]]));
  const other = `${served.url}/events/${forged.toString('base64url')}.${signature}`;
  expect((await post(other, { cents: 1 })).status).toBe(401);
  const first = await post(url, { cents: 500 });
  expect(first.status).toBe(202);
  expect(await post(url, { cents: 900 })).toEqual(first);
  expect(await textAtEnd(served.log, task)).toBe('paid 500');
  // Only the holder of the address is known to have sent it, not the owner of the task.
  expect(audited[0]).toEqual(['', 'paid']);
  expect(await post(url, { cents: 900 })).toEqual(first);
});

test('an event reaches its turn, whatever the message ids of the task are', async () => {
  const twice: Agent = async function* (turn, ctx) {
    const id = turn.messageId === 'm' ? 'x/y' : 'y';
    yield { type: 'status', message: ctx.eventUrl(id) };
    yield { type: 'text.delta', id: 't', delta: String(await ctx.waitFor(id)) };
  };
  await using served = await serve(twice, { log: memoryLog(), page: false, logger: SILENT });
  const turns = `${served.url}/api/agents/agent/turns`;
  const sent = await post(turns, { text: 'one', messageId: 'm' });
  const task = String(sent.body['task']);
  await waiting(served.log, task);
  const own = `${served.url}/api/tasks/${task}`;
  for (const messageId of ['m/x', 'm'.repeat(2000)])
    expect((await post(`${own}/turns`, { text: 'next', messageId })).status).toBe(201);
  for (const [index, id] of ['x%2Fy', 'y', 'y'].entries()) {
    const event = `${own}/events/${id}`;
    // The next turn waits a moment after the end of the one before.
    let status = 409;
    while (status === 409) ({ status } = await post(event, { data: index }));
    expect(status).toBe(202);
    for await (const entry of served.log.read(task, 0))
      if (entry.type === 'text.delta' && entry.delta === String(index)) break;
  }
});

test('an event by REST needs the owner of the task', async () => {
  await using served = await serve(cashier, {
    log: memoryLog(),
    page: false,
    auth: { bearer: { ann: 'secret of ann', bob: 'secret of bob' } },
    logger: SILENT,
  });
  const [ann, bob] = ['ann', 'bob'].map((name) => ({ authorization: `Bearer secret of ${name}` }));
  const sent = await post(`${served.url}/api/agents/agent/turns`, { text: 'buy' }, ann);
  const task = String(sent.body['task']);
  await waiting(served.log, task);
  const events = `${served.url}/api/tasks/${task}/events`;
  const data = { cents: 7 };
  expect((await post(`${events}/paid`, { data })).status).toBe(401);
  expect((await post(`${events}/paid`, { data }, bob)).status).toBe(404);
  expect((await post(`${events}/other`, { data }, ann)).status).toBe(409);
  expect((await post(`${events}/paid`, { data }, ann)).status).toBe(202);
  expect(await textAtEnd(served.log, task)).toBe('paid 7');
});

test('an A2A data part delivers an event', async () => {
  await using served = await serve(cashier, { log: memoryLog(), page: false, logger: SILENT });
  const sent = await post(`${served.url}/api/agents/agent/turns`, { text: 'buy' });
  const taskId = String(sent.body['task']);
  await waiting(served.log, taskId);
  const message = {
    messageId: 'm2',
    role: 'user',
    kind: 'message',
    taskId,
    parts: [{ kind: 'data', data: { awaitedEvents: [{ id: 'paid', data: { cents: 3 } }] } }],
  };
  const { body } = await post(`${served.url}/a2a/agent`, {
    jsonrpc: '2.0',
    id: 1,
    method: 'message/send',
    params: { message },
  });
  expect(body).not.toHaveProperty('error');
  expect(await textAtEnd(served.log, taskId)).toBe('paid 3');
});

test('an address expires, and a short key is refused', () => {
  expect(() => createEvents({ key: 'short' }, () => '', SILENT)).toThrow('at least 32');
  const { eventUrl, routes } = createEvents({ key: KEY }, () => 'http://h', SILENT);
  const [, signed] = routes({
    log: { get: async () => undefined },
    runner: { submit: () => Promise.reject(new Error('not reached')) },
    logger: SILENT,
    maxBodyBytes: 1000,
  });
  const url = new URL(eventUrl({ task: 't', turn: 'm', id: 'e' }, { expiresInMs: -1 }));
  const request = new Request(url, { method: 'POST' });
  const params = { token: url.pathname.split('/').at(-1) ?? '' };
  return expect(signed?.handle({ request, url, params, owner: undefined })).resolves.toMatchObject({
    status: 401,
  });
});
