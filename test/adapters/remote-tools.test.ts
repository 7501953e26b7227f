import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { Skill } from '../../src/a2a/index.ts';
import { remoteTools } from '../../src/adapters/remote/index.ts';
import type { Answer } from '../../src/ask.ts';
import type { Agent } from '../../src/event/types.ts';
import { dialHttp, offerHttp } from '../../src/mcp/index.ts';
import type { CallOptions, ToolCall, ToolEvent, ToolSource } from '../../src/mcp/types.ts';
import { serve, type Served, type ServeOptions } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import type { TaskLog } from '../../src/task/types.ts';
import { eventually } from '../support/busy.ts';

// A remote agent as tools: what a model sees of it, questions, cancel, and hostile cards.

type Hop = Served & { readonly log: TaskLog };

async function open(agent: Agent, options: ServeOptions = {}): Promise<Hop> {
  const log = memoryLog();
  const served = await serve(agent, { log, page: false, ...options });
  onTestFinished(() => served[Symbol.asyncDispose]());
  return Object.assign(served, { log });
}

const call = (args: ToolCall['args'], more: Partial<ToolCall> = {}): ToolCall => ({
  id: 'call 1',
  name: 'dose',
  args,
  ...more,
});

async function eventsOf(
  source: ToolSource,
  given: ToolCall,
  options?: CallOptions,
): Promise<ToolEvent[]> {
  const events: ToolEvent[] = [];
  for await (const event of source.callTool(given, options)) events.push(event);
  return events;
}

const skill = (id: string): Skill => ({
  id,
  name: `Skill ${id}`,
  description: `What ${id} does`,
  tags: [],
  examples: ['How much?'],
});

const CARD: ServeOptions = {
  card: { name: 'Pharmacist', skills: [skill('dose'), skill('a b'), skill('a.b')] },
};

const states = async ({ log }: Hop): Promise<readonly string[]> => {
  const all: string[] = [];
  for await (const { state } of log.list({})) all.push(state);
  return all;
};

const pharmacist: Agent = async function* (turn, ctx) {
  yield { type: 'status', message: 'Looking it up' };
  yield { type: 'text.delta', id: 't', delta: 'Take ' };
  const { action } = await ctx.ask({
    id: `${turn.messageId}/allergy`,
    kind: 'question',
    message: 'Any allergy?',
  });
  yield { type: 'text.delta', id: 't', delta: action === 'accept' ? 'half.' : 'one.' };
  yield { type: 'artifact', artifactId: 'plan', name: 'plan', parts: [{ data: { mg: 50 } }] };
};

test('each skill is a tool, whatever its id', async () => {
  const agent = await open(pharmacist, CARD);
  const source = await remoteTools(agent.url);
  const tools = [];
  for await (const tool of source.listTools()) tools.push(tool);
  expect(tools.map(({ name }) => name)).toEqual(['dose', 'a_b', 'a_b_2']);
  expect(tools[0]).toMatchObject({
    description: 'What dose does\nExample: How much?',
    inputSchema: { required: ['message'] },
  });
  expect(source.info.name).toBe('Pharmacist');
});

test('a question ends the call; the answer continues the same remote task', async () => {
  const agent = await open(pharmacist, CARD);
  const source = await remoteTools(agent.url);
  const first = await eventsOf(source, call({ message: 'How much?' }));
  const input = first.at(-1);
  expect(first.map(({ type }) => type)).toEqual(['progress', 'partial', 'input']);
  if (input?.type !== 'input') throw new Error('expected a question');
  expect(input.requests).toMatchObject([{ kind: 'question', message: 'Any allergy?' }]);
  const answers = input.requests.map(({ id }): Answer => ({
    id,
    action: 'accept',
    content: 'yes',
  }));
  const { state } = input;
  const again = await eventsOf(
    source,
    call({ message: 'How much?' }, { answers, state: state ?? '' }),
  );
  expect(again.at(-1)).toEqual({
    type: 'result',
    result: {
      content: [
        { type: 'text', text: 'Take half.' },
        { type: 'text', text: '{"mg":50}' },
      ],
      structuredContent: { mg: 50 },
    },
  });
  expect(await states(agent)).toEqual(['completed']);
  // The answer has been used: the same call again finds the end of the task, and sends nothing.
  const third = await eventsOf(
    source,
    call({ message: 'How much?' }, { answers, state: state ?? '' }),
  );
  expect(third.at(-1)).toEqual(again.at(-1));
  expect(await states(agent)).toEqual(['completed']);
});

test('two calls with one id are two tasks, and each gets its own answer', async () => {
  const agent = await open(async function* ({ parts }) {
    yield { type: 'text.delta', id: 't', delta: `You said ${JSON.stringify(parts)}` };
  }, CARD);
  const source = await remoteTools(agent.url);
  const results = await Promise.all(
    ['one', 'two'].map((message) => eventsOf(source, call({ message, data: [message] }))),
  );
  const texts = results.map((events) => JSON.stringify(events.at(-1)));
  expect(texts[0]).toContain('one');
  expect(texts[1]).toContain('two');
  expect(await states(agent)).toEqual(['completed', 'completed']);
});

