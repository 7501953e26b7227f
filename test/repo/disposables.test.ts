import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { a2aServer } from '../../src/a2a/server/a2a-server.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { GrpcClient, listenGrpc, unary } from '../../src/grpc/index.ts';
import { listen } from '../../src/http/node-server.ts';
import { gateway } from '../../src/mcp/sources/gateway.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp, dialSse } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { mcpHandler } from '../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { sseHandler } from '../../src/mcp/json-rpc/http/server/sse-handler.ts';
import { offerMessages } from '../../src/mcp/json-rpc/server/offer-messages.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { dialStdio, offerStdio } from '../../src/mcp/json-rpc/stdio.ts';
import { sourcePool } from '../../src/mcp/sources/source-pool.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { relaySource } from '../../src/mcp/relay/upstream.ts';
import type { MessageTransport, ToolSource } from '../../src/mcp/types.ts';
import { memoryTransport, spawnProcess } from '../../src/process/index.ts';
import { serve } from '../../src/serve/serve.ts';
import { Channel } from '../../src/stream/channel.ts';
import { InMemorySessionStore, query } from '../../src/host/index.ts';
import { customProcessTransport } from '../../src/host/launch/custom-process.ts';
import { startup } from '../../src/host/query/warm-query.ts';
import { restoreSession } from '../../src/host/transcripts/restore-session.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { OverflowQueue } from '../../src/stream/overflow-queue.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { createRunner } from '../../src/task/run/runner.ts';
import { sqliteLog } from '../../src/task/sqlite/sqlite-log.ts';
import { send } from '../support/mcp/message-endpoint.ts';
import { FakeCli, playedSession } from '../support/fake-cli.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { connectAgent } from '../../src/client/index.ts';
import { dialInProcess, type SdkServer } from '../../src/mcp/json-rpc/in-process.ts';
import { openBlobs, openTaskLog } from '../../src/serve/index.ts';
import { fileURLToPath } from 'node:url';
import { publicLifecycle } from './public-lifecycle.ts';
import { definesDispose } from './lifecycle-rules.ts';
import { readSource, sourceFiles } from '../source.ts';

/** An object to dispose, and work that uses it at that time, which must settle either way. */
interface Opened {
  readonly thing: AsyncDisposable;
  readonly work?: Promise<unknown>;
}

interface Row {
  /** The file that declares its asyncDispose. */
  readonly files: readonly string[];
  /** The functions and methods of the doors that return it. */
  readonly doors?: readonly string[];
  readonly open: (scope: Disposer) => Opened | Promise<Opened>;
}

/** Tools that run until they are cancelled; `started` resolves with the first call. */
function slowSource(): { readonly source: ToolSource; readonly started: Promise<void> } {
  let start = (): void => {};
  const started = new Promise<void>((resolve) => (start = resolve));
  const wait = tool('wait', 'Waits', {}, async (_, { signal }) => {
    start();
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    return 'cancelled';
  });
  return { source: createRegistry({ name: 'slow', tools: [wait] }), started };
}

/** A dialled source with a running call. */
async function inUse(
  dial: (source: ToolSource) => Promise<ToolSource & AsyncDisposable>,
): Promise<Opened> {
  const { source, started } = slowSource();
  const thing = await dial(source);
  const work = toArray(thing.callTool(call('wait')));
  work.catch(() => {}); // the test checks it after the disposal
  await started;
  return { thing, work };
}

/** Tools behind the transport interface of the official SDK. */
function sdkServerOf(source: ToolSource): SdkServer {
  let served: AsyncDisposable | undefined;
  return {
    async connect(transport) {
      const incoming = new Channel<JsonObject>();
      transport.onmessage = (message) => {
        incoming.push(message).catch(() => {}); // the client is gone
      };
      await transport.start();
      served = serveMessages(source, {
        incoming,
        send: (message) => transport.send(message),
        close: async () => incoming.close(),
      });
    },
    async close() {
      await served?.[Symbol.asyncDispose]();
    },
  };
}

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

const TEXT = {
  encode: (value: string): Uint8Array => Buffer.from(value),
  decode: (bytes: Uint8Array): string => Buffer.from(bytes).toString(),
};
const NEVER = { path: '/s/never', request: TEXT, response: TEXT };
const never = unary(
  NEVER,
  (_: string, { signal }) =>
    new Promise<string>((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason as Error)),
    ),
);

