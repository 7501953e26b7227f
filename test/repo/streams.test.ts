import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { growingText } from '../../src/adapters/index.ts';
import { evaluate } from '../../src/eval/index.ts';
import { normalizeAgent, withRetry } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { query, startup } from '../../src/host/index.ts';
import {
  callToEnd,
  createRegistry,
  dialMessages,
  offerMessages,
  serveMessages,
  StreamingAdapter,
  tool,
} from '../../src/mcp/index.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import type { ToolSource } from '../../src/mcp/types.ts';
import { memoryTransport } from '../../src/process/index.ts';
import { serve } from '../../src/serve/index.ts';
import { untilAborted } from '../../src/stream/abort.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { abortable, Channel, keepAlive, merge } from '../../src/stream/index.ts';
import { artifactChunks, memoryLog, runSteps, withArtifactPlan } from '../../src/task/index.ts';
import type { TaskLog } from '../../src/task/types.ts';
import { readTrace } from '../../src/trace/index.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { call } from '../contracts/tool-source.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { FakeCli, playedSession } from '../support/fake-cli.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { publicLifecycle } from './public-lifecycle.ts';

/**
 * Prepares a stream that has at least one item. What it returns makes a new stream, which may be
 * read once.
 */
type OpenStream = (
  scope: Disposer,
) => (() => AsyncIterable<unknown>) | Promise<() => AsyncIterable<unknown>>;

const never = (): Promise<never> => new Promise(() => {});

const waits: Agent = async function* (_, { signal }) {
  yield { type: 'text.delta', id: 't', delta: 'x' };
  await untilAborted(signal);
};

const ofAgent =
  (agent: Agent): OpenStream =>
  () =>
  () =>
    agent(turnOf('m1'), contextFor().ctx);

async function* oneThenNothing<T>(item: T): AsyncGenerator<T, void, undefined> {
  yield item;
  await never();
}

/** Tools, resources and prompts; `wait` reports progress, then runs until it is cancelled. */
function everything(): ToolSource {
  const wait = tool('wait', 'Waits', {}, async (_, context) => {
    await context.progress(1);
    await untilAborted(context.signal);
    return 'cancelled';
  });
  const registry = createRegistry({ name: 'all', tools: [wait] });
  const items = async function* (): AsyncGenerator<never, void, undefined> {
    yield { name: 'a', uri: 'x:1', uriTemplate: 'x:{id}', text: 'b' } as never;
  };
  const list = Object.assign((): never => ({ [Symbol.asyncIterator]: items }) as never, {});
  const { info } = registry;
  return {
    info,
    listTools: (options) => registry.listTools(options),
    callTool: (each, options) => registry.callTool(each, options),
    listen: (options) => registry.listen(options),
    listResources: list,
    listResourceTemplates: list,
    listPrompts: list,
    readResource: items,
  };
}

const overMessages = async (source: ToolSource, scope: Disposer): Promise<ToolSource> => {
  const [near, far] = messagePair();
  scope.use(serveMessages(source, far));
  return scope.use(await dialMessages(near));
};

const ofSource =
  (start: (source: ToolSource) => AsyncIterable<unknown>): OpenStream =>
  async (scope) => {
    const source = await overMessages(everything(), scope);
    return () => start(source);
  };

const ofLog =
  (start: (log: TaskLog) => AsyncIterable<unknown>): OpenStream =>
  async (scope) => {
    const log = scope.use(memoryLog());
    for (const task of ['t1', 't2', 't3', 't4']) await submit(log, task);
    const { claim } = await log.submit(
      { agent: 'b', task: 'v', context: 'c', messageId: 'v', parts: [{ text: 'hi' }] },
      { worker: 'w' },
    );
    if (claim) await log.setValues(claim, [['key', 1]]);
    await log.bookmark({ task: 't1', name: 'n', after: 1, data: {} });
    return () => start(log);
  };

const submit = (log: TaskLog, task: string): Promise<unknown> =>
  log.submit({ agent: 'a', task, context: 'c', messageId: task, parts: [{ text: 'hi' }] });

