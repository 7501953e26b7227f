import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { langgraph, type LangGraph } from '../../src/adapters/langgraph/langgraph-agent.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { CheckpointSaver } from '../../src/adapters/langgraph/task-checkpointer.ts';
import type { Agent, AgentEvent, AgentStorage, Entry } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve, toA2A } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { memoryDatabase } from '../../src/task/memory/memory-log.ts';
import { all, Caller } from '../a2a/support.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { peer } from '../peers.ts';
import { type ModelReply, startModelServer } from '../support/model-server.ts';
import { statusesIn } from '../support/served.ts';
import { MORTAL, World } from '../task/replica-world.ts';
import { suite, verifies } from '../verifies.ts';
import { answerEach } from './answer-each.ts';
import { adapterContract, only, type Scene, type SceneTool } from './adapter.contract.ts';

const lib = await peer('langgraph');

interface Message {
  readonly content: string;
  readonly tool_calls?: readonly unknown[];
}
interface State {
  readonly messages: readonly Message[];
}
interface Compiled extends LangGraph {
  invoke(input: unknown): Promise<State>;
}
interface Builder {
  addNode(name: string, node: unknown): Builder;
  addEdge(from: string, to: string): Builder;
  addConditionalEdges(from: string, choose: (state: State) => string): Builder;
  compile(options?: JsonObject): Compiled;
}
/** What the tests use of LangGraph.js. */
interface Lib {
  readonly StateGraph: new (state: unknown) => Builder;
  readonly MessagesAnnotation: { readonly spec: JsonObject };
  readonly Annotation: (() => unknown) & { readonly Root: (spec: JsonObject) => unknown };
  readonly MemorySaver: new () => unknown;
  readonly interrupt: (value: unknown) => unknown;
  readonly START: string;
  readonly END: string;
}
interface ChatModel {
  bindTools(tools: readonly unknown[]): ChatModel;
  invoke(messages: unknown, config?: unknown): Promise<Message>;
}

const load = async <T>(name: string): Promise<T> => (await lib.import(name)) as T;

async function chatModel(url: string): Promise<ChatModel> {
  const { ChatOpenAI } = await load<{ ChatOpenAI: new (options: JsonObject) => ChatModel }>(
    '@langchain/openai',
  );
  const configuration = { baseURL: `${url}/v1` };
  return new ChatOpenAI({ model: 'scripted', apiKey: 'dummy', maxRetries: 0, configuration });
}

/** The loop of a model and its tools, as LangGraph's own documentation writes it. */
async function build(scene: Scene): Promise<Agent> {
  const { MemorySaver } = await load<Lib>('@langchain/langgraph');
  return langgraph(await loop(scene, { checkpointer: new MemorySaver() }));
}

/** A graph with a tool that runs another graph. */
async function asking(scene: Scene): Promise<Agent> {
  const helper = await loop(scene);
  const schema = { type: 'object', properties: { prompt: { type: 'string' } } };
  const ask: SceneTool['run'] = async ({ prompt }) => {
    const { messages } = await helper.invoke({ messages: [{ role: 'user', content: prompt }] });
    return messages.at(-1)?.content;
  };
  const tools = [{ name: 'helper', description: 'Helps', schema, run: ask }];
  return langgraph(await loop({ ...scene, tools }));
}

