import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { HookDispatcher } from '../../src/agent-cli/permissions/hook-dispatcher.ts';
import { ControlLink } from '../../src/wire/control-link.ts';
import { streamWithRetry } from '../../src/agent-cli/models/retry.ts';
import type { ModelRequest } from '../../src/agent-cli/models/types.ts';
import { DuolaneError } from '../../src/errors.ts';
import { InMemorySessionStore } from '../../src/host/index.ts';
import { startSession } from '../../src/host/session/open-session.ts';
import { restoreSession } from '../../src/host/transcripts/restore-session.ts';
import { cancellableGenerator } from '../../src/stream/cancellable-generator.ts';
import { playedSession } from '../support/fake-cli.ts';
import { GrpcClient, listenGrpc, serverStream, unary } from '../../src/grpc/index.ts';
import { lightFetch } from '../../src/http/light-fetch.ts';
import { listen } from '../../src/http/node-server.ts';
import { ChangeFeed } from '../../src/mcp/sources/change-feed.ts';
import { LazyConnection } from '../../src/mcp/sources/lazy-connection.ts';
import { gateway } from '../../src/mcp/sources/gateway.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { ResumableStream } from '../../src/mcp/json-rpc/http/server/resumable-stream.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { PendingRequests } from '../../src/mcp/json-rpc/pending-requests.ts';
import { TokenSigner } from '../../src/mcp/sources/signed-token.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { CursorPages } from '../../src/mcp/sources/cursor-pages.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { ConcurrencySlots } from '../../src/mcp/registry/concurrency-slots.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { ToolSource } from '../../src/mcp/types.ts';
import { abortable, raceAbort, sleep, untilAborted, withTimeout } from '../../src/stream/abort.ts';
import { Channel } from '../../src/stream/channel.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { OverflowQueue } from '../../src/stream/overflow-queue.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { DOOR_ROWS, type Open } from './door-abortables.ts';
import { publicLifecycle } from './public-lifecycle.ts';

const TEXT = {
  encode: (value: string): Uint8Array => Buffer.from(value),
  decode: (bytes: Uint8Array): string => Buffer.from(bytes).toString(),
};
const METHOD = { path: '/s/never', request: TEXT, response: TEXT };
const NOTHING: ModelRequest = {
  model: 'm',
  system: '',
  messages: [],
  tools: [],
  maxTokens: 1,
  thinkingTokens: undefined,
  effort: undefined,
};
const never = (): Promise<never> => new Promise(() => {});

const waiting = (): ToolSource =>
  createRegistry({
    name: 'slow',
    tools: [
      tool('wait', 'Waits', {}, async (_, { signal }) => {
        await untilAborted(signal);
        return 'cancelled';
      }),
    ],
  });

const calling =
  (dial: (source: ToolSource, scope: Disposer) => ToolSource | Promise<ToolSource>): Open =>
  async (scope) => {
    const source = await dial(waiting(), scope);
    return (signal) => toArray(source.callTool(call('wait'), { signal }));
  };

const overMessages = async (source: ToolSource, scope: Disposer): Promise<ToolSource> => {
  const [near, far] = messagePair();
  scope.use(serveMessages(source, far));
  return scope.use(await dialMessages(near));
};

const endless = async function* (): AsyncGenerator<never, void, undefined> {
  await never();
};

