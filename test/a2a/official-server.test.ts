import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectA2A, type A2AStreamEvent } from '../../src/a2a/index.ts';
import { nodeHandler } from '../../src/http/index.ts';
import { peer } from '../peers.ts';
import { suite, verifies } from '../verifies.ts';
import { openProxy, type Proxy } from './proxy.ts';
import { mountAgent } from './support.ts';

const sdk = await peer('a2a-sdk');

interface Bus {
  publish(event: unknown): void;
  finished(): void;
}
interface ServerModule {
  AgentEvent: Record<'task' | 'statusUpdate' | 'artifactUpdate', (data: unknown) => unknown>;
  DefaultRequestHandler: new (...parts: unknown[]) => unknown;
  InMemoryTaskStore: new () => unknown;
}
interface ExpressModule {
  jsonRpcHandler(options: unknown): unknown;
  restHandler(options: unknown): unknown;
  agentCardHandler(options: unknown): unknown;
  UserBuilder: { noAuthentication: unknown };
}
interface GrpcModules {
  grpcService: (options: unknown) => unknown;
  A2AService: unknown;
  legacyGrpcService: (options: unknown) => unknown;
  LegacyA2AService: unknown;
}
interface GrpcServer {
  addService(service: unknown, implementation: unknown): void;
  bindAsync(at: string, credentials: unknown, bound: (error: unknown, port: number) => void): void;
  forceShutdown(): void;
}
interface GrpcJs {
  Server: new () => GrpcServer;
  ServerCredentials: { createInsecure(): unknown };
}
type App = RequestListener & {
  use(path: string, handler: unknown): void;
  listen(port: number, host: string): Server;
};

const [SUBMITTED, WORKING, COMPLETED, CANCELED] = [1, 2, 3, 5];

/** An executor of the official SDK: says N words, a millisecond or two apart. */
function executor({ AgentEvent }: ServerModule): unknown {
  const canceled = new Set<string>();
  const statusOf = (state: number): unknown => ({ state, timestamp: new Date().toISOString() });
  return {
    async execute(
      { taskId, contextId, userMessage }: Record<'taskId' | 'contextId' | 'userMessage', never>,
      bus: Bus,
    ): Promise<void> {
      const [, count] = /"value":"(\d+)"/.exec(JSON.stringify(userMessage)) ?? [];
      const place = { taskId, contextId };
      const say = (state: number): void =>
        bus.publish(AgentEvent.statusUpdate({ ...place, status: statusOf(state) }));
      const status = statusOf(SUBMITTED as number);
      bus.publish(
        AgentEvent.task({ id: taskId, contextId, status, history: [userMessage], artifacts: [] }),
      );
      say(WORKING as number);
      for (let n = 0; n < Number(count) && !canceled.has(taskId); n++) {
        const content = { $case: 'text', value: `w${n} ` };
        const parts = [{ content, mediaType: 'text/plain', filename: '' }];
        const artifact = { artifactId: 'a', name: 'out', description: '', parts, extensions: [] };
        const update = { ...place, artifact, append: n > 0, lastChunk: false };
        bus.publish(AgentEvent.artifactUpdate(update));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      say((canceled.has(taskId) ? CANCELED : COMPLETED) as number);
      bus.finished();
    },
    async cancelTask(taskId: string): Promise<void> {
      canceled.add(taskId);
    },
  };
}

/** The official server of both versions over gRPC: its port, and how to end it. */
async function openGrpc(
  requestHandler: (port: number) => unknown,
): Promise<{ readonly port: number; readonly close: () => void }> {
  const grpc = (await sdk.import('@grpc/grpc-js')) as unknown as GrpcJs;
  const { grpcService, A2AService, legacyGrpcService, LegacyA2AService } = {
    ...(await sdk.import('@a2a-js/sdk/server/grpc')),
    ...(await sdk.import('@a2a-js/sdk/compat/v0_3/server/grpc')),
  } as unknown as GrpcModules;
  const { UserBuilder } = (await sdk.import('@a2a-js/sdk/server/grpc')) as unknown as ExpressModule;
  const server = new grpc.Server();
  const handler: { current?: unknown } = {};
  const options = {
    get requestHandler() {
      return handler.current;
    },
    userBuilder: UserBuilder.noAuthentication,
  };
  const port = await new Promise<number>((resolve, reject) => {
    const credentials = grpc.ServerCredentials.createInsecure();
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) =>
      error ? reject(error as Error) : resolve(bound),
    );
  });
  handler.current = requestHandler(port);
  server.addService(A2AService, grpcService(options));
  server.addService(LegacyA2AService, legacyGrpcService(options));
  return { port, close: () => server.forceShutdown() };
}