async function loop({ url, tools, output }: Scene, options?: JsonObject): Promise<Compiled> {
  const graph = await load<Lib>('@langchain/langgraph');
  const { ToolNode } = await load<{ ToolNode: new (tools: readonly unknown[]) => unknown }>(
    '@langchain/langgraph/prebuilt',
  );
  const { tool } = await load<{
    tool: (run: unknown, definition: JsonObject) => unknown;
  }>('@langchain/core/tools');
  const made = tools.map(({ name, description, schema, ...rest }) =>
    tool(running(graph, rest), { name, description, schema }),
  );
  const model = (await chatModel(url)).bindTools(made);
  const { START, END } = graph;
  const state = graph.Annotation.Root({
    ...graph.MessagesAnnotation.spec,
    structuredResponse: graph.Annotation(),
  });
  return new graph.StateGraph(state)
    .addNode('agent', async ({ messages }: State) => ({ messages: [await model.invoke(messages)] }))
    .addNode('tools', new ToolNode(made))
    .addNode('respond', ({ messages }: State) => ({
      ...(output && { structuredResponse: JSON.parse(messages.at(-1)?.content ?? '') as unknown }),
    }))
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', ({ messages }) =>
      messages.at(-1)?.tool_calls?.length ? 'tools' : 'respond',
    )
    .addEdge('tools', 'agent')
    .addEdge('respond', END)
    .compile(options);
}

const running =
  ({ interrupt }: Lib, { approval, run }: Pick<SceneTool, 'approval' | 'run'>) =>
  async (args: JsonObject, { signal }: { readonly signal?: AbortSignal }): Promise<unknown> => {
    if (approval && interrupt({ args }) !== true) throw new Error('it was not allowed');
    return run(args, signal);
  };

/** What the adapter itself yields, before the laws tidy it up. */
const raw = (agent: Agent): Promise<AgentEvent[]> => all(agent(turnOf('m1'), contextFor().ctx));

