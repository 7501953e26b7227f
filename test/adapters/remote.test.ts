import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { remote } from '../../src/adapters/remote/index.ts';
import { checkLaws } from '../../src/event/index.ts';
import type { Agent, Entry, Snapshot } from '../../src/event/types.ts';
import { serve, type Served, type ServeOptions } from '../../src/serve/index.ts';
import { memoryDatabase, memoryLog } from '../../src/task/memory/memory-log.ts';
import type { TaskLog } from '../../src/task/types.ts';
import { httpServer } from '../a2a/support.ts';
import { MORTAL, World } from '../task/replica-world.ts';
import { eventually } from '../support/busy.ts';

type Hop = Served & { readonly log: TaskLog };

async function open(agent: Agent, options: ServeOptions = {}): Promise<Hop> {
  const log = memoryLog();
  const served = await serve(agent, { log, page: false, ...options });
  onTestFinished(() => served[Symbol.asyncDispose]());
  return Object.assign(served, { log });
}

const BYTES = new Uint8Array([1, 2, 3]);

/** Streams text, reports status, sends artifacts by value and by link, and asks a person. */
const leaf: Agent = async function* (turn, ctx) {
  yield { type: 'status', message: 'Reading' };
  for (const delta of ['One ', 'two ', 'three. ']) yield { type: 'text.delta', id: 't', delta };
  yield {
    type: 'artifact',
    artifactId: 'chart',
    name: 'chart',
    parts: [
      { bytes: BYTES, mediaType: 'image/png' },
      { url: '/blobs/x', mediaType: 'text/csv' },
    ],
  };
  const answer = await ctx.ask({
    id: `${turn.messageId}/send`,
    kind: 'approval',
    message: 'Send it?',
    data: { to: 'a@example.com' },
  });
  yield { type: 'text.delta', id: 'u', delta: answer.action === 'accept' ? 'Sent.' : 'Kept.' };
};

/** Runs until it is canceled, and reports each word. */
const endless: Agent = async function* (_, { signal }) {
  for (let count = 0; ; count++) {
    await sleep(1, undefined, { signal });
    yield { type: 'text.delta', id: 't', delta: `${count} ` };
  }
};

const entriesOf = async (log: TaskLog, task: string): Promise<readonly Entry[]> => {
  const entries: Entry[] = [];
  for await (const entry of log.read(task, 0)) entries.push(entry);
  return entries;
};

const allTasks = async (log: TaskLog): Promise<readonly Snapshot[]> => {
  const tasks: Snapshot[] = [];
  for await (const task of log.list({})) tasks.push(task);
  return tasks;
};

const states = async ({ log }: Hop): Promise<readonly string[]> => {
  const tasks = await allTasks(log);
  return tasks.map(({ state }) => state);
};

