import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SdkServer } from '../../src/mcp/json-rpc/in-process.ts';
import { agentCard, type A2AClient, connectA2A, replicaFetch } from '../../src/a2a/index.ts';
import { growingText } from '../../src/adapters/index.ts';
import { connectAgent } from '../../src/client/index.ts';
import { evaluate, sendOtlp } from '../../src/eval/index.ts';
import { normalizeAgent, withRetry } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { listen } from '../../src/http/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import {
  callToEnd,
  dialInProcess,
  dialMessages,
  dialSse,
  dialStdio,
  offerMessages,
  serveMessages,
  sourcePool,
  StreamingAdapter,
} from '../../src/mcp/index.ts';
import type { ToolSource } from '../../src/mcp/types.ts';
import { untilAborted } from '../../src/stream/abort.ts';
import type { Disposer } from '../../src/stream/disposer.ts';
import { fileBlobs, memoryLog, withArtifactPlan } from '../../src/task/index.ts';
import { openLog, storeFromCalls } from '../../src/task/store/index.ts';
import type { TaskLog } from '../../src/task/types.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { turnOf } from '../support/arbitraries.ts';

/**
 * Prepares what the work needs. The work that the result begins never ends unless its signal
 * aborts.
 */
export type Open = (
  scope: Disposer,
) => ((signal: AbortSignal) => unknown) | Promise<(signal: AbortSignal) => unknown>;

const never = (): Promise<never> => new Promise(() => {});

const endlessBytes = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
  yield new Uint8Array(1);
  await never();
};

/** A server that can do everything and answers nothing. */
async function silentSource(scope: Disposer): Promise<ToolSource> {
  const [near, far] = messagePair();
  (async () => {
    for await (const _ of far.incoming) continue;
  })().catch(() => {}); // it ends with the pair
  const capabilities = {
    tools: {},
    resources: {},
    prompts: {},
    completions: {},
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  };
  const serverInfo = { name: 'silent', version: '1' };
  const initializeResult = { protocolVersion: '2026-07-28', capabilities, serverInfo };
  return scope.use(await dialMessages(near, { initializeResult, protocol: 'stateless' }));
}

const ofSource =
  (start: (source: ToolSource, signal: AbortSignal) => unknown): Open =>
  async (scope) => {
    const source = await silentSource(scope);
    return (signal) => start(source, signal);
  };

const ofTasks = (
  start: (tasks: NonNullable<ToolSource['tasks']>, signal: AbortSignal) => unknown,
): Open =>
  ofSource((source, signal) => {
    if (!source.tasks) throw new Error('the silent server has no tasks');
    return start(source.tasks, signal);
  });

const ofAdapter = (start: (adapter: StreamingAdapter, signal: AbortSignal) => unknown): Open =>
  ofSource((source, signal) => start(new StreamingAdapter(source), signal));

/** An agent card, and a server that answers nothing else. */
async function silentAgent(scope: Disposer): Promise<string> {
  let card: JsonObject = {};
  const { url } = scope.use(
    await listen(
      (request) =>
        new URL(request.url).pathname.includes('well-known')
          ? Promise.resolve(Response.json(card))
          : never(),
      { closeMs: 20 },
    ),
  );
  const description = { name: 'silent', description: 'answers nothing', skills: [] };
  const options = { url, pushNotifications: true, extendedCard: true, shape: '1.0' } as const;
  card = agentCard(description, options);
  return url;
}

const ofClient =
  (start: (client: A2AClient, signal: AbortSignal) => unknown): Open =>
  async (scope) => {
    const client = scope.use(await connectA2A(await silentAgent(scope)));
    return (signal) => start(client, signal);
  };

const silentUrl = async (scope: Disposer): Promise<string> =>
  scope.use(await listen(never, { closeMs: 20 })).url;