const ROWS: Readonly<Record<string, Open>> = {
  sleep: () => (signal) => sleep(1_000_000, signal),
  raceAbort: () => (signal) => raceAbort(never(), signal),
  'raceAbort, as the cause of another error': () => (signal) =>
    raceAbort(never(), signal, (cause) => new DuolaneError('canceled', 'stopped', { cause })),
  'raceAbort, of work that fails on the same abort': () => (signal) =>
    raceAbort(rejectOnAbort(signal), signal),
  'withTimeout, of work that aborts before': () => (signal) =>
    withTimeout(rejectOnAbort(signal), 1_000_000, () => new Error('timeout')),
  abortable: () => (signal) => toArray(abortable(endless(), signal)),
  Channel: () => (signal) => toArray(new Channel({ signal })),
  OverflowQueue: () => (signal) => toArray(new OverflowQueue({ signal })),
  cancellableGenerator: () => (signal) =>
    toArray(
      cancellableGenerator({ signal }, async function* (inner) {
        await rejectOnAbort(inner);
        yield 1;
      }),
    ),
  'ControlLink.request of the CLI': () => {
    const link = new ControlLink({ side: 'agent', write: () => {}, handle: () => ({ ok: true }) });
    return (signal) => link.request({ subtype: 'x' }, { signal });
  },
  'HookDispatcher.fire': () => {
    const lane = new ControlLink({ side: 'agent', write: () => {}, handle: () => ({ ok: true }) });
    const hooks = new HookDispatcher({ lane, base: () => ({}), onFailure: () => {} });
    hooks.register({ PreToolUse: [{ hookCallbackIds: ['h'], onFailure: 'block' }] });
    return (signal) => hooks.fire('PreToolUse', {}, { signal, toolUseId: 't' });
  },
  streamWithRetry: () => (signal) =>
    toArray(
      streamWithRetry({ name: 'm', keySource: 'none', stream: endless }, NOTHING, { signal }),
    ),
  'Session.request': async (scope) => {
    const { session } = await playedSession();
    scope.use(session);
    return (signal) => session.request('mcp_status', {}, { signal });
  },
  'Session.ready': async (scope) => {
    const { session } = await playedSession();
    scope.use(session);
    return (signal) => session.ready({ signal });
  },
  'restoreSession, of a session store': () => {
    const store = Object.assign(new InMemorySessionStore(), { load: never });
    return (signal) =>
      restoreSession(store, {
        cwd: '.',
        sessionId: 's',
        timeoutMs: 1_000_000,
        env: { HOME: '/nonexistent' },
        signal,
      });
  },
  'startSession, during set-up': () => {
    const sessionStore = Object.assign(new InMemorySessionStore(), { load: never });
    return (signal) => startSession({ sessionStore, resume: 's' }, signal);
  },
  'ConcurrencySlots.take': async () => {
    const slots = new ConcurrencySlots(1);
    await slots.take(new AbortController().signal);
    return (signal) => slots.take(signal);
  },
  'CursorPages.page': (scope) => {
    const open = ({ signal }: { readonly signal?: AbortSignal }): AsyncIterable<number> =>
      abortable(endless(), signal!);
    const pages = scope.use(
      new CursorPages(open, { pageSize: 1, signer: new TokenSigner('x'), kind: 'k' }),
    );
    return (signal) => pages.page(undefined, signal);
  },
  'ChangeFeed.listen': () => (signal) => toArray(new ChangeFeed().listen({ signal })),
  'LazyConnection.open': (scope) => {
    const connection = scope.use(new LazyConnection(({ signal }) => rejectOnAbort(signal!)));
    return (signal) => connection.open({ signal });
  },
  'PendingRequests.send': () => {
    const requests = new PendingRequests({ send: async () => {} });
    return (signal) => requests.send('ping', {}, { signal });
  },
  'callTool of a registry': calling((source) => source),
  'callTool of a gateway': async (scope) => {
    const joined = scope.use(gateway({ a: waiting() }));
    const [{ name } = { name: '' }] = await toArray(joined.listTools());
    return (signal) => toArray(joined.callTool(call(name), { signal }));
  },
  'callTool over messages': calling(overMessages),
  'callTool over HTTP, sessions': calling(async (source, scope) => {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'session' }));
  }),
  'callTool over HTTP, stateless': calling(async (source, scope) => {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'stateless' }));
  }),
  'callTool over gRPC': calling(async (source, scope) => {
    const { url } = scope.use(await offerGrpc(source));
    return scope.use(await dialGrpc({ url }));
  }),
  'listen over messages': async (scope) => {
    const source = await overMessages(waiting(), scope);
    return (signal) => toArray(source.listen!({ signal }));
  },
  'dialMessages, handshake': () => (signal) => {
    const [near] = messagePair();
    return dialMessages(near, { signal });
  },
  'dialHttp, handshake': async (scope) => {
    const { url } = scope.use(await listen(never, { closeMs: 20 }));
    return (signal) => dialHttp({ url, signal });
  },
  'GrpcClient.unary': async (scope) => {
    const { url } = scope.use(await listenGrpc([unary(METHOD, never)], { closeMs: 20 }));
    const client = scope.use(new GrpcClient(url));
    return (signal) => client.unary(METHOD, 'x', { signal });
  },
  'GrpcClient.stream': async (scope) => {
    const route = serverStream(METHOD, endless);
    const { url } = scope.use(await listenGrpc([route], { closeMs: 20 }));
    const client = scope.use(new GrpcClient(url));
    return (signal) => toArray(client.stream(METHOD, { one: 'x' }, { signal }));
  },
  lightFetch: async (scope) => {
    const { url } = scope.use(await listen(never, { closeMs: 20 }));
    const fetch = lightFetch();
    scope.defer(() => fetch.close());
    return (signal) => fetch(new URL(url), { signal });
  },
  'TaskLog.read': async (scope) => {
    const log = scope.use(memoryLog());
    await log.submit({
      agent: 'a',
      task: 't',
      context: 'c',
      messageId: 'm',
      parts: [{ type: 'text', text: 'hi' }],
    } as never);
    return (signal) => toArray(log.read('t', 0, { signal } as never));
  },
};

const rejectOnAbort = (signal: AbortSignal): Promise<never> =>
  untilAborted(signal).then(() => {
    throw signal.reason;
  });

/** The rows of this file that are functions and methods of the doors. */
const COVERED: Readonly<Record<string, keyof typeof ROWS>> = {
  Channel: 'Channel',
  'Session.ready': 'Session.ready',
  'Session.request': 'Session.request',
  'ToolRegistry.listen': 'ChangeFeed.listen',
  'ToolSource.callTool': 'callTool over messages',
  'ToolSource.listen': 'listen over messages',
  abortable: 'abortable',
  dialHttp: 'dialHttp, handshake',
  dialMessages: 'dialMessages, handshake',
  sleep: 'sleep',
};