test('text, status, artifacts, the question and the answer pass through two hops', async () => {
  const third = await open(leaf);
  const second = await open(remote(third.url));
  const first = await open(remote(second.url));
  await using client = await connectA2A(first.url);
  const asked = await client.stream('go').result();
  if (!('status' in asked)) throw new Error('expected a task');
  expect(asked.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
  const request = asked.status.message?.parts[1]?.data as { request: { id: string } };
  expect(request).toMatchObject({
    request: { kind: 'approval', message: 'Send it?', data: { to: 'a@example.com' } },
  });
  const answers = [{ id: request.request.id, action: 'accept' }];
  const ended = client.stream([{ data: { answers } }], {
    taskId: asked.id,
    contextId: asked.contextId,
  });
  const task = await ended.result();
  expect(task).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
  const artifacts = 'artifacts' in task ? (task.artifacts ?? []) : [];
  expect(artifacts.map(({ name = '' }) => name).toSorted()).toEqual(['chart', 'response']);
  const response = artifacts.find(({ name }) => name === 'response');
  expect(response?.parts.map(({ text }) => text).join('')).toBe('One two three. Sent.');
  const chart = artifacts.find(({ name }) => name === 'chart');
  expect(chart?.parts).toEqual([
    { raw: 'AQID', mediaType: 'image/png' },
    { url: `${third.url}/blobs/x`, mediaType: 'text/csv' },
  ]);
  for (const hop of [first, second, third]) expect(await states(hop)).toEqual(['completed']);
  const entries = await entriesOf(first.log, asked.id);
  expect(entries.some((entry) => entry.type === 'status' && entry.message === 'Reading')).toBe(
    true,
  );
  expect(checkLaws(entries)).toEqual([]);
});

test('a declined question is declined at the agent that asked', async () => {
  const second = await open(leaf);
  const first = await open(remote(second.url));
  await using client = await connectA2A(first.url);
  const asked = await client.stream('go').result();
  if (!('status' in asked)) throw new Error('expected a task');
  const asking = asked.status.message?.parts[1]?.data as { request: { id: string } };
  const answers = [{ id: asking.request.id, action: 'decline' }];
  const stream = client.stream([{ data: { answers } }], { taskId: asked.id });
  await stream.result();
  expect(stream.text).toContain('Kept.');
});

test('a conversation stays in one context of the remote agent', async () => {
  const contexts: string[] = [];
  const second = await open(async function* (turn) {
    contexts.push(turn.context);
  });
  const first = await open(remote(second.url));
  await using client = await connectA2A(first.url);
  const one = await client.send('a');
  await client.send('b', { contextId: one.contextId ?? '' });
  await client.send('c');
  expect(contexts[1]).toBe(contexts[0]);
  expect(contexts[2]).not.toBe(contexts[0]);
});

test.each([0, 1, 2, 3, 5, 8])(
  'a cancel at event %i of the caller cancels every hop of a chain of eight',
  async (at) => {
    const hops = [await open(endless)];
    while (hops.length < 8) hops.push(await open(remote(hops.at(-1)!.url)));
    await using client = await connectA2A(hops.at(-1)!.url);
    let count = 0;
    const stream = client.stream('go');
    for await (const _ of stream) if (count++ === at) void stream.cancel().catch(() => {});
    expect(stream.status?.state).toBe('TASK_STATE_CANCELED');
    await eventually(async () => {
      for (const hop of hops) for (const state of await states(hop)) expect(state).toBe('canceled');
    });
  },
);

test('a cancel before the first event of the remote task cancels it when it exists', async () => {
  const second = await open(endless);
  // Holds the response of the remote server back until the caller was canceled.
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  let reached = (): void => {};
  const sent = new Promise<void>((resolve) => (reached = resolve));
  const slow: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!String(init?.body).includes('SendStreamingMessage')) return response;
    reached();
    await held;
    return response;
  };
  const first = await open(remote(second.url, { fetch: slow }));
  await using client = await connectA2A(first.url);
  const task = await client.send('go', { returnImmediately: true });
  await sent;
  const canceled = client.cancel('id' in task ? task.id : '');
  await eventually(async () => expect((await allTasks(first.log))[0]?.canceling).toBe(true));
  release();
  await canceled;
  await eventually(async () => expect(await states(second)).toEqual(['canceled']));
});

test('killed at any entry, the caller continues the same remote task, and shows nothing twice', async () => {
  for (const killAt of [1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    let runs = 0;
    const second = await open(async function* () {
      runs += 1;
      yield { type: 'status', message: 'Reading' };
      for (const delta of ['One ', 'two ', 'three ', 'four.']) {
        await sleep(2);
        yield { type: 'text.delta', id: 't', delta };
      }
    });
    const database = memoryDatabase();
    await using world = new World(database);
    const [caller, other, reader] = [world.replica(MORTAL), world.replica(), world.replica()];
    const agents = { a: remote(second.url) };
    await caller
      .runner(agents)
      .submit({ agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] });
    const entries: Entry[] = [];
    for await (const entry of reader.log.read('t', 0)) {
      entries.push(entry);
      if (entry.seq !== killAt) continue;
      caller.kill();
      other.runner(agents);
    }
    expect({ killAt, runs }).toEqual({ killAt, runs: 1 });
    expect(entries.at(-1)).toMatchObject({
      type: 'run.finished',
      outcome: 'completed',
      text: 'One two three four.',
    });
    const deltas = entries.map((entry) => (entry.type === 'text.delta' ? entry.delta : ''));
    expect(deltas.join('')).toBe('One two three four.');
    expect(checkLaws(entries)).toEqual([]);
  }
});

test('a failure has the reason of the remote agent, a rejection stays a rejection', async () => {
  const failing = await open(async function* () {
    yield {
      type: 'run.finished',
      outcome: 'failed',
      text: '',
      error: { code: 'server', message: 'the lab is closed', retryable: false },
    };
  });
  const rejecting = await open(async function* () {
    yield { type: 'run.finished', outcome: 'rejected', text: 'Not my job.' };
  });
  for (const [hop, state, text] of [
    [failing, 'TASK_STATE_FAILED', 'the lab is closed'],
    [rejecting, 'TASK_STATE_REJECTED', 'Not my job.'],
  ] as const) {
    const first = await open(remote(hop.url));
    await using client = await connectA2A(first.url);
    const task = await client.stream('go').result();
    expect(task).toMatchObject({ status: { state } });
    expect(JSON.stringify(task)).toContain(text);
  }
});

test('a server that cannot be reached is an error of the caller', async () => {
  const first = await open(remote('http://127.0.0.1:9'));
  await using client = await connectA2A(first.url);
  const task = await client.stream('go').result();
  expect(task).toMatchObject({ status: { state: 'TASK_STATE_FAILED' } });
});