const ofClient =
  (name: 'stream' | 'resume'): OpenStream =>
  async (scope) => {
    const served = scope.use(await serve(waits, { log: memoryLog(), page: false }));
    const client = scope.use(await connectA2A(served.url));
    if (name === 'stream') return () => client.stream('hello');
    const { id } = (await client.send('hello', { returnImmediately: true })) as { id: string };
    return () => client.resume(id);
  };

const message = { type: 'assistant', message: { role: 'assistant', content: [] } };

const ofSession =
  (name: 'frames' | 'messages' | 'response'): OpenStream =>
  async (scope) => {
    const { session, cli } = await playedSession();
    scope.use(session);
    for (let turn = 0; turn < 3; turn++) await session.send('go');
    return () => {
      cli.say({ ...message, uuid: randomUUID() }, cli.result());
      return session[name]();
    };
  };

const STREAMS: Readonly<Record<string, OpenStream>> = {
  'A2AClient.resume': ofClient('resume'),
  'A2AClient.stream': ofClient('stream'),
  Channel: () => () => {
    const channel = new Channel<number>();
    channel.offer(1);
    return channel;
  },
  'MessageEndpoint.outgoing': (scope) => () => {
    const registry = createRegistry({ name: 'r', tools: [] });
    const endpoint = scope.use(offerMessages(registry));
    endpoint.request('ping', {}).catch(() => {}); // the test answers nothing
    return endpoint.outgoing;
  },
  'MemoryPeer.input': () => () => {
    const { transport, peer } = memoryTransport();
    transport.write('x\n');
    return peer.input;
  },
  'Session.frames': ofSession('frames'),
  'Session.messages': ofSession('messages'),
  'Session.response': ofSession('response'),
  'SourceTasks.watch': async (scope) => {
    const log = scope.use(memoryLog());
    const options = { log, long: (): boolean => true, graceMs: 50 };
    const source = scope.use(withTasks(everything(), options));
    let task = '';
    for await (const event of source.callTool(call('wait'), { task: true }))
      if (event.type === 'task') task = event.task.taskId;
    return () => source.tasks?.watch(task) ?? oneThenNothing(1);
  },
  'StreamingAdapter.streamListPrompts': ofSource((source) =>
    new StreamingAdapter(source).streamListPrompts(),
  ),
  'StreamingAdapter.streamListResourceTemplates': ofSource((source) =>
    new StreamingAdapter(source).streamListResourceTemplates(),
  ),
  'StreamingAdapter.streamListResources': ofSource((source) =>
    new StreamingAdapter(source).streamListResources(),
  ),
  'StreamingAdapter.streamListTools': ofSource((source) =>
    new StreamingAdapter(source).streamListTools(),
  ),
  'TaskLog.bookmarks': ofLog((log) => log.bookmarks()),
  'TaskLog.claims': ofLog((log) => log.claims('w', { agents: ['a'] })),
  'TaskLog.list': ofLog((log) => log.list({})),
  'TaskLog.read': ofLog((log) => log.read('t1', 0)),
  'TaskLog.values': ofLog((log) => log.values('v', '')),
  'ToolRegistry.listen': () => {
    const registry = createRegistry({ name: 'r', tools: [] });
    return () => registry.listen();
  },
  'ToolSource.callTool': ofSource((source) => source.callTool(call('wait'))),
  'ToolSource.listPrompts': ofSource((source) => source.listPrompts!()),
  'ToolSource.listResourceTemplates': ofSource((source) => source.listResourceTemplates!()),
  'ToolSource.listResources': ofSource((source) => source.listResources!()),
  'ToolSource.listTools': ofSource((source) => source.listTools()),
  'ToolSource.listen': ofSource((source) => source.listen!()),
  'ToolSource.readResource': ofSource((source) => source.readResource!('x:1')),
  'Transport.output': (scope) => () => {
    const { transport, peer } = memoryTransport();
    scope.use(transport);
    peer.write('x\n');
    return transport.output;
  },
  'WarmQuery.query': async (scope) => {
    const warm = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const cli = new FakeCli();
        const starting = startup({ options: { transport: () => cli.transport } });
        await cli.initialize();
        cli.say(message);
        return scope.use(await starting);
      }),
    );
    return () => warm.pop()!.query('go');
  },
  abortable: () => () => abortable(oneThenNothing(1), new AbortController().signal),
  artifactChunks: () => () => artifactChunks('a', [[{ text: '1' }], [{ text: '2' }]]),
  callToEnd: ofSource((source) => callToEnd(source, call('wait'))),
  evaluate: () => () =>
    evaluate(
      async function* () {
        yield { type: 'text.delta', id: 't', delta: 'x' };
      },
      [
        { name: 'one', input: 'hello' },
        { name: 'two', input: 'hello' },
      ],
    ),
  growingText: ofAgent(growingText(() => oneThenNothing('x'))),
  keepAlive: () => () => keepAlive(oneThenNothing(1), 1_000_000, () => 0),
  merge: () => () => merge(oneThenNothing(1), oneThenNothing(2)),
  normalizeAgent: ofAgent((turn, ctx) => normalizeAgent(waits)(turn, ctx)),
  query: (scope) => () => {
    const cli = new FakeCli();
    const run = scope.use(query({ prompt: 'go', options: { transport: () => cli.transport } }));
    cli.initialize().then(
      () => cli.say(message),
      () => {}, // the query was never read, or ended before
    );
    return run;
  },
  readTrace: () => () =>
    readTrace(
      oneThenNothing(
        Buffer.from(
          '{"format":"duolane-trace","version":1}\n{"lane":"message","direction":"in","at":1,"data":{}}\n',
        ),
      ),
    ),
  runSteps: () => () => runSteps([{ name: 'one', run: never }]),
  withArtifactPlan: ofAgent(withArtifactPlan([], waits)),
  withRetry: ofAgent(withRetry(waits)),
};