test('a client of MCP over HTTP answers the question', async () => {
  const agent = await open(pharmacist, CARD);
  await using offered = await offerHttp(await remoteTools(agent.url));
  await using client = await dialHttp({ url: offered.url, capabilities: { elicitation: {} } });
  const given = call({ message: 'How much?' });
  const input = (await eventsOf(client, given)).at(-1);
  if (input?.type !== 'input') throw new Error('expected a question');
  const answers = input.requests.map(({ id }): Answer => ({ id, action: 'decline' }));
  const again = { ...given, answers, ...(input.state !== undefined && { state: input.state }) };
  const last = (await eventsOf(client, again)).at(-1);
  expect(last).toMatchObject({ result: { content: [{ text: 'Take one.' }, {}] } });
  expect(await states(agent)).toEqual(['completed']);
});

test.each([
  [{}, 'missing argument "message"'],
  [{ message: 7 }, 'missing argument "message"'],
  [{ message: 'x', more: 1 }, 'unknown argument "more"'],
])('arguments %j are refused, and nothing is sent', async (args, problem) => {
  const agent = await open(pharmacist, CARD);
  const [last] = await eventsOf(await remoteTools(agent.url), call(args));
  expect(last).toMatchObject({ result: { isError: true } });
  expect(JSON.stringify(last)).toContain(JSON.stringify(problem).slice(1, -1));
  expect(await states(agent)).toEqual([]);
});

test('an unknown tool and a forged state throw', async () => {
  const agent = await open(pharmacist, CARD);
  const source = await remoteTools(agent.url);
  const unknown = eventsOf(source, call({ message: 'x' }, { name: 'other' }));
  await expect(unknown).rejects.toMatchObject({ code: 'not_found' });
  const forged = eventsOf(source, call({ message: 'x' }, { state: '{"run":1}' }));
  await expect(forged).rejects.toMatchObject({ code: 'invalid' });
  expect(await states(agent)).toEqual([]);
});

test('a failure and a refusal of the agent are results with the reason', async () => {
  const failing = await open(async function* () {
    yield { type: 'text.delta', id: 't', delta: 'half' };
    throw new Error('no stock');
  }, CARD);
  const [last] = (await eventsOf(await remoteTools(failing.url), call({ message: 'x' }))).slice(-1);
  expect(last).toMatchObject({ type: 'result', result: { isError: true } });
  const refusing = await open(async function* () {
    yield { type: 'run.finished', outcome: 'rejected', text: 'not my task' };
  }, CARD);
  const refused = (await eventsOf(await remoteTools(refusing.url), call({ message: 'x' }))).at(-1);
  expect(refused).toMatchObject({
    result: { isError: true, content: [{ text: 'Error: not my task' }] },
  });
});

const endless: Agent = async function* (_, { signal }) {
  for (let count = 0; ; count++) {
    await sleep(1, undefined, { signal });
    yield { type: 'text.delta', id: 't', delta: `${count} ` };
  }
};

test('an abort, a deadline and a reader that leaves cancel the remote task', async () => {
  const agent = await open(endless, CARD);
  const source = await remoteTools(agent.url);
  const early = AbortSignal.abort(new Error('never mind'));
  await expect(eventsOf(source, call({ message: 'x' }), { signal: early })).rejects.toThrow(
    'never mind',
  );
  const abort = new AbortController();
  const aborted = (async () => {
    for await (const event of source.callTool(call({ message: 'x' }), { signal: abort.signal }))
      if (event.type === 'partial') abort.abort(new Error('enough'));
  })();
  await expect(aborted).rejects.toThrow('enough');
  const late = eventsOf(source, call({ message: 'x' }), { deadline: Date.now() + 50 });
  await expect(late).rejects.toMatchObject({ code: 'timeout' });
  for await (const event of source.callTool(call({ message: 'x' }))) if (event) break;
  await eventually(async () =>
    expect((await states(agent)).filter((state) => state !== 'canceled')).toEqual([]),
  );
});

test('a result that a model cannot read is refused, and the task is canceled', async () => {
  const agent = await open(async function* (_, { signal }) {
    for (;;) {
      yield { type: 'text.delta', id: 't', delta: 'x'.repeat(100_000) };
      await sleep(1, undefined, { signal });
    }
  }, CARD);
  const events = await eventsOf(await remoteTools(agent.url), call({ message: 'x' }));
  expect(JSON.stringify(events.at(-1))).toContain('exceeds');
  await eventually(async () => expect(await states(agent)).toEqual(['canceled']));
});

test('a chain that comes back to an agent is refused', async () => {
  let source: ToolSource | undefined;
  const agent = await open(async function* (turn) {
    const given = call({ message: 'again' }, { meta: turn.metadata ?? {} });
    const last = (await eventsOf(source as ToolSource, given)).at(-1);
    yield { type: 'text.delta', id: 't', delta: JSON.stringify(last) };
  }, CARD);
  source = await remoteTools(agent.url);
  const last = (await eventsOf(source, call({ message: 'x' }))).at(-1);
  expect(JSON.stringify(last)).toContain('remove the cycle');
});