test('a cycle of agents, and a chain that is too long, are refused', async () => {
  let next: Agent = leaf;
  const one = await open((turn, ctx) => next(turn, ctx));
  const two = await open(remote(one.url));
  next = remote(two.url);
  await using client = await connectA2A(one.url);
  const task = await client.stream('go').result();
  expect(JSON.stringify(task)).toContain('remove the cycle');

  const end = await open(leaf);
  const middle = await open(remote(end.url, { maxHops: 1 }));
  const start = await open(remote(middle.url));
  await using other = await connectA2A(start.url);
  expect(JSON.stringify(await other.stream('go').result())).toContain('exceeds maxHops (1)');
});

test('trace context and a card instead of an address are passed on', async () => {
  const seen: unknown[] = [];
  const second = await open(async function* (_, { trace }) {
    seen.push(trace);
  });
  const { card } = await connectA2A(second.url);
  const first = await open(remote(card));
  const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await using client = await connectA2A(first.url, { headers: { traceparent: trace } });
  await client.send('go');
  expect(seen).toEqual([{ traceparent: trace }]);
});

test('an agent that replies with a message, and asks in plain text, works too', async () => {
  const card = (url: string): object => ({
    name: 'plain',
    protocolVersion: '0.3.0',
    url,
    preferredTransport: 'JSONRPC',
    capabilities: {},
    skills: [],
  });
  let url = '';
  await using server = await httpServer((request, response, body) => {
    const reply = (value: unknown): void =>
      void response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    if (request.method === 'GET') return reply(card(url));
    const { id } = JSON.parse(body) as { id: unknown };
    const parts = [{ kind: 'text', text: 'Hello.' }];
    const message = { kind: 'message', messageId: 'r', role: 'agent', parts };
    reply({ jsonrpc: '2.0', id, result: message });
  });
  url = server.url;
  const first = await open(remote(server.url));
  await using client = await connectA2A(first.url);
  const stream = client.stream('go');
  await stream.result();
  expect(stream.text).toBe('Hello.');
});