suite('a2a-sdk', sdk.reason, () => {
  let server: Server;
  let proxy: Proxy;
  let closeGrpc = (): void => {};
  /** Of its card; the official server looks there before it streams. */
  const capabilities = { streaming: true, pushNotifications: true, extensions: [] };
  beforeAll(async () => {
    const module = (await sdk.import('@a2a-js/sdk/server')) as unknown as ServerModule;
    const web = (await sdk.import('@a2a-js/sdk/server/express')) as unknown as ExpressModule;
    const { default: express } = (await sdk.import('express')) as { default: () => App };
    proxy = await openProxy();
    const interfaces = (port: number): unknown[] =>
      ['1.0', '0.3'].flatMap((protocolVersion) => [
        { url: `${proxy.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion, tenant: '' },
        { url: `${proxy.url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion, tenant: '' },
        { url: `127.0.0.1:${port}`, protocolBinding: 'GRPC', protocolVersion, tenant: '' },
      ]);
    const cardOf = (port: number): unknown => ({
      name: 'official',
      description: 'counts',
      version: '1',
      supportedInterfaces: interfaces(port),
      capabilities,
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
      securitySchemes: {},
      securityRequirements: [],
      signatures: [],
    });
    let requestHandler: unknown;
    const { close } = await openGrpc(
      (port) =>
        (requestHandler = new module.DefaultRequestHandler(
          cardOf(port),
          new module.InMemoryTaskStore(),
          executor(module),
          undefined,
          undefined,
          { send: async () => {} }, // the default sender logs every notification
        )),
    );
    closeGrpc = close;
    const options = {
      requestHandler,
      userBuilder: web.UserBuilder.noAuthentication,
      legacyCompat: { enabled: true },
    };
    const app = express();
    app.use(
      '/.well-known/agent-card.json',
      web.agentCardHandler({ agentCardProvider: requestHandler, legacyCompat: { enabled: true } }),
    );
    app.use('/rpc', web.jsonRpcHandler(options));
    app.use('/rest', web.restHandler(options));
    server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    proxy.target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await proxy[Symbol.asyncDispose]();
    closeGrpc();
    server.closeAllConnections();
    server.close();
  });

  for (const version of ['1.0', '0.3'] as const)
    for (const binding of ['JSONRPC', 'HTTP+JSON', 'GRPC'] as const) {
      verifies(
        ['S131', 'S146'],
        `our client reads the official server ${version} over ${binding}, also after a lost connection`,
        async () => {
          await using client = await connectA2A(proxy.url, { version, binding });
          // gRPC goes past this wire; how it breaks is a matter of its own tests.
          proxy.cutAfter = binding === 'GRPC' ? undefined : 12;
          const stream = client.stream('40', { retryMs: 1 });
          await stream.result();
          expect(proxy.cutAfter).toBeUndefined();
          expect(stream.text).toBe(Array.from({ length: 40 }, (_, n) => `w${n} `).join(''));
          expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
          expect(stream.problems).toEqual([]);
          const task = await client.get(stream.taskId!);
          expect(task.status.state).toBe('TASK_STATE_COMPLETED');
        },
      );

      test(`our client polls it if it does not stream (${version} ${binding})`, async () => {
        capabilities.streaming = false;
        try {
          await using client = await connectA2A(proxy.url, { version, binding });
          for (const returnImmediately of [false, true]) {
            const stream = client.stream('20', { retryMs: 1, returnImmediately });
            const events: A2AStreamEvent[] = [];
            for await (const event of stream) events.push(event);
            expect(stream.text).toBe(Array.from({ length: 20 }, (_, n) => `w${n} `).join(''));
            expect(events[0]).toHaveProperty('task');
            expect(events.at(-1)).toMatchObject({
              statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } },
            });
            expect(stream.problems.map(({ kind }) => kind)).toEqual(['no-streaming']);
          }
        } finally {
          capabilities.streaming = true;
        }
      });

      verifies(
        'S134',
        `our client manages push configs there (${version} ${binding})`,
        async () => {
          await using client = await connectA2A(proxy.url, { version, binding });
          const stream = client.stream('2000', { retryMs: 1 });
          for await (const event of stream) if ('artifactUpdate' in event) break;
          const task = stream.taskId!;
          const url = 'https://example.com/hook';
          const made = await client.createPushConfig(task, { id: 'c', url, token: 'secret' });
          expect(made).toMatchObject({ id: 'c', taskId: task, url, token: 'secret' });
          expect(await client.getPushConfig(task, 'c')).toMatchObject({ id: 'c', url });
          expect(await client.listPushConfigs(task)).toMatchObject([
            { id: 'c', taskId: task, url },
          ]);
          await client.deletePushConfig(task, 'c');
          expect(await client.listPushConfigs(task)).toEqual([]);
          await client.cancel(task);
        },
      );

      verifies('S175', `our client cancels its tasks (${version} ${binding})`, async () => {
        await using client = await connectA2A(proxy.url, { version, binding });
        const stream = client.stream('2000', { retryMs: 1 });
        let canceled: Promise<unknown> | undefined;
        for await (const event of stream)
          if ('artifactUpdate' in event) canceled ??= stream.cancel();
        await canceled;
        expect(stream.status?.state).toBe('TASK_STATE_CANCELED');
      });
    }

  verifies('S122', 'our server is mounted in Express, beside other routes', async () => {
    const { default: express } = (await sdk.import('express')) as { default: () => App };
    await using mounted = mountAgent('http://127.0.0.1/agents/one');
    const app = express();
    app.use('/agents/one', nodeHandler(mounted.handle));
    const own = app.listen(0, '127.0.0.1');
    await once(own, 'listening');
    const base = `http://127.0.0.1:${(own.address() as AddressInfo).port}/agents/one`;
    const response = await fetch(`${base}/message:stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({
        message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] },
      }),
    });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(await response.text()).toContain('TASK_STATE_COMPLETED');
    own.closeAllConnections();
    own.close();
  });
});
