import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { probe } from '../../src/cli/commands/doctor/probe-server.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

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
  agentCardHandler(options: unknown): unknown;
  UserBuilder: { noAuthentication: unknown };
}
type App = RequestListener & {
  use(path: string, handler: unknown): void;
  listen(port: number, host: string): Server;
};

type Place = Readonly<Record<'taskId' | 'contextId' | 'userMessage', unknown>>;

/** Says ten words; `final: false` forgets the end, as many executors do. */
const executor = (
  { AgentEvent }: ServerModule,
  { final }: { readonly final: boolean },
): unknown => ({
  async execute({ taskId, contextId, userMessage }: Place, bus: Bus) {
    const place = { taskId, contextId };
    const status = (state: number): unknown => ({ state, timestamp: new Date().toISOString() });
    const first = {
      id: taskId,
      contextId,
      status: status(1),
      history: [userMessage],
      artifacts: [],
    };
    bus.publish(AgentEvent.task(first));
    bus.publish(AgentEvent.statusUpdate({ ...place, status: status(2) }));
    for (let n = 0; n < 10; n++) {
      const parts = [{ content: { $case: 'text', value: `w${n} ` }, mediaType: 'text/plain' }];
      const artifact = { artifactId: 'a', name: 'out', parts };
      bus.publish(AgentEvent.artifactUpdate({ ...place, artifact, append: n > 0 }));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    if (final) bus.publish(AgentEvent.statusUpdate({ ...place, status: status(3) }));
    bus.finished();
  },
  async cancelTask() {},
});

async function official(version: string, options: { readonly final: boolean }): Promise<Server> {
  const module = (await sdk.import('@a2a-js/sdk/server')) as unknown as ServerModule;
  const web = (await sdk.import('@a2a-js/sdk/server/express')) as unknown as ExpressModule;
  const { default: express } = (await sdk.import('express')) as { default: () => App };
  const app = express();
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const card = {
    name: 'official',
    description: 'counts',
    version: '1',
    supportedInterfaces: [
      { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: version, tenant: '' },
    ],
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
    executor(module, options),
  );
  const userBuilder = web.UserBuilder.noAuthentication;
  const legacyCompat = { enabled: true };
  app.use(
    '/.well-known/agent-card.json',
    web.agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }),
  );
  app.use('/rpc', web.jsonRpcHandler({ requestHandler, userBuilder, legacyCompat }));
  return server;
}

suite('a2a-sdk', sdk.reason, () => {
  async function rulesOf(version: string, options = { final: true }): Promise<string[]> {
    const server = await official(version, options);
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const { findings } = await probe(url, {
        message: 'count',
        headers: {},
        timeoutMs: 20_000,
        signal: new AbortController().signal,
      });
      return findings.filter(({ severity }) => severity === 'error').map(({ rule }) => rule);
    } finally {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
  }

  test.each(['1.0', '0.3'])(
    'a sound agent on the official server, %s, breaks no rule',
    async (version) => {
      expect(await rulesOf(version)).toEqual([]);
    },
  );

  test('an executor that forgets its end is found there', async () => {
    expect(await rulesOf('1.0', { final: false })).toContain('stream-no-final');
  });
});
