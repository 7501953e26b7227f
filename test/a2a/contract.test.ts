import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { Agent, Part } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { sleep } from '../../src/stream/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { verifies } from '../verifies.ts';
import { all, Caller, serveAgent, shape, taskIdOf, textOf, wordOf } from './support.ts';

const counting = (count: number, ms = 1): Agent =>
  async function* (_turn, ctx) {
    for (let n = 0; n < count; n++) {
      await sleep(ms, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    }
  };
const whole = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');
const never = (): Promise<never> => new Promise(() => {});

/** What agents do to a stream; each row names the shape that callers see all the same. */
const AGENTS: Readonly<
  Record<string, { readonly agent: Agent; readonly ends: string; readonly says?: string }>
> = {
  'finishes in good order': { agent: counting(3), ends: 'completed', says: whole(3) },
  'throws half-way': {
    agent: async function* () {
      yield { type: 'text.delta', id: 't', delta: 'so far ' };
      throw new Error('secret of the house');
    },
    ends: 'failed',
    says: 'so far ',
  },
  'throws before its first event': {
    agent: async function* () {
      throw new Error('secret of the house');
    },
    ends: 'failed',
  },
  'returns without a word': { agent: async function* () {}, ends: 'completed' },
  'goes on after its own end': {
    agent: async function* () {
      yield { type: 'run.finished', outcome: 'completed', text: 'done' };
      yield { type: 'text.delta', id: 't', delta: 'too late' };
      yield { type: 'run.finished', outcome: 'failed', text: 'again' };
    },
    ends: 'completed',
    says: 'done',
  },
  refuses: {
    agent: async function* () {
      yield { type: 'run.finished', outcome: 'rejected', text: 'not my trade' };
    },
    ends: 'rejected',
    says: 'not my trade',
  },
};

describe.each(['0.3', '1.0'] as const)('A2A %s', (version) => {
  for (const [name, { agent, ends, says = '' }] of Object.entries(AGENTS)) {
    verifies(
      ['S124', 'S127', 'S130', 'S132', 'S133'],
      `an agent that ${name} sends the task first and one final event last (${version})`,
      async () => {
        await using served = await serveAgent(agent);
        const events = await all(new Caller(served.url, version).say('go'));
        expect(wordOf(events[0]!)).toBe('task');
        expect(wordOf(events.at(-1)!)).toBe(ends);
        expect(events.filter((event) => wordOf(event) === ends)).toHaveLength(1);
        expect(textOf(events)).toBe(says);
        expect(JSON.stringify(events)).not.toContain('secret of the house');
      },
    );
  }

  verifies(
    ['S128', 'S129', 'S122'],
    `every event is one JSON-RPC response with the request's id (${version})`,
    async () => {
      await using served = await serveAgent(counting(3));
      const caller = new Caller(served.url, version);
      const method = version === '1.0' ? 'SendStreamingMessage' : 'message/stream';
      const response = await caller.post(method, caller.message('go'));
      expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
      const text = await response.text();
      const events = text.trimEnd().split('\n\n');
      for (const event of events) {
        expect(event).toMatch(
          /^id: \d+(\.\d+)?\ndata: \{"jsonrpc":"2.0","id":7,"result":\{.*\}\}$/,
        );
      }
      expect(events.length).toBeGreaterThan(3);
    },
  );

  verifies(
    ['S191', 'S197', 'S131'],
    `a stream that is lost after any event resumes with exactly the rest (${version})`,
    async () => {
      await using served = await serveAgent(counting(12));
      const caller = new Caller(served.url, version);
      const events = await all(caller.say('go'));
      const task = taskIdOf(events);
      for (const [i, { id }] of events.entries()) {
        const rest = await all(caller.subscribe(task, id));
        expect(rest).toEqual(events.slice(i + 1));
      }
    },
  );

  verifies(
    ['S191', 'S192', 'S196'],
    `a disconnect does not cancel the task, and no event is missed (${version})`,
    async () => {
      await using served = await serveAgent(counting(60, 2));
      const caller = new Caller(served.url, version);
      const seen = [];
      for await (const event of caller.say('go')) {
        seen.push(event);
        if (seen.length === 6) break;
      }
      const rest = await all(caller.subscribe(taskIdOf(seen), seen.at(-1)!.id));
      expect(textOf([...seen, ...rest])).toBe(whole(60));
      expect(wordOf(rest.at(-1)!)).toBe('completed');
    },
  );

  verifies(
    ['S175', 'S177', 'S178'],
    `cancel ends the run and its stream with one canceled event (${version})`,
    async () => {
      let stopped: unknown;
      await using served = await serveAgent(async function* (_turn, ctx) {
        yield { type: 'status', message: 'working on it' };
        await once(ctx.signal, 'abort');
        stopped = ctx.signal.reason;
      });
      const caller = new Caller(served.url, version);
      const events = [];
      for await (const event of caller.say('go')) {
        events.push(event);
        if (events.length === 3) {
          const method = version === '1.0' ? 'CancelTask' : 'tasks/cancel';
          const { result } = await caller.call(method, { id: taskIdOf(events) });
          expect(JSON.stringify(result)).toMatch(/canceled/i);
        }
      }
      expect(stopped).toMatchObject({ code: 'canceled' });
      expect(shape(events)).toEqual(['task', 'working', 'canceled']);
      expect(JSON.stringify(events.at(-1))).toContain('Response stopped.');
      if (version === '0.3') expect(events.at(-1)!.result['final']).toBe(true);
    },
  );

  verifies(
    ['S176', 'S178'],
    `a cancel is in the log before the signal of the agent aborts (${version})`,
    async () => {
      const log = memoryLog();
      let heard: unknown;
      await using served = await serveAgent(async function* (turn, ctx) {
        yield { type: 'status', message: 'working on it' };
        await once(ctx.signal, 'abort');
        heard = await log.get(turn.task);
        yield { type: 'text.delta', id: 't', delta: 'too late' };
      }, log);
      const caller = new Caller(served.url, version);
      const open = caller.say('go');
      const first = await open.next();
      const method = version === '1.0' ? 'CancelTask' : 'tasks/cancel';
      await caller.call(method, { id: taskIdOf([first.value!]) });
      const rest = await all(open);
      expect(heard).toMatchObject({ canceling: true, state: 'working' });
      expect(shape(rest)).toEqual(['working', 'canceled']);
    },
  );

  verifies(
    ['S165', 'S167', 'S168', 'S169', 'S170', 'S171', 'S172', 'S173'],
    `results are artifacts: each with its own id and name, as text or data, the last chunk marked (${version})`,
    async () => {
      const file = (name: string): JsonObject => ({
        type: 'artifact',
        uri: `/files/${name}.parquet`,
        resource_type: 'parquet',
        metadata: { row_count: 2, columns: ['id', 'total'] },
      });
      const artifacts: readonly (readonly [string, Part])[] = [
        ['sql_plan', { text: '{"tables":["orders"]}' }],
        ['query_summary', { text: 'Two orders.' }],
        ['sql_query', { data: file('query') }],
        ['query_results', { data: file('results') }],
      ];
      await using served = await serveAgent(async function* () {
        for (const [name, part] of artifacts)
          yield { type: 'artifact', artifactId: randomUUID(), name, parts: [part], last: true };
      });
      const events = await all(new Caller(served.url, version).say('go'));
      const updates = events
        .filter((event) => wordOf(event) === 'artifact')
        .map(({ result }) => (result['artifactUpdate'] ?? result) as JsonObject);
      expect(updates.map(({ lastChunk }) => lastChunk)).toEqual([true, true, true, true]);
      const seen = updates.map(({ artifact }) => artifact as JsonObject);
      expect(new Set(seen.map(({ artifactId }) => artifactId)).size).toBe(4);
      const kindOf = (part: Part): JsonObject =>
        version === '1.0' ? {} : { kind: 'text' in part ? 'text' : 'data' };
      expect(seen.map(({ name, parts }) => [name, parts])).toEqual(
        artifacts.map(([name, part]) => [name, [{ ...kindOf(part), ...part }]]),
      );
    },
  );

  verifies(
    ['S125', 'S162', 'S164'],
    `progress is a working status that a person can read, before any text (${version})`,
    async () => {
      await using served = await serveAgent(async function* () {
        yield { type: 'status', message: 'Analysing your request...' };
        yield { type: 'text.delta', id: 't', delta: 'done' };
      });
      const events = await all(new Caller(served.url, version).say('go'));
      const at = events.findIndex((event) => JSON.stringify(event).includes('Analysing'));
      expect(wordOf(events[at]!)).toBe('working');
      if (version === '0.3') expect(events[at]!.result['final']).toBe(false);
      expect(at).toBeLessThan(events.findIndex((event) => wordOf(event) === 'artifact'));
    },
  );

  verifies(
    'S182',
    `a cancel of an ended task is refused, a second cancel is not (${version})`,
    async () => {
      await using served = await serveAgent(async function* (turn, ctx) {
        const [part] = turn.parts;
        if (part && 'text' in part && part.text === 'wait') await once(ctx.signal, 'abort');
        yield { type: 'status', message: 'about to end' };
      });
      const caller = new Caller(served.url, version);
      const method = version === '1.0' ? 'CancelTask' : 'tasks/cancel';
      const done = taskIdOf(await all(caller.say('go')));
      expect(await caller.call(method, { id: done })).toMatchObject({ error: { code: -32002 } });
      const open = caller.say('wait');
      const { value } = await open.next();
      const id = taskIdOf([value!]);
      expect((await caller.call(method, { id }))['error']).toBeUndefined();
      expect((await caller.call(method, { id }))['error']).toBeUndefined();
      expect(await caller.call(method, { id: 'nobody' })).toMatchObject({
        error: { code: -32001 },
      });
      await all(open);
    },
  );

  verifies(
    'S180',
    `an agent that ignores its signal is abandoned, and its stream still ends (${version})`,
    async () => {
      await using served = await serveAgent(async function* () {
        yield { type: 'status', message: 'deaf' };
        await never();
      });
      const caller = new Caller(served.url, version);
      const open = caller.say('go');
      const first = await open.next();
      const method = version === '1.0' ? 'CancelTask' : 'tasks/cancel';
      await caller.call(method, { id: taskIdOf([first.value!]) });
      const rest = await all(open);
      expect(wordOf(rest.at(-1)!)).toBe('canceled');
    },
  );

  verifies(['S194', 'S131'], `an unknown task is an error (${version})`, async () => {
    await using served = await serveAgent(counting(1));
    const caller = new Caller(served.url, version);
    const method = version === '1.0' ? 'SubscribeToTask' : 'tasks/resubscribe';
    const body = await (await caller.post(method, { id: 'nobody' })).text();
    expect(body.startsWith('event: error\n')).toBe(version === '0.3');
    expect(JSON.parse(body.slice(body.indexOf('{')))).toMatchObject({
      id: 7,
      error: { code: -32001 },
    });
  });
});

verifies('S198', 'subscribing to a final task returns its end', async () => {
  await using served = await serveAgent(counting(2));
  const old = new Caller(served.url, '0.3');
  const task = taskIdOf(await all(old.say('go')));
  const [whole, final, ...more] = await all(old.subscribe(task));
  expect(more).toEqual([]);
  expect(whole?.result).toMatchObject({ kind: 'task', status: { state: 'completed' } });
  // No stream closes without a final event, and a task has no word for that.
  expect(final).toMatchObject({ id: whole?.id, result: { kind: 'status-update', final: true } });
  expect(final?.result).toMatchObject({ status: whole?.result['status'] });
  const strict = await new Caller(served.url).post('SubscribeToTask', { id: task });
  expect(await strict.json()).toMatchObject({ error: { code: -32004 } });
});

verifies(
  ['S130', 'S135'],
  'headers and the submitted task are there before the agent does anything',
  async () => {
    let begun = false;
    await using served = await serveAgent(async function* (_turn, ctx) {
      begun = true;
      await once(ctx.signal, 'abort');
      yield { type: 'status', message: 'stopped' };
    });
    const caller = new Caller(served.url);
    const response = await caller.post('SendStreamingMessage', caller.message('go'));
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    expect(response.headers.get('cache-control')).toContain('no-transform');
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toContain('TASK_STATE_SUBMITTED');
    await expect.poll(() => begun).toBe(true);
    await reader.cancel();
  },
);

test('a question closes the stream, and the answer continues it', async () => {
  await using served = await serveAgent(async function* (turn, ctx) {
    const { content } = await ctx.ask({
      id: `${turn.messageId}/name`,
      kind: 'question',
      message: 'Who are you?',
    });
    yield { type: 'text.delta', id: 't', delta: `Hello ${String(content)}.` };
  });
  const caller = new Caller(served.url, '0.3');
  const first = await all(caller.say('hi'));
  expect(shape(first)).toEqual(['task', 'working', 'input-required']);
  expect(first.at(-1)!.result['final']).toBe(true);
  const second = await all(caller.say('Ada', { taskId: taskIdOf(first) }));
  expect(wordOf(second[0]!)).toBe('task');
  expect(wordOf(second.at(-1)!)).toBe('completed');
  expect(textOf(second)).toBe('Hello Ada.');
});

test('a second message to a running task is queued and breaks no stream', async () => {
  await using served = await serveAgent(counting(20, 2));
  const caller = new Caller(served.url);
  const first = caller.say('one');
  const opening = await first.next();
  const task = taskIdOf([opening.value!]);
  const [a, b] = await Promise.all([all(first), all(caller.say('two', { taskId: task }))]);
  expect(wordOf(b.at(-1)!)).toBe('completed');
  expect(wordOf(a.at(-1)!)).toBe('completed');
});

for (const version of ['1.0', '0.3'] as const)
  test(`a task of several turns keeps the text of each run in artifacts and history (${version})`, async () => {
    const log = memoryLog();
    await using served = await serveAgent(async function* (turn, ctx) {
      const [part] = turn.parts;
      const word = part && 'text' in part ? part.text : '';
      yield { type: 'text.delta', id: 't', delta: `You said ${word}.` };
      const turns = async (): Promise<number> => (await log.get(turn.task))?.turns.length ?? 0;
      while ((await turns()) < 2) await sleep(5, ctx.signal);
    }, log);
    const caller = new Caller(served.url, version);
    const first = caller.say('one');
    const opening = await first.next();
    const taskId = taskIdOf([opening.value!]);
    await Promise.all([all(first), all(caller.say('two', { taskId }))]);
    const { result } = await caller.call(version === '1.0' ? 'GetTask' : 'tasks/get', {
      id: taskId,
    });
    const { artifacts, history } = result as Record<'artifacts' | 'history', JsonObject[]>;
    const textIn = ({ parts }: JsonObject): unknown => (parts as JsonObject[])[0]?.['text'];
    expect(artifacts.map(textIn)).toEqual(['You said one.', 'You said two.']);
    expect(new Set(artifacts.map(({ artifactId }) => artifactId)).size).toBe(2);
    expect(history.map(textIn)).toEqual(['one', 'two', 'You said one.', 'You said two.']);
    expect(new Set(history.map(({ messageId }) => messageId)).size).toBe(4);
  });

test('the same message sent twice is one task', async () => {
  await using served = await serveAgent(counting(2));
  const caller = new Caller(served.url);
  const message = caller.message('go', { messageId: 'once' });
  const [a, b] = [
    await all(caller.stream('SendStreamingMessage', message)),
    await all(caller.stream('SendStreamingMessage', message)),
  ];
  expect(taskIdOf(b)).toBe(taskIdOf(a));
  expect(b).toEqual(a);
});

test.each([
  ['not JSON', '{', -32700],
  ['an array', '[]', -32600],
  ['no method', '{"jsonrpc":"2.0","id":1}', -32600],
  ['an unknown method', '{"jsonrpc":"2.0","id":1,"method":"Nope"}', -32601],
  [
    'no parts',
    '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"a","role":"ROLE_USER","parts":[]}}}',
    -32602,
  ],
  [
    'no messageId',
    '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}}',
    -32602,
  ],
  [
    'a negative historyLength',
    '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x","historyLength":-1}}',
    -32602,
  ],
])('a request that is %s gets a clear error', async (_name, body, code) => {
  await using served = await serveAgent(counting(1));
  const response = await fetch(`${served.url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body,
  });
  expect(await response.json()).toMatchObject({
    error: { code, message: expect.any(String) as string },
  });
});

test('the version is chosen by header or method; an unknown one is refused', async () => {
  await using served = await serveAgent(counting(1));
  const caller = new Caller(served.url);
  const ask = async (header: string, method: string): Promise<unknown> =>
    (await caller.post(method, caller.message('x'), { 'a2a-version': header })).json();
  expect(await ask('1.0.0', 'SendMessage')).toMatchObject({ result: { task: {} } });
  expect(await ask('', 'SendMessage')).toMatchObject({ result: { task: {} } });
  expect(await ask('0.3', 'SendMessage')).toMatchObject({ error: { code: -32601 } });
  expect(await ask('9.9', 'SendMessage')).toMatchObject({ error: { code: -32009 } });
});