suite('langgraph', lib.reason, () => {
  adapterContract('LangGraph', {
    build,
    gaps: { 'mcp error': 'its MCP adapter throws, and any other result is words' },
    subAgent: { build: asking },
  });

  /** Runs a graph whose checkpoints are in the log, and kills its replica at the given entry. */
  async function playKilled(kills: (entry: Entry) => boolean): Promise<{
    readonly entries: readonly Entry[];
    readonly bodies: readonly string[];
    readonly effects: readonly string[];
  }> {
    const { MemorySaver } = await load<Lib>('@langchain/langgraph');
    const replies: readonly ModelReply[] = [
      { text: 'I add. ', tools: [{ id: 'call_0_a', name: 'add', input: { a: 1 } }] },
      { tools: [{ id: 'call_1_a', name: 'guarded', input: { a: 2 } }] },
      { tools: [{ id: 'call_2_a', name: 'add', input: { a: 3 } }] },
      { text: 'Done.' },
    ];
    await using model = await startModelServer(({ body }) => {
      const text = JSON.stringify(body);
      return replies.find((_, index) => !text.includes(`call_${index}_a`)) ?? { status: 400 };
    });
    const effects: string[] = [];
    const make = (name: string): SceneTool => ({
      name,
      description: name,
      schema: { type: 'object', properties: { a: { type: 'number' } } },
      approval: name === 'guarded',
      run: async ({ a }) => {
        effects.push(`${name} ${String(a)}`);
        return `result ${String(a)}`;
      },
    });
    const agent = async (): Promise<Agent> => {
      const graph = await loop({ url: model.url, tools: [make('add'), make('guarded')] });
      const checkpoints = new MemorySaver() as CheckpointSaver;
      return langgraph(graph, { checkpoints });
    };
    await using world = new World(memoryDatabase());
    const [first, second, reader] = [world.replica(MORTAL), world.replica(), world.replica()];
    const people = reader.runner({}, { maxRuns: 0 });
    const turn = { ...turnOf('m1'), agent: 'a' };
    const others = { a: await agent() };
    await first.runner({ a: await agent() }).submit(turn);
    const entries: Entry[] = [];
    let isKilled = false;
    for await (const entry of reader.log.read(turn.task, 0)) {
      entries.push(entry);
      if (!isKilled && kills(entry)) {
        isKilled = true;
        first.kill();
        second.runner(others);
      }
      if (entry.type !== 'input.required') continue;
      const answers = [{ id: entry.request.id, action: 'accept' } as const];
      await people.submit({ ...turn, messageId: `answer ${entry.seq}`, parts: [], answers });
    }
    return { entries, effects, bodies: model.calls.map(({ body }) => JSON.stringify(body)) };
  }

  test('with checkpoints in the log, a graph without its own continues on another replica', async () => {
    const whole = await playKilled(() => false);
    expect(whole.effects).toEqual(['add 1', 'guarded 2', 'add 3']);
    expect(whole.entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'I add. Done.' });
    const moved = await playKilled(({ type }) => type === 'input.required');
    expect(moved.entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'I add. Done.' });
    expect(moved.effects).toEqual(whole.effects);
    expect(moved.bodies).toEqual(whole.bodies);
  });

  test('killed after any event, no node that had finished runs again', async () => {
    const whole = await playKilled(() => false);
    const stride = process.env['DUOLANE_KILL_EVERYWHERE'] === '1' ? 1 : 5;
    for (let killAt = 2; killAt < whole.entries.length; killAt += stride) {
      const moved = await playKilled(({ seq }) => seq === killAt);
      const where = `killed after entry ${killAt}`;
      expect(checkLaws(moved.entries), where).toEqual([]);
      const end = { outcome: 'completed', text: 'I add. Done.' };
      expect(moved.entries.at(-1), where).toMatchObject(end);
      expect(new Set(moved.bodies), where).toEqual(new Set(whole.bodies));
      expect(moved.bodies.length, where).toBeLessThanOrEqual(whole.bodies.length + 1);
      expect(new Set(moved.effects), where).toEqual(new Set(whole.effects));
      expect(moved.effects.length, where).toBeLessThanOrEqual(whole.effects.length + 1);
    }
  });

  test('a checkpoint is stored after what it has was shown, and an end of a call after its result', async () => {
    const { MemorySaver } = await load<Lib>('@langchain/langgraph');
    await using model = await startModelServer([
      { text: 'I add. ', tools: [{ id: 'call_0_a', name: 'add', input: { a: 1 } }] },
      { text: 'Done.' },
    ]);
    const schema = { type: 'object', properties: { a: { type: 'number' } } };
    const add: SceneTool = { name: 'add', description: 'Adds', schema, run: async () => 'sum: 1' };
    const graph = await loop({ url: model.url, tools: [add] });
    const events: AgentEvent[] = [];
    const shownAt = new Map<string, string>();
    const storage: AgentStorage = {
      async set(values) {
        const shown = events
          .map((event) =>
            'delta' in event && event.type === 'text.delta' ? event.delta : event.type,
          )
          .join();
        for (const text of ['I add. ', 'sum: 1'])
          if (JSON.stringify(values).includes(text) && !shownAt.has(text)) shownAt.set(text, shown);
      },
      async *list() {},
    };
    const agent = langgraph(graph, { checkpoints: new MemorySaver() as CheckpointSaver });
    // A reader that is slower than the graph.
    for await (const event of agent(turnOf('m1'), { ...contextFor().ctx, storage })) {
      await sleep(5);
      events.push(event);
    }
    expect(shownAt.get('I add. ')).toContain('I ,add. ');
    expect(shownAt.get('sum: 1')).toContain('tool.called');
    expect(shownAt.get('sum: 1')).not.toContain('tool.completed');
    expect(events.map(({ type }) => type)).toContain('tool.completed');
  });

  verifies(
    ['S155', 'S157', 'S158'],
    'mode messages: a word when it starts, then every token once, and no empty chunk',
    async () => {
      await using model = await startModelServer([{ text: ['to', 'ken', ' by token'] }]);
      const events = await raw(await build({ url: model.url, tools: [] }));
      expect(events[0]).toEqual({ type: 'status', message: 'Running graph...' });
      const deltas = only(events, 'text.delta').map(({ delta }) => delta);
      expect(deltas).toEqual(['to', 'ken', ' by token']);
    },
  );

  verifies(
    ['S157', 'S159', 'S160'],
    'served: a word at the start, previews by the rule, the artifact result, then completed',
    async () => {
      const text = Array.from({ length: 30 }, (_, i) => `${String(i).padStart(19, '.')} `);
      await using model = await startModelServer([{ text, pieceDelayMs: 2 }]);
      const agent = await build({ url: model.url, tools: [] });
      const options = { artifact: 'result', preview: 'head120', log: memoryLog() } as const;
      await using served = await toA2A(agent, options);
      const events = await all(new Caller(served.url).say('hi'));
      expect(statusesIn(events)[0]).toBe('Running graph...');
      const seen = events.map(({ result }) => result);
      const said = JSON.stringify(seen);
      const whole = text.join('');
      expect(said).toContain(`"text":"${whole.slice(0, 120)}..."`);
      expect(seen.at(-2)).toMatchObject({
        artifactUpdate: {
          lastChunk: true,
          artifact: {
            name: 'result',
            artifactId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
          },
        },
      });
      expect(seen.at(-1)).toMatchObject({
        statusUpdate: {
          status: { state: 'TASK_STATE_COMPLETED', message: { parts: [{ text: whole }] } },
        },
      });
    },
  );

  verifies('S156', 'mode updates: one status per finished node, then the state', async () => {
    const { StateGraph, Annotation, START, END } = await load<Lib>('@langchain/langgraph');
    const state = Annotation.Root({ topic: Annotation(), outline: Annotation() });
    const graph = new StateGraph(state)
      .addNode('choose', () => ({ topic: 'moon' }))
      .addNode('write', ({ topic }: { readonly topic: string }) => ({ outline: `on the ${topic}` }))
      .addEdge(START, 'choose')
      .addEdge('choose', 'write')
      .addEdge('write', END)
      .compile();
    const agent = langgraph(graph, {
      mode: 'updates',
      input: () => ({ topic: '' }),
      say: (_node, { outline }) => (typeof outline === 'string' ? outline : undefined),
    });
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(only(events, 'status').map(({ message }) => message)).toEqual([
      'Running graph...',
      'choose',
      'write',
    ]);
    expect(events.at(-1)).toMatchObject({
      outcome: 'completed',
      text: 'on the moon',
      output: { topic: 'moon', outline: 'on the moon' },
    });
  });

  test('text of a subgraph belongs to a sub-agent, text of the graph to the run', async () => {
    const { StateGraph, MessagesAnnotation, START, END } = await load<Lib>('@langchain/langgraph');
    await using server = await startModelServer([{ text: 'Found it.' }]);
    const model = await chatModel(server.url);
    const inner = new StateGraph(MessagesAnnotation)
      .addNode('search', async ({ messages }: State) => ({
        messages: [await model.invoke(messages)],
      }))
      .addEdge(START, 'search')
      .addEdge('search', END)
      .compile();
    const outer = new StateGraph(MessagesAnnotation)
      .addNode('researcher', inner)
      .addEdge(START, 'researcher')
      .addEdge('researcher', END)
      .compile();
    const events = await all(normalizeAgent(langgraph(outer))(turnOf('m1'), contextFor().ctx));
    const inside = only(events, 'text.delta').filter(({ path }) => path?.[0] === 'researcher');
    expect(inside.map(({ delta }) => delta).join('')).toBe('Found it.');
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'Found it.' });
  });

  test.each([
    ['accepted', { action: 'accept', content: 'in red' }, 'in red'],
    ['accepted without words', { action: 'accept' }, true],
    ['declined, with a reason', { action: 'decline', content: 'it is late' }, false],
    ['cancelled', { action: 'cancel' }, false],
  ] as const)('what interrupt() gives back when it is %s', async (_how, answer, expected) => {
    const lib = await load<Lib>('@langchain/langgraph');
    const { StateGraph, Annotation, MemorySaver, START, END } = lib;
    let got: unknown = 'nothing';
    const graph = new StateGraph(Annotation.Root({ topic: Annotation() }))
      .addNode('ask', () => {
        got = lib.interrupt('Paint it?');
        return { topic: 'paint' };
      })
      .addEdge(START, 'ask')
      .addEdge('ask', END)
      .compile({ checkpointer: new MemorySaver() });
    const agent = langgraph(graph, { mode: 'updates', input: () => ({ topic: '' }) });
    const { ctx } = contextFor();
    const asked = { ...ctx, ask: async ({ id }: { readonly id: string }) => ({ id, ...answer }) };
    await all(normalizeAgent(agent)(turnOf('m1'), asked));
    expect(got).toBe(expected);
  });

  test.each([
    ['in one run', 600_000],
    ['after a suspension', 0],
  ])('each interrupt() of a node is a question of its own, %s', async (_when, suspendAfterMs) => {
    const { StateGraph, Annotation, MemorySaver, START, END, interrupt } =
      await load<Lib>('@langchain/langgraph');
    for (const questions of [
      ['Delete a?', 'Delete b?'],
      ['Go on?', 'Go on?'],
    ]) {
      let got: unknown;
      const graph = new StateGraph(Annotation.Root({ topic: Annotation() }))
        .addNode('ask', () => {
          got = questions.map((question) => interrupt(question));
          return { topic: 'paint' };
        })
        .addEdge(START, 'ask')
        .addEdge('ask', END)
        .compile({ checkpointer: new MemorySaver() });
      const agent = langgraph(graph, { mode: 'updates', input: () => ({ topic: '' }) });
      const asked = await answerEach(agent, ['accept', 'decline'], { suspendAfterMs });
      expect(asked).toEqual(questions);
      expect(got).toEqual([true, false]);
    }
  });

  test('a checkpointer continues the conversation of a context', async () => {
    await using model = await startModelServer([{ text: 'Hello Ada.' }, { text: 'Ada.' }]);
    const agent = await build({ url: model.url, tools: [] });
    const say = (words: string, messageId: string): Promise<AgentEvent[]> =>
      all(normalizeAgent(agent)(turnOf(messageId, { parts: [{ text: words }] }), contextFor().ctx));
    await say('I am Ada.', 'm1');
    await say('Who am I?', 'm2');
    const seen = JSON.stringify(model.calls[1]?.body['messages']);
    for (const words of ['I am Ada.', 'Hello Ada.', 'Who am I?']) expect(seen).toContain(words);
  });
});

