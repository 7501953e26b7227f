import { expect, test } from 'vitest';
import { TaskFold } from '../../src/a2a/client/task-fold.ts';
import type { A2AStreamEvent } from '../../src/a2a/protocol/model.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { createRegistry, tool } from '../../src/mcp/index.ts';
import { serve } from '../../src/serve/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { memoryLog, type TaskLog } from '../../src/task/index.ts';
import { memoryDatabase, openLog, storeFromCalls, type Store } from '../../src/task/store/index.ts';
import { LAYERS } from '../layers.ts';
import { verifies } from '../verifies.ts';
import { all, Caller, serveAgent, shape, taskIdOf, textOf, wordOf, type Seen } from './support.ts';

const words = (count: number, ms: number): Agent =>
  async function* (_turn, ctx) {
    for (let n = 0; n < count; n++) {
      await sleep(ms, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    }
  };
const whole = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');

/** What a client has that merges the snapshot and what follows. */
function folded(events: readonly Seen[]): string {
  const fold = new TaskFold();
  for (const { result } of events) fold.apply(result as unknown as A2AStreamEvent);
  expect(fold.problems).toEqual([]);
  return fold.text;
}

/** A database that is some way off: every call takes its time, there and back. */
function distant(store: Store, ms: number): Store {
  const calls = storeFromCalls(async (method, args) => {
    await sleep(ms);
    const result = await (store[method] as (...args: unknown[]) => Promise<unknown>)(...args);
    await sleep(ms);
    return result;
  });
  return {
    ...calls,
    announcesAll: store.announcesAll,
    onCommit: (listener) => store.onCommit(listener),
    async [Symbol.asyncDispose]() {},
  };
}

verifies(
  ['S191', 'S197', 'S198'],
  'with a slow store, a late subscriber misses nothing, and a final event is stored before it is sent',
  async () => {
    const log = openLog(distant(memoryDatabase(), 2));
    await using served = await serveAgent(words(60, 1), log);
    const caller = new Caller(served.url);
    const first = caller.say('go');
    const seen: Seen[] = [(await first.next()).value!];
    const task = taskIdOf(seen);
    const joined: Promise<Seen[]>[] = [];
    for await (const event of first) {
      seen.push(event);
      // The snapshot and what follows it, taken at another moment each time.
      if (seen.length % 6 === 0 && wordOf(event) === 'artifact')
        joined.push(all(caller.subscribe(task)));
    }
    const { result } = await caller.call('GetTask', { id: task });
    expect(result).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
    expect(textOf(seen)).toBe(whole(60));
    // Who was so late that the task had ended got a refusal, which 1.0 asks for, and no event.
    const streams = (await Promise.all(joined)).filter((events) => events.length > 0);
    expect(streams.length).toBeGreaterThan(0);
    for (const events of streams) {
      expect(folded(events)).toBe(whole(60));
      expect(wordOf(events.at(-1)!)).toBe('completed');
    }
    await log[Symbol.asyncDispose]();
  },
);

test('a task that ends while a subscriber begins still has its last event in the stream', async () => {
  const inner = memoryLog();
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let reads = Infinity;
  // The second read of the subscriber is answered when the task has ended.
  const get: TaskLog['get'] = async (task) => {
    if (--reads === 0) {
      release();
      while ((await inner.get(task))?.state !== 'completed') await sleep(1);
    }
    return inner.get(task);
  };
  const log = new Proxy(inner, {
    get: (target, name) => {
      const value: unknown = name === 'get' ? get : Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  await using served = await serveAgent(async function* () {
    yield { type: 'text.delta', id: 't', delta: 'a' };
    await released;
    yield { type: 'text.delta', id: 't', delta: 'b' };
  }, log);
  const caller = new Caller(served.url);
  const first = caller.say('go');
  const task = taskIdOf([(await first.next()).value!]);
  reads = 2;
  const events = await all(caller.subscribe(task));
  reads = Infinity;
  release();
  await all(first);
  expect(folded(events)).toBe('ab');
  expect(wordOf(events.at(-1)!)).toBe('completed');
});

verifies(
  'S132',
  'further subscribers get the same events in the same order, one end each',
  async () => {
    await using served = await serveAgent(words(20, 2));
    const caller = new Caller(served.url);
    const first = caller.say('go');
    const opening = (await first.next()).value!;
    const task = taskIdOf([opening]);
    const others = [1, 2, 3].map(() => all(caller.subscribe(task, '1')));
    const rest = await all(first);
    for (const events of await Promise.all(others)) expect(events).toEqual(rest);
  },
);

verifies(
  ['S175', 'S176', 'S178'],
  'with two servers on one store, the other one streams live and its cancel stops the run',
  async () => {
    const database = memoryDatabase();
    const logs = [memoryLog({ database }), memoryLog({ database })] as const;
    let stopped: unknown;
    const agent: Agent = async function* (_turn, ctx) {
      try {
        yield* words(10_000, 2)(_turn, ctx);
      } finally {
        stopped = ctx.signal.reason;
      }
    };
    await using here = await serveAgent(agent, logs[0]);
    await using there = await serveAgent(agent, logs[1]);
    const caller = new Caller(here.url);
    const open = caller.say('go');
    const opening = (await open.next()).value!;
    const task = taskIdOf([opening]);
    const other = new Caller(there.url);
    const live: Seen[] = [];
    let answer: JsonObject = {};
    for await (const event of other.subscribe(task)) {
      live.push(event);
      if (live.length === 5) answer = await other.call('CancelTask', { id: task });
    }
    expect(answer).toMatchObject({ result: { status: { state: 'TASK_STATE_CANCELED' } } });
    expect(wordOf(live.at(-1)!)).toBe('canceled');
    const rest = await all(open);
    expect(rest.at(-1)).toEqual(live.at(-1));
    expect(stopped).toMatchObject({ code: 'canceled' });
  },
);

test('a task that waits for a login is auth-required, and continues with the answer', async () => {
  await using served = await serveAgent(async function* (turn, ctx) {
    await ctx.ask({ id: `${turn.messageId}/login`, kind: 'auth', message: 'Log in first.' });
    yield { type: 'text.delta', id: 't', delta: 'Welcome.' };
  });
  const caller = new Caller(served.url);
  const first: Seen[] = [];
  // The stream stays open: a login may reach the agent by another way.
  for await (const event of caller.say('hi')) {
    first.push(event);
    if (wordOf(event) === 'auth-required') break;
  }
  expect(shape(first)).toEqual(['task', 'working', 'auth-required']);
  const second = await all(caller.say('ok', { taskId: taskIdOf(first) }));
  expect([wordOf(second.at(-1)!), textOf(second)]).toEqual(['completed', 'Welcome.']);
});

for (const version of ['1.0', '0.3'] as const)
  test(`resuming a compacted task returns the final task, whatever the event id (${version})`, async () => {
    const log = memoryLog();
    await using served = await serveAgent(words(10, 1), log);
    const caller = new Caller(served.url, version);
    const events = await all(caller.say('go'));
    const task = taskIdOf(events);
    await log.prune({ deltasEndedBefore: Date.now() + 1000 });
    for (const after of ['0', events[3]!.id, events.at(-2)!.id]) {
      const rest = await all(caller.subscribe(task, after));
      const last = rest.at(-1)!;
      expect(JSON.stringify(last.result)).toMatch(/completed/i);
      expect(JSON.stringify(rest)).toContain(whole(10));
      expect(last.id).toBe(events.at(-1)!.id);
      expect([wordOf(last), last.result['final']]).toEqual([
        'completed',
        version === '0.3' ? true : undefined,
      ]);
    }
    expect(await all(caller.subscribe(task, events.at(-1)!.id))).toEqual([]);
  });

verifies(
  'S123',
  'A2A and MCP are two layers on one server: each accepts its own protocol only',
  async () => {
    const tools = createRegistry({ name: 't', version: '1' });
    tools.register(tool('echo', 'Says it again', { type: 'object' }, () => 'hello'));
    await using served = await serve(words(1, 0), { log: memoryLog(), page: false, tools });
    const ask = async (path: string, method: string, params: JsonObject): Promise<unknown> => {
      const response = await fetch(`${served.url}${path}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      const text = await response.text();
      const [line = text] = text.split('\n').filter((each) => each.startsWith('data: {'));
      return JSON.parse(line.replace('data: ', '')) as unknown;
    };
    const initialize = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    };
    const message = { messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'hi' }] };
    expect(await ask('/mcp', 'initialize', initialize)).toMatchObject({
      result: { serverInfo: {} },
    });
    expect(await ask('/a2a', 'message/stream', { message })).toMatchObject({
      result: { kind: 'task' },
    });
    expect(await ask('/a2a', 'initialize', initialize)).toMatchObject({ error: { code: -32601 } });
    expect(await ask('/mcp', 'message/stream', { message })).toHaveProperty('error');
    expect(LAYERS['a2a']).not.toContain('mcp');
    expect(LAYERS['mcp']).not.toContain('a2a');
  },
);