const ROWS: Readonly<Record<string, Row>> = {
  Channel: {
    doors: ['Channel'],
    files: ['stream/channel.ts'],
    open: () => {
      const thing = new Channel<number>({ capacity: 1 });
      return { thing, work: Promise.all([thing.push(1), thing.push(2)]) };
    },
  },
  OverflowQueue: {
    files: ['stream/overflow-queue.ts'],
    open: () => {
      const thing = new OverflowQueue<string>({ memoryBytes: 1 } as never);
      return { thing, work: toArray(thing) };
    },
  },
  Disposer: {
    files: ['stream/disposer.ts'],
    open: () => {
      const thing = new Disposer();
      thing.defer(() => new Promise(setImmediate));
      return { thing };
    },
  },
  memoryTransport: {
    doors: ['memoryTransport.transport'],
    files: ['process/memory-transport.ts'],
    open: () => {
      const { transport } = memoryTransport();
      return { thing: transport, work: toArray(transport.output) };
    },
  },
  spawnProcess: {
    doors: ['spawnProcess'],
    files: ['process/spawn.ts'],
    open: () => {
      const args = ['-e', 'process.stdin.resume()'];
      const thing = spawnProcess({ command: process.execPath, args, env: {} });
      return { thing, work: toArray(thing.output) };
    },
  },
  listen: {
    doors: ['listen'],
    files: ['http/node-server.ts'],
    open: async () => {
      const thing = await listen(() => new Promise(() => {}), { closeMs: 50 });
      return { thing, work: fetch(thing.url) };
    },
  },
  'GrpcClient, listenGrpc': {
    files: ['grpc/client.ts'],
    open: async (scope) => {
      const server = scope.use(await listenGrpc([never], { closeMs: 50 }));
      const thing = new GrpcClient(server.url);
      return { thing, work: thing.unary(NEVER, 'x') };
    },
  },
  listenGrpc: {
    files: ['grpc/server.ts'],
    open: async (scope) => {
      const thing = await listenGrpc([never], { closeMs: 50 });
      const client = scope.use(new GrpcClient(thing.url));
      return { thing, work: client.unary(NEVER, 'x') };
    },
  },
  offerMessages: {
    doors: ['offerMessages'],
    files: [
      'mcp/json-rpc/server/offer-messages.ts',
      'mcp/json-rpc/server/methods.ts',
      'mcp/json-rpc/server/resource-watch.ts',
      'mcp/json-rpc/server/task-methods.ts',
      'mcp/sources/cursor-pages.ts',
    ],
    open: async () => {
      const { source, started } = slowSource();
      const thing = offerMessages(source);
      await send(thing, 'tools/list');
      const work = send(thing, 'tools/call', { name: 'wait', arguments: {} });
      await started;
      return { thing, work };
    },
  },
  'offerMessages, relayed': {
    files: ['mcp/relay/relay-endpoint.ts', 'mcp/relay/relay-connection.ts'],
    open: async (scope) => {
      const { source, started } = slowSource();
      const connect = async (): Promise<MessageTransport> => {
        const [near, far] = messagePair();
        scope.use(serveMessages(source, far));
        return near;
      };
      const thing = offerMessages(relaySource(connect));
      await send(thing, 'initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'c', version: '1' },
      });
      const work = send(thing, 'tools/call', { name: 'wait', arguments: {} });
      await started;
      return { thing, work };
    },
  },
  serveMessages: {
    doors: ['serveMessages'],
    files: ['mcp/relay/serve-endpoint.ts'],
    open: async () => {
      const { source, started } = slowSource();
      const [near, far] = messagePair();
      const thing = serveMessages(source, far);
      const params = { name: 'wait', arguments: {} };
      await near.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      await started;
      return { thing, work: thing.done };
    },
  },
  offerStdio: {
    doors: ['offerStdio'],
    files: [],
    open: () => {
      const thing = offerStdio(slowSource().source, {
        input: new PassThrough(),
        output: new PassThrough(),
      });
      return { thing, work: thing.done };
    },
  },
  dialMessages: {
    doors: ['dialMessages'],
    files: ['mcp/json-rpc/client/mcp-client.ts', 'mcp/json-rpc/client/client-source.ts'],
    open: (scope) =>
      inUse(async (source) => {
        const [near, far] = messagePair();
        scope.use(serveMessages(source, far));
        return dialMessages(near);
      }),
  },
  mcpHandler: {
    doors: ['mcpHandler'],
    files: ['mcp/json-rpc/http/server/mcp-handler.ts', 'mcp/json-rpc/http/server/http-session.ts'],
    open: async () => {
      const { source, started } = slowSource();
      const thing = mcpHandler(source);
      const listening = await listen(thing.handle, { closeMs: 50 });
      const client = await dialHttp({ url: listening.url, protocol: 'session' });
      const work = toArray(client.callTool(call('wait')));
      work.catch(() => {}); // settled by the dispose
      await started;
      const rest = async (): Promise<void> => {
        await work.catch(() => {}); // either way
        await client[Symbol.asyncDispose]();
        await listening[Symbol.asyncDispose]();
      };
      return { thing, work: rest() };
    },
  },
  sseHandler: {
    files: ['mcp/json-rpc/http/server/sse-handler.ts'],
    open: async () => {
      const thing = sseHandler(slowSource().source);
      const response = await thing.handle(new Request('http://localhost:1/sse'));
      return { thing, work: response.text() };
    },
  },
  offerHttp: {
    doors: ['offerHttp'],
    files: ['mcp/json-rpc/http/server/offer-http.ts'],
    open: async () => ({ thing: await offerHttp(slowSource().source, { sse: '/sse' }) }),
  },
  'dialHttp, sessions': {
    doors: ['dialHttp'],
    files: [],
    open: (scope) =>
      inUse(async (source) => {
        const { url } = scope.use(await offerHttp(source));
        return dialHttp({ url, protocol: 'session' });
      }),
  },
  'dialHttp, stateless': {
    files: [],
    open: (scope) =>
      inUse(async (source) => {
        const { url } = scope.use(await offerHttp(source));
        return dialHttp({ url, protocol: 'stateless' });
      }),
  },
  dialSse: {
    doors: ['dialSse'],
    files: [],
    open: (scope) =>
      inUse(async (source) => {
        const { url } = scope.use(await offerHttp(source, { sse: '/sse' }));
        return dialSse({ url: new URL('/sse', url).href });
      }),
  },
  'dialGrpc, offerGrpc': {
    doors: ['dialGrpc', 'offerGrpc'],
    files: ['mcp/grpc/client/dial-grpc.ts'],
    open: (scope) =>
      inUse(async (source) => {
        const { url } = scope.use(await offerGrpc(source));
        return dialGrpc({ url });
      }),
  },
  gateway: {
    doors: ['gateway'],
    files: ['mcp/sources/gateway.ts', 'mcp/sources/lazy-connection.ts'],
    open: async () => {
      const { source } = slowSource();
      const thing = gateway({ a: source });
      return { thing, work: toArray(thing.listTools()) };
    },
  },
  withTasks: {
    doors: ['withTasks'],
    files: ['mcp/tasks/with-tasks.ts'],
    open: async (scope) => {
      const { source, started } = slowSource();
      const log = scope.use(memoryLog());
      const thing = withTasks(source, { log, long: () => true, graceMs: 50 });
      const call = { id: 'call', name: 'wait', args: {} };
      const work = toArray(thing.callTool(call, { task: true }));
      await started;
      return { thing, work };
    },
  },
  'sourcePool, lease': {
    doors: ['sourcePool', 'SourcePool.lease'],
    files: ['mcp/sources/source-pool.ts'],
    open: async (scope) => {
      const [near, far] = messagePair();
      scope.use(serveMessages(slowSource().source, far));
      const thing = sourcePool({ a: () => dialMessages(near) });
      const lease = await thing.lease('a');
      const back = Promise.all([lease[Symbol.asyncDispose](), lease[Symbol.asyncDispose]()]);
      return { thing, work: back };
    },
  },
  'memoryLog, createRunner': {
    doors: ['createRunner'],
    files: ['task/memory/memory-log.ts', 'task/log/task-log.ts', 'task/run/runner.ts'],
    open: (scope) => {
      const log = scope.use(memoryLog());
      return { thing: createRunner({ log, agents: { hello } }) };
    },
  },
  memoryLog: {
    doors: ['memoryLog', 'openLog', 'memoryDatabase'],
    files: ['task/log/task-log.ts'],
    open: () => ({ thing: memoryLog() }),
  },
  sqliteLog: {
    doors: ['sqliteLog', 'sqliteDatabase'],
    files: ['task/sqlite/thread-store.ts'],
    open: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'duolane-dispose-'));
      return { thing: await sqliteLog({ file: join(folder, 'tasks.sqlite') }) };
    },
  },
  a2aServer: {
    doors: ['a2aServer'],
    files: ['a2a/server/a2a-server.ts', 'a2a/push/push-configs.ts'],
    open: (scope) => {
      const log = scope.use(memoryLog());
      const runner = scope.use(createRunner({ log, agents: { hello } }));
      const description = { name: 'hello', description: '', skills: [] };
      const options = { agent: 'hello', description, url: 'http://localhost:1', runner, log };
      return { thing: a2aServer(options as never) };
    },
  },
  'serve, connectA2A': {
    doors: ['serve', 'Served.log', 'toA2A', 'connectA2A', 'A2AClient'],
    files: [
      'serve/serve.ts',
      'serve/routes/mount-agents.ts',
      'a2a/client/a2a-client.ts',
      'a2a/client/http-transport.ts',
      'a2a/client/a2a-stream.ts',
    ],
    open: async () => {
      const thing = await serve(hello, { log: memoryLog(), page: false });
      const client = await connectA2A(thing.url);
      await Promise.all([client[Symbol.asyncDispose](), client[Symbol.asyncDispose]()]);
      return { thing };
    },
  },
  openSession: {
    doors: ['openSession', 'Query.session'],
    files: [
      'host/session/agent-session.ts',
      'host/frames/frame-queue.ts',
      'host/callbacks/mcp-bridge.ts',
    ],
    open: async () => {
      const { session } = await playedSession();
      return { thing: session, work: session.done };
    },
  },
  query: {
    doors: ['query'],
    files: ['host/query/query.ts'],
    open: () => {
      const cli = new FakeCli();
      const run = query({ prompt: 'go', options: { transport: () => cli.transport } });
      return { thing: run, work: toArray(run) };
    },
  },
  'query, during set-up': {
    files: ['host/query/query.ts'],
    open: () => {
      const sessionStore = Object.assign(new InMemorySessionStore(), {
        load: () => new Promise<never>(() => {}),
      });
      const run = query({ prompt: 'go', options: { sessionStore, resume: randomUUID() } });
      return { thing: run, work: toArray(run) };
    },
  },
  startup: {
    doors: ['startup', 'WarmQuery.query'],
    files: ['host/query/warm-query.ts'],
    open: async () => {
      const cli = new FakeCli();
      const starting = startup({ options: { transport: () => cli.transport } });
      await cli.initialize();
      const warm = await starting;
      return { thing: warm, work: toArray(warm.query('go')) };
    },
  },
  spawnedTransport: {
    files: ['host/launch/custom-process.ts'],
    open: () => {
      const args = ['-e', 'process.stdin.resume()'];
      const transport = customProcessTransport(
        () => spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'ignore'] }),
        { command: 'x', args: [], env: {} },
      );
      return { thing: transport, work: toArray(transport.output) };
    },
  },
  restore: {
    files: ['host/transcripts/restore-session.ts'],
    open: async () => {
      const store = Object.assign(new InMemorySessionStore(), { load: async () => [] });
      const place = {
        cwd: '.',
        sessionId: randomUUID(),
        timeoutMs: 10_000,
        env: { HOME: '/nonexistent' },
      };
      return { thing: await restoreSession(store, place) };
    },
  },
  dialInProcess: {
    files: [],
    doors: ['dialInProcess'],
    open: async () => {
      const { source, started } = slowSource();
      const server = sdkServerOf(source);
      const thing = await dialInProcess(server);
      const work = toArray(thing.callTool(call('wait')));
      work.catch(() => {}); // the test checks it after the disposal
      await started;
      return { thing, work };
    },
  },
  dialStdio: {
    files: [],
    doors: ['dialStdio'],
    open: async () => {
      const server = fileURLToPath(new URL('../fixtures/plain-mcp-server.mjs', import.meta.url));
      const thing = await dialStdio({ command: process.execPath, args: [server], env: {} });
      return { thing, work: toArray(thing.listTools()) };
    },
  },
  'A2AStream, connectAgent': {
    files: [],
    doors: [
      'connectAgent',
      'A2AClient.stream',
      'A2AClient.resume',
      'A2AClient.answer',
      'A2AStream',
    ],
    open: async (scope) => {
      const served = scope.use(await serve(hello, { log: memoryLog(), page: false }));
      const client = scope.use(await connectAgent(served.url));
      const thing = client.stream('hello');
      return { thing, work: toArray(thing) };
    },
  },
  openTaskLog: {
    files: [],
    doors: ['openTaskLog'],
    open: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'duolane-dispose-'));
      const thing = await openTaskLog(join(folder, 'tasks.sqlite'));
      return { thing, work: toArray(thing.list({})) };
    },
  },
  openBlobs: {
    files: [],
    doors: ['openBlobs'],
    open: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'duolane-dispose-'));
      return { thing: await openBlobs(folder) };
    },
  },
};