/** A log over a store that answers nothing. */
const ofLog =
  (start: (log: TaskLog, signal: AbortSignal) => unknown): Open =>
  (scope) => {
    const store = {
      ...storeFromCalls(never),
      announcesAll: true,
      onCommit: () => () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const log = scope.use(openLog(store));
    return (signal) => start(log, signal);
  };

/** An agent must end when its signal aborts, in any way. */
const ofAgent =
  (agent: Agent): Open =>
  () =>
  async (signal) => {
    const { ctx } = contextFor();
    await toArray(agent(turnOf('m1'), { ...ctx, signal })).catch(() => {}); // either way
    throw signal.reason;
  };

const waits: Agent = async function* (_, { signal }) {
  yield { type: 'text.delta', id: 't', delta: 'x' };
  await untilAborted(signal);
};

/** The message of a task that waits for an answer to question `q`. */
const QUESTION = { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'Which one?' }] };

const SILENT_SDK: SdkServer = { connect: async () => {}, close: async () => {} };

/** Functions and methods of the doors that take a signal, by name. */
export const DOOR_ROWS: Readonly<Record<string, Open>> = {
  'A2AClient.answer': ofClient((client, signal) =>
    toArray(
      client.answer(
        {
          id: 't',
          contextId: 'c',
          status: { state: 'TASK_STATE_INPUT_REQUIRED', message: QUESTION },
        } as never,
        [{ id: 'q', action: 'accept' }],
        { signal },
      ),
    ),
  ),
  'A2AClient.cancel': ofClient((client, signal) => client.cancel('t', { signal })),
  'A2AClient.createPushConfig': ofClient((client, signal) =>
    client.createPushConfig('t', { url: 'https://example.com' } as never, { signal }),
  ),
  'A2AClient.deletePushConfig': ofClient((client, signal) =>
    client.deletePushConfig('t', 'p', { signal }),
  ),
  'A2AClient.extendedCard': ofClient((client, signal) => client.extendedCard({ signal })),
  'A2AClient.get': ofClient((client, signal) => client.get('t', { signal })),
  'A2AClient.getPushConfig': ofClient((client, signal) =>
    client.getPushConfig('t', 'p', { signal }),
  ),
  'A2AClient.list': ofClient((client, signal) => client.list({}, { signal })),
  'A2AClient.listPushConfigs': ofClient((client, signal) =>
    client.listPushConfigs('t', { signal }),
  ),
  'A2AClient.resume': ofClient((client, signal) => toArray(client.resume('t', { signal }))),
  'A2AClient.send': ofClient((client, signal) => client.send('hello', { signal })),
  'A2AClient.stream': ofClient((client, signal) => toArray(client.stream('hello', { signal }))),
  'BlobStore.put': async () => {
    const blobs = fileBlobs({ directory: await mkdtemp(join(tmpdir(), 'duolane-blobs-')) });
    return (signal) =>
      blobs.put({ task: 't', mediaType: 'text/plain' }, endlessBytes(), { signal });
  },
  'MessageEndpoint.request': async (scope) => {
    const endpoint = scope.use(offerMessages(await silentSource(scope)));
    (async () => {
      for await (const _ of endpoint.outgoing) continue;
    })().catch(() => {}); // it ends with the endpoint
    return (signal) => endpoint.request('ping', {}, { signal });
  },
  'SourcePool.lease': (scope) => {
    const pool = scope.use(
      sourcePool({
        a: async ({ signal }: { readonly signal?: AbortSignal } = {}) => {
          await untilAborted(signal as AbortSignal);
          throw signal?.reason;
        },
      } as never),
    );
    return (signal) => pool.lease('a', { signal });
  },
  'SourceTasks.cancel': ofTasks((tasks, signal) => tasks.cancel('t', { signal })),
  'SourceTasks.get': ofTasks((tasks, signal) => tasks.get('t', { signal })),
  'SourceTasks.update': ofTasks((tasks, signal) => tasks.update('t', {}, { signal })),
  'SourceTasks.watch': ofTasks((tasks, signal) => toArray(tasks.watch('t', { signal }))),
  'StreamingAdapter.listPrompts': ofAdapter((lists, signal) => lists.listPrompts({ signal })),
  'StreamingAdapter.listResourceTemplates': ofAdapter((lists, signal) =>
    lists.listResourceTemplates({ signal }),
  ),
  'StreamingAdapter.listResources': ofAdapter((lists, signal) => lists.listResources({ signal })),
  'StreamingAdapter.listTools': ofAdapter((lists, signal) => lists.listTools({ signal })),
  'StreamingAdapter.streamListPrompts': ofAdapter((lists, signal) =>
    toArray(lists.streamListPrompts({ signal })),
  ),
  'StreamingAdapter.streamListResourceTemplates': ofAdapter((lists, signal) =>
    toArray(lists.streamListResourceTemplates({ signal })),
  ),
  'StreamingAdapter.streamListResources': ofAdapter((lists, signal) =>
    toArray(lists.streamListResources({ signal })),
  ),
  'StreamingAdapter.streamListTools': ofAdapter((lists, signal) =>
    toArray(lists.streamListTools({ signal })),
  ),
  'TaskLog.claims': (scope) => {
    const log = scope.use(memoryLog());
    return (signal) => toArray(log.claims('w', { agents: ['a'], signal }));
  },
  'TaskLog.count': ofLog((log, signal) => log.count({ signal })),
  'TaskLog.list': ofLog((log, signal) => toArray(log.list({ signal }))),
  'TaskLog.prune': ofLog((log, signal) => log.prune({ tasksEndedBefore: 1, signal })),
  'TaskLog.read': ofLog((log, signal) => toArray(log.read('t', 0, { signal }))),
  'TaskLog.values': ofLog((log, signal) => toArray(log.values('t', '', { signal }))),
  'ToolSource.complete': ofSource((source, signal) => source.complete?.({}, { signal })),
  'ToolSource.getPrompt': ofSource((source, signal) => source.getPrompt?.('p', {}, { signal })),
  'ToolSource.listPrompts': ofSource((source, signal) => toArray(source.listPrompts!({ signal }))),
  'ToolSource.listResourceTemplates': ofSource((source, signal) =>
    toArray(source.listResourceTemplates!({ signal })),
  ),
  'ToolSource.listResources': ofSource((source, signal) =>
    toArray(source.listResources!({ signal })),
  ),
  'ToolSource.listTools': ofSource((source, signal) => toArray(source.listTools({ signal }))),
  'ToolSource.readResource': ofSource((source, signal) =>
    toArray(source.readResource!('x:1', { signal })),
  ),
  callToEnd: ofSource((source, signal) => toArray(callToEnd(source, call('wait'), { signal }))),
  connectA2A: async (scope) => {
    const url = await silentUrl(scope);
    return (signal) => connectA2A(url, { signal });
  },
  connectAgent: async (scope) => {
    const url = await silentUrl(scope);
    return (signal) => connectAgent(url, { signal });
  },
  dialGrpc: async (scope) => {
    const source = await silentSource(scope);
    const { url } = scope.use(await offerGrpc(source, { closeMs: 20 }));
    return async (signal) => {
      const dialled = await dialGrpc({ url, signal });
      await toArray(dialled.listTools({ signal }));
    };
  },
  dialInProcess: () => (signal) => dialInProcess(SILENT_SDK, { signal }),
  dialSse: async (scope) => {
    const url = await silentUrl(scope);
    return (signal) => dialSse({ url, signal });
  },
  dialStdio: () => (signal) =>
    dialStdio({
      command: process.execPath,
      args: ['-e', 'process.stdin.resume()'],
      env: {},
      signal,
    }),
  evaluate: () => (signal) =>
    toArray(evaluate(waits, [{ name: 'waits', input: 'hello' }], { signal })),
  growingText: ofAgent(
    growingText(async function* (_, { signal }) {
      yield 'x';
      await untilAborted(signal);
    }),
  ),
  normalizeAgent: ofAgent((turn, ctx) => normalizeAgent(waits)(turn, ctx)),
  replicaFetch: async (scope) => {
    const url = await silentUrl(scope);
    return (signal) => replicaFetch([url])(url, { signal });
  },
  sendOtlp: async (scope) => {
    const url = await silentUrl(scope);
    return (signal) => sendOtlp(url, {}, { signal });
  },
  'serveMessages.request': async (scope) => {
    const [near, far] = messagePair();
    (async () => {
      for await (const _ of near.incoming) continue;
    })().catch(() => {}); // it ends with the pair
    const served = scope.use(serveMessages(await silentSource(scope), far));
    return (signal) => served.request('ping', {}, { signal });
  },
  withArtifactPlan: ofAgent(withArtifactPlan([], waits)),
  withRetry: ofAgent(withRetry(waits)),
};