/** What takes a signal and is not in the table, each with its reason. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  A2AStream: 'made by A2AClient.stream, resume and answer, which are in the table',
  'A2AServer.card': 'the signal is that of a Request; the card is made without a wait',
  'A2AServer.handle': 'the signal is that of a Request: test/a2a/stream-slots.test.ts',
  'BlobStore.get': 'files and databases: test/contracts/blob-store.contract.ts',
  'GrpcSource.streamResource': 'test/mcp/grpc',
  'McpHandler.handle': 'the signal is that of a Request: test/mcp/http.test.ts',
  'MessageEndpoint.receive': 'never rejects: test/mcp/invariants.test.ts',
  'MessageTransport.send': 'each transport decides whether it uses the signal',
  'SdkMcpToolDefinition.handler': 'a function of the user',
  'TaskLog.append': 'the signal is that of the claim',
  'TaskLog.release': 'the signal is that of the claim',
  'TaskLog.setValues': 'the signal is that of the claim',
  acp: 'the contract of agents: test/adapters/acp.test.ts',
  aiSdk: 'the contract of agents: test/adapters/ai-sdk.test.ts',
  anthropic: 'the contract of agents: test/adapters/anthropic.test.ts',
  cli: 'the contract of agents: test/adapters/cli.test.ts',
  googleAdk: 'the contract of agents: test/peers/google-adk.peer.ts',
  langgraph: 'the contract of agents: test/adapters/langgraph.test.ts',
  listenA2A: 'the signal ends the server, as a dispose does: src/grpc/grpc.test.ts',
  mastra: 'the contract of agents: test/peers/mastra.peer.ts',
  offerGrpc: 'the signal ends the server, as a dispose does: src/grpc/grpc.test.ts',
  onAbort: 'is the listener itself: src/stream/abort.test.ts',
  openaiAgents: 'the contract of agents: test/peers/openai-agents.peer.ts',
  remote: 'the contract of agents: test/adapters/remote.test.ts',
  simulate: 'replaces the clocks of the process: src/testing/simulate.test.ts',
  remoteTools: 'handlers of tools: test/adapters/remote-tools.test.ts',
};

describe('work with a signal', () => {
  test.each(Object.entries({ ...ROWS, ...DOOR_ROWS }))(
    '%s ends with the reason of an abort before, during or after it, and removes its listener',
    async (_, open) => {
      await using scope = new Disposer();
      const start = await open(scope);
      for (const ticks of ['before', 0, 1, 2, 3, 5, 'later'] as const) {
        const controller = new AbortController();
        const reason = new Error(`aborted ${ticks}`);
        if (ticks === 'before') controller.abort(reason);
        // Some functions throw and some reject; a caller that awaits sees no difference.
        const work = (async () => start(controller.signal))();
        const ended = work.then(
          () => 'ended well',
          (error: unknown) => error,
        );
        if (ticks === 'later') await new Promise((resolve) => setTimeout(resolve, 20));
        else for (let i = 0; i < Number(ticks); i += 1) await Promise.resolve();
        controller.abort(reason);
        // An error that names what was aborted has the reason as its cause.
        const error = await ended;
        expect(error instanceof DuolaneError ? error.cause : error).toBe(reason);
        await expect.poll(() => getEventListeners(controller.signal, 'abort').length).toBe(0);
      }
      // What the work uses is disposed, and only then its signal aborts.
      const controller = new AbortController();
      const late = (async () => start(controller.signal))().then(
        () => 'ended',
        () => 'ended',
      );
      await scope[Symbol.asyncDispose]();
      controller.abort(new Error('aborted after the dispose'));
      expect(await late).toBe('ended');
      await expect.poll(() => getEventListeners(controller.signal, 'abort').length).toBe(0);
    },
  );

  test('is in the table, or in the list of exceptions, if a door has it', () => {
    const { abortables } = publicLifecycle();
    const known = [COVERED, DOOR_ROWS, ELSEWHERE].flatMap(Object.keys);
    expect(abortables.filter((name) => !known.includes(name))).toEqual([]);
    expect(known.filter((name) => !abortables.includes(name))).toEqual([]);
    expect(Object.values(COVERED).filter((row) => !(row in ROWS))).toEqual([]);
  });

  test('a reader of a resumable stream ends when aborted before, during, and when the stream ends', async () => {
    for (const when of ['before', 'during'] as const) {
      const controller = new AbortController();
      if (when === 'before') controller.abort();
      let left = 0;
      const stream = new ResumableStream();
      const read = toArray(stream.read({ signal: controller.signal, onClose: () => (left += 1) }));
      controller.abort();
      expect(await read).toEqual([]);
      expect(left).toBe(1);
    }
    const controller = new AbortController();
    const stream = new ResumableStream();
    const read = toArray(stream.read({ signal: controller.signal }));
    stream.end();
    await read;
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    controller.abort();
  });
});
