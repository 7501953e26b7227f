import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
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
  DefaultRequestHandler: new (card: unknown, store: unknown, executor: unknown) => unknown;
  InMemoryTaskStore: new () => unknown;
}
interface ExpressModule {
  jsonRpcHandler(options: unknown): unknown;
  restHandler(options: unknown): unknown;
  agentCardHandler(options: unknown): unknown;
  UserBuilder: { noAuthentication: unknown };
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
        const parts = [{ content: { $case: 'text', value: `w${n} ` }, mediaType: 'text/plain' }];
        const artifact = { artifactId: 'a', name: 'out', parts };
        bus.publish(AgentEvent.artifactUpdate({ ...place, artifact, append: n > 0 }));
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

suite('a2a-sdk', sdk.reason, () => {
  let server: Server;
  let proxy: Proxy;
  beforeAll(async () => {
    const module = (await sdk.import('@a2a-js/sdk/server')) as unknown as ServerModule;
    const web = (await sdk.import('@a2a-js/sdk/server/express')) as unknown as ExpressModule;
    const { default: express } = (await sdk.import('express')) as { default: () => App };
    proxy = await openProxy();
    const both = ['1.0', '0.3'].flatMap((protocolVersion) => [
      { url: `${proxy.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion, tenant: '' },
      { url: `${proxy.url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion, tenant: '' },
    ]);
    const card = {
      name: 'official',
      description: 'counts',
      version: '1',
      supportedInterfaces: both,
      capabilities: { streaming: true, pushNotifications: false, extensions: [] },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
      securitySchemes: {},
      securityRequirements: [],
      signatures: [],
    };
    const requestHandler = new module.DefaultRequestHandler(
      card,
      new module.InMemoryTaskStore(),
      executor(module),
    );
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
    server.closeAllConnections();
    server.close();
  });

  for (const version of ['1.0', '0.3'] as const)
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
      verifies(
        ['S131', 'S146'],
        `our client reads the official server ${version} over ${binding}, also over a cut wire`,
        async () => {
          const client = await connectA2A(proxy.url, { version, binding });
          proxy.cutAfter = 12;
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

      verifies('S175', `our client cancels there too (${version} ${binding})`, async () => {
        const client = await connectA2A(proxy.url, { version, binding });
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