/** Files that are not in the table, each with its reason. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'a2a/grpc/grpc-transport.ts': 'passes on to GrpcClient',
  'adapters/acp/acp-connection.ts': 'internal to one run of acp(), which disposes it once',
  'agent-cli/acp/acp-server.ts': 'internal to the CLI process, disposed by serveAcp alone',
  'agent-cli/acp/child-session.ts': 'internal to the CLI process, disposed by AcpServer alone',
  'agent-cli/session/transcript.ts': 'internal to the CLI process, disposed by Agent alone',
  'agent-cli/tools/builtin/line-search.ts': 'internal to one search; tested in search.test.ts',
  'agent-cli/tools/mcp/mcp-servers.ts': 'internal to the CLI process, disposed by Agent alone',
  'mcp/json-rpc/stdio.ts': 'starts processes: test/mcp/relay.test.ts',
  'mcp/json-rpc/http/client/dial-http.ts': 'passes on to dialMessages and HttpUpstream',
  'mcp/json-rpc/http/client/http-upstream.ts': 'passes on to HttpTransport',
  'cli/commands/demo/naive-host.ts': 'part of a demonstration',
  'cli/commands/demo/naive-server.ts': 'part of a demonstration',
  'cli/commands/demo/fault-setup.ts': 'part of a demonstration',
  'cli/agents/local-chat.ts': 'internal to a command',
  'cli/commands/bridge.ts': 'internal to a command',
  'cli/agents/remote-chat.ts': 'does nothing',
  'cli/commands/replay-page.ts': 'passes on to listen',
  'mcp/grpc/client/google-source.ts': 'passes on to GrpcClient',
  'mcp/grpc/sdk-transport.ts': 'passes on to a server object of the official SDK',
  'serve/auth/audit-log.ts': 'internal to serve(), disposed by Served alone',
  'serve/auth/stream-rights.ts': 'internal to serve(), disposed by Served alone',
  'serve/retention.ts': 'internal to serve(), disposed by Served alone',
  'serve/open-blobs.ts': 'does nothing, or passes on to postgresBlobs',
  'task/blobs/postgres-blobs.ts': 'needs a database: test/postgres/blobs.test.ts',
  'task/postgres/listen-notify-bus.ts': 'needs a database: test/postgres',
  'task/postgres/nats-bus.ts': 'needs a NATS server: test/postgres',
  'task/postgres/postgres-store.ts': 'needs a database: test/postgres',
  'task/postgres/session-store.ts': 'needs a database: test/postgres',
  'task/log/store-health.ts': 'passes on to the store',
  'testing/tasks/simulated-store.ts': 'the store of one simulation: src/testing/simulate.test.ts',
};

/** What doors return and is not in the table, each with its reason. */
const OTHER_DOORS: Readonly<Record<string, string>> = {
  'Listening.server': 'the server of Node',
  listenA2A: 'returns what listenGrpc returns, which is in the table',
  natsBus: 'needs a NATS server: test/postgres',
  postgresBlobs: 'needs a database: test/postgres',
  postgresDatabase: 'needs a database: test/postgres',
  postgresLog: 'needs a database: test/postgres',
  postgresSessionStore: 'needs a database: test/postgres',
  sdkTunnel: 'passes on to a server object of the official SDK',
};