/** What gives a stream and is not in the table, each with its reason. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  A2AStream: 'made by A2AClient.stream, which is in the table',
  'A2AClient.answer': 'returns what A2AClient.stream returns',
  'Blob.body': 'files and databases: test/contracts/blob-store.contract.ts',
  'GrpcSource.streamResource': 'test/mcp/grpc',
  'MessageTransport.incoming': 'the transport of the user, or of openTunnel: test/mcp/grpc',
  'SdkMcpToolDefinition.handler': 'a function of the user',
  acp: 'the contract of agents: test/adapters/acp.test.ts',
  aiSdk: 'the contract of agents: test/adapters/ai-sdk.test.ts',
  anthropic: 'the contract of agents: test/adapters/anthropic.test.ts',
  asStream: 'has one item and holds nothing',
  cli: 'the contract of agents: test/adapters/cli.test.ts',
  googleAdk: 'the contract of agents: test/peers/google-adk.peer.ts',
  langgraph: 'the contract of agents: test/adapters/langgraph.test.ts',
  mastra: 'the contract of agents: test/peers/mastra.peer.ts',
  openaiAgents: 'the contract of agents: test/peers/openai-agents.peer.ts',
  remote: 'the contract of agents: test/adapters/remote.test.ts',
};

describe('every stream of the doors', () => {
  test.each(Object.entries(STREAMS))(
    '%s: the reader breaks, throws, or never comes',
    async (_, open) => {
      await using scope = new Disposer();
      const start = await open(scope);
      let items = 0;
      for await (const item of start()) {
        expect(item).toBeDefined();
        items++;
        break;
      }
      expect(items).toBe(1);
      const error = new Error('the reader throws');
      const read = async (): Promise<void> => {
        for await (const item of start()) if (item !== undefined) throw error;
      };
      await expect(read()).rejects.toBe(error);
      const unread = start();
      expect(unread[Symbol.asyncIterator]).toBeTypeOf('function');
      await scope[Symbol.asyncDispose]();
    },
  );

  test('is in the table, or in the list of exceptions', () => {
    const { streams } = publicLifecycle();
    const known = [STREAMS, ELSEWHERE].flatMap(Object.keys);
    expect(streams.filter((name) => !known.includes(name))).toEqual([]);
    expect(known.filter((name) => !streams.includes(name))).toEqual([]);
  });
});