suite('langgraph', lib.reason, () => {
  test.each([
    ['owner', { bearer: { ada: 'ada', bob: 'bob' } }],
    ['tenant', undefined],
  ])('the memory of a graph is for one %s alone, whatever context others name', async (_, auth) => {
    const graph = await load<Lib>('@langchain/langgraph');
    const remembers = new graph.StateGraph(graph.MessagesAnnotation)
      .addNode('answer', ({ messages }: State) => ({
        messages: [{ role: 'assistant', content: JSON.stringify(messages) }],
      }))
      .addEdge(graph.START, 'answer')
      .addEdge('answer', graph.END)
      .compile({ checkpointer: new graph.MemorySaver() });
    const say = (_node: string, { messages }: JsonObject): string => JSON.stringify(messages);
    const agent = langgraph(remembers, { mode: 'updates', say });
    await using served = await serve(agent, {
      log: memoryLog(),
      page: false,
      ...(auth && { auth }),
    });
    const send = async (caller: string, words: string): Promise<string> => {
      const response = await fetch(
        `${served.url}/a2a/agent/${auth ? '' : `${caller}/`}message:send`,
        {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${caller}` },
          body: JSON.stringify({
            message: {
              messageId: words,
              contextId: 'main',
              role: 'ROLE_USER',
              parts: [{ text: words }],
            },
          }),
        },
      );
      return response.text();
    };
    await send('ada', 'the code is 4711');
    expect(await send('ada', 'which code?')).toContain('4711');
    expect(await send('bob', 'what did I say?')).not.toContain('4711');
  });
});