/** A server of A2A 1.0 whose responses are those of `handle`. */
const hostile = async (
  handle: (method: string, reply: (result: unknown) => void, response: ServerResponse) => void,
): Promise<string> => {
  let url = '';
  const server = await httpServer((request, response, body) => {
    const send = (value: unknown): void =>
      void response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    const supportedInterfaces = [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
    if (request.method === 'GET')
      return send({ name: 'x', supportedInterfaces, capabilities: { streaming: true } });
    const { id, method } = JSON.parse(body) as { id: unknown; method: string };
    const reply = (result: unknown): void => {
      const message = { jsonrpc: '2.0', id, result };
      if (!method.startsWith('SendStreaming')) return send(message);
      if (!response.headersSent) response.setHeader('content-type', 'text/event-stream');
      response.write(`data: ${JSON.stringify(message)}\n\n`);
    };
    handle(method, reply, response);
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  url = server.url;
  return url;
};

test('a question that the remote agent asks again needs another answer of the person', async () => {
  let sent = 0;
  const request = { id: 'q', kind: 'approval', message: 'Pay?' };
  const message = { messageId: 'same', role: 'ROLE_AGENT', parts: [{ data: { request } }] };
  const status = { state: 'TASK_STATE_INPUT_REQUIRED', message };
  const task = { id: 'T', contextId: 'C', status };
  const url = await hostile((method, reply, response) => {
    if (method === 'SendStreamingMessage') sent++;
    reply(method === 'GetTask' ? task : { task });
    response.end();
  });
  const first = await open(remote(url));
  await using client = await connectA2A(first.url);
  const asked = await client.stream('go').result();
  if (!('status' in asked)) throw new Error('expected a task');
  const pendingOf = async (): Promise<readonly string[]> =>
    ((await first.log.get(asked.id))?.pending ?? []).map(({ id }) => id);
  const [one = ''] = await pendingOf();
  const answers = [{ id: one, action: 'accept' }];
  const again = await client.stream([{ data: { answers } }], { taskId: asked.id }).result();
  expect(again).toMatchObject({ status: { state: 'TASK_STATE_INPUT_REQUIRED' } });
  const [two = ''] = await pendingOf();
  expect(two).not.toBe(one);
  expect(two).toMatch(/q$/);
  expect(sent).toBe(2);
});

test('a server that confirms a cancel and keeps its stream open is disconnected', async () => {
  const task = (state: string): object => ({ id: 'T', contextId: 'C', status: { state } });
  let onClose = (): void => {};
  const closed = new Promise<void>((resolve) => (onClose = resolve));
  let onOpen = (): void => {};
  const opened = new Promise<void>((resolve) => (onOpen = resolve));
  const url = await hostile((method, reply, response) => {
    if (method === 'CancelTask') return reply(task('TASK_STATE_CANCELED'));
    reply({ task: task('TASK_STATE_WORKING') });
    onOpen();
    const timer = setInterval(() => response.write(': still here\n\n'), 20);
    response.once('close', () => {
      clearInterval(timer);
      onClose();
    });
  });
  const first = await open(remote(url, { cancelTimeoutMs: 200 }), { graceMs: 100 });
  await using client = await connectA2A(first.url);
  const stream = client.stream('go');
  for await (const event of stream) if ('task' in event) break;
  await opened;
  await client.cancel(stream.taskId ?? '');
  await closed;
  expect(await states(first)).toEqual(['canceled']);
});

/** The state and artifacts of the caller's task after the remote agent has sent these events. */
async function after(events: readonly object[]): Promise<Snapshot> {
  const task = { id: 'T', contextId: 'C', status: { state: 'TASK_STATE_WORKING' } };
  const done = { taskId: 'T', contextId: 'C', status: { state: 'TASK_STATE_COMPLETED' } };
  const url = await hostile((method, reply, response) => {
    if (method === 'CancelTask') return reply({ ...task, status: done.status });
    for (const event of [{ task }, ...events, { statusUpdate: done }]) reply(event);
    response.end();
  });
  const first = await open(remote(url));
  await using client = await connectA2A(first.url);
  await client.stream('go').result();
  const [snapshot] = await allTasks(first.log);
  if (!snapshot) throw new Error('expected a task');
  return snapshot;
}

const artifactOf = (artifact: object, taskId = 'T'): object => ({
  artifactUpdate: { taskId, contextId: 'C', artifact },
});

test('events of another task of the remote server are not part of the run', async () => {
  const status = { state: 'TASK_STATE_WORKING' };
  const artifacts = [{ artifactId: 'c', parts: [{ text: 'third' }] }];
  const { text, artifacts: kept } = await after([
    artifactOf({ artifactId: 'a', parts: [{ text: 'mine' }] }),
    artifactOf({ artifactId: 'b', parts: [{ text: 'other' }] }, 'U'),
    artifactOf({ artifactId: 'd', name: 'chart', parts: [{ data: 1 }] }, 'U'),
    { task: { id: 'U', contextId: 'C', status, artifacts } },
  ]);
  expect({ text, kept }).toEqual({ text: 'mine', kept: [] });
});

test('an address of a remote agent that is not of the web is text', async () => {
  const hostileUrls = ['file:///etc/passwd', 'javascript:alert(1)', 'data:text/html,x', 'http://['];
  const parts = [...hostileUrls, 'https://example.com/a', '/b'].map((url) => ({ url }));
  const { artifacts } = await after([artifactOf({ artifactId: 'x', name: 'links', parts })]);
  expect(artifacts[0]?.parts).toMatchObject([
    ...hostileUrls.map((text) => ({ text })),
    { url: 'https://example.com/a' },
    { url: expect.stringMatching(/^http:.*\/b$/) as string },
  ]);
});

test('a remote agent with ids of any length, or artifacts without end, is limited', async () => {
  const data = (artifactId: string): object =>
    artifactOf({ artifactId, name: 'n', parts: [{ data: 1 }] });
  const { artifacts } = await after([data('i'.repeat(1000)), data('i'.repeat(1000))]);
  expect(artifacts).toHaveLength(1);
  expect(artifacts[0]?.artifactId.length).toBeLessThan(100);
  const { state, error } = await after(Array.from({ length: 5001 }, (_, n) => data(`a${n}`)));
  expect({ state, code: error?.code }).toEqual({ state: 'failed', code: 'too_large' });
});

test('an answer is not sent to another question with the same id', async () => {
  const sent: string[] = [];
  const statusOf = (text: string): object => {
    const request = { id: 'q', kind: 'approval', message: text };
    const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [{ data: { request } }] };
    return { state: 'TASK_STATE_INPUT_REQUIRED', message };
  };
  const taskOf = (text: string): object => ({ id: 'T', contextId: 'C', status: statusOf(text) });
  const url = await hostile((method, reply, response) => {
    sent.push(method);
    const other = taskOf('Delete everything?');
    if (method === 'SendStreamingMessage') reply({ task: taskOf('Say hello?') });
    else reply(method === 'GetTask' ? other : { task: other });
    response.end();
  });
  const first = await open(remote(url));
  await using client = await connectA2A(first.url);
  const asked = await client.stream('go').result();
  if (!('status' in asked)) throw new Error('expected a task');
  const [one] = (await first.log.get(asked.id))?.pending ?? [];
  const answers = [{ id: one?.id, action: 'accept' }];
  const again = await client.stream([{ data: { answers } }], { taskId: asked.id }).result();
  expect(JSON.stringify(again)).toContain('Delete everything?');
  expect(sent.filter((method) => method === 'SendStreamingMessage')).toHaveLength(1);
});