describe('every disposable', () => {
  test.each(Object.entries(ROWS))(
    '%s: twice, at the same time, and in use',
    async (_, { open }) => {
      await using scope = new Disposer();
      const { thing, work } = await open(scope);
      const settled = work?.then(
        () => 'settled',
        () => 'settled',
      );
      await Promise.all([thing[Symbol.asyncDispose](), thing[Symbol.asyncDispose]()]);
      await thing[Symbol.asyncDispose]();
      expect(await (settled ?? 'settled')).toBe('settled');
    },
  );

  test('is in the table, or in the list of exceptions, if a door returns it', () => {
    const { disposables } = publicLifecycle();
    const known = [
      ...Object.values(ROWS).flatMap(({ doors = [] }) => doors),
      ...Object.keys(OTHER_DOORS),
    ];
    expect(disposables.filter((name) => !known.includes(name))).toEqual([]);
    expect(known.filter((name) => !disposables.includes(name))).toEqual([]);
  });

  test('is in the table, or in the list of exceptions', () => {
    const defining = sourceFiles().filter((file) => {
      const source = readSource(file);
      return source.includes('asyncDispose') && definesDispose(file, source);
    });
    const known = new Set([
      ...Object.values(ROWS).flatMap(({ files }) => files),
      ...Object.keys(ELSEWHERE),
    ]);
    expect(defining.filter((file) => !known.has(file))).toEqual([]);
    expect([...known].filter((file) => !defining.includes(file))).toEqual([]);
  });
});
