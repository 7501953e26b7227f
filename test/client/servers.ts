import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { sleep, untilAborted } from '../../src/stream/abort.ts';
import { memoryLog } from '../../src/task/index.ts';
import { openProxy } from '../a2a/proxy.ts';
import { httpServer } from '../a2a/support.ts';
import type { Peer } from '../peers.ts';
import type { ScenarioServers } from './scenarios.ts';

const TOKEN = 'a-token-for-tests-0123456789';

/** An agent whose message says what to do: `count 10`, `wait`, `ask`, `artifact` or `fail`. */
const agent: Agent = async function* (turn, ctx) {
  const text = turn.parts.map((part) => ('text' in part ? part.text : '')).join('');
  const [action, count] = text.split(' ');
  if (action === 'fail') throw new Error('broken on purpose');
  if (action === 'artifact') {
    yield { type: 'artifact', artifactId: 'a', name: 'table', parts: [{ data: { rows: 2 } }] };
    return;
  }
  if (action === 'ask') {
    const id = `${turn.messageId}/city`;
    const { content } = await ctx.ask({ id, kind: 'question', message: 'Which city?' });
    yield { type: 'text.delta', id: 't', delta: `${String(content)} it is.` };
    return;
  }
  for (let n = 0; n < Number(count ?? 1); n++) {
    yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    await sleep(2, ctx.signal);
  }
  if (action === 'wait') await untilAborted(ctx.signal);
};

/** The servers of the scenarios, and a folder of pages for the browser at `control`. */
export async function openServers(
  sdk: Peer | undefined,
  pages: Readonly<Record<string, string>> = {},
): Promise<AsyncDisposable & { readonly servers: ScenarioServers }> {
  const opened: AsyncDisposable[] = [];
  const own = <T extends AsyncDisposable>(each: T): T => {
    opened.unshift(each);
    return each;
  };
  const proxies = {
    ours: own(await openProxy()),
    reference: own(await openProxy()),
  };
  const control = own(
    await httpServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
      const proxy = proxies[searchParams.get('server') === 'reference' ? 'reference' : 'ours'];
      response.setHeader('access-control-allow-origin', '*');
      if (pathname === '/cut') proxy.cutAfter = Number(searchParams.get('after'));
      if (pathname === '/cuts') response.write(String(proxy.cuts));
      const page = pages[pathname];
      if (page !== undefined) {
        const type = pathname.endsWith('.js') ? 'text/javascript' : 'text/html';
        response.setHeader('content-type', `${type}; charset=utf-8`);
        response.write(page);
      }
      const card = (url: string): string =>
        JSON.stringify({ url, preferredTransport: 'JSONRPC', protocolVersion: '0.3' });
      if (pathname.startsWith('/foreign/')) response.write(card('http://127.0.0.1:9/rpc'));
      if (pathname.startsWith('/moved/')) response.write(card(`${control.url}/elsewhere`));
      if (pathname === '/elsewhere') response.writeHead(307, { location: '/cuts' });
      response.end();
    }),
  );
  const ours = own(
    await serve(agent, {
      log: memoryLog(),
      page: false,
      logger: { debug() {}, info() {}, warn() {}, error() {} }, // a run fails on purpose
      graceMs: 200,
      publicUrl: proxies.ours.url,
      origins: [control.url],
      auth: { bearer: { ada: TOKEN } },
    }),
  );
  proxies.ours.target = ours.url;
  if (sdk) {
    const reference = await openReference(sdk, proxies.reference.url);
    own({
      async [Symbol.asyncDispose]() {
        reference.closeAllConnections();
        reference.close();
      },
    });
    const { port } = reference.address() as AddressInfo;
    proxies.reference.target = `http://127.0.0.1:${port}`;
  }
  const servers: ScenarioServers = {
    ours: proxies.ours.url,
    token: TOKEN,
    control: control.url,
    ...(sdk && { reference: proxies.reference.url }),
  };
  return {
    servers,
    async [Symbol.asyncDispose]() {
      for (const each of opened) await each[Symbol.asyncDispose]();
    },
  };
}

interface Bus {
  publish(event: unknown): void;
  finished(): void;
}
interface Sdk {
  AgentEvent: Record<'task' | 'statusUpdate' | 'artifactUpdate', (data: unknown) => unknown>;
  DefaultRequestHandler: new (...parts: unknown[]) => unknown;
  InMemoryTaskStore: new () => unknown;
  jsonRpcHandler(options: unknown): unknown;
  restHandler(options: unknown): unknown;
  agentCardHandler(options: unknown): unknown;
  UserBuilder: { noAuthentication: unknown };
}
type App = RequestListener & {
  use(path: string, handler: unknown): void;
  listen(port: number, host: string): Server;
};
interface Execution {
  readonly taskId: string;
  readonly contextId: string;
  readonly userMessage: unknown;
  readonly task?: unknown;
}

/** The states of a task in the protobuf of A2A. */
const [SUBMITTED, WORKING, COMPLETED, CANCELED, INPUT_REQUIRED] = [1, 2, 3, 5, 6] as const;

/** The same agent on the official SDK. A message to a task that waits is its answer. */
function executor({ AgentEvent }: Sdk): unknown {
  const canceled = new Set<string>();
  const part = (value: string): unknown => ({
    content: { $case: 'text', value },
    mediaType: 'text/plain',
    filename: '',
  });
  return {
    async execute({ taskId, contextId, userMessage, task }: Execution, bus: Bus): Promise<void> {
      const [, text = ''] = /"value":"([^"]*)"/.exec(JSON.stringify(userMessage)) ?? [];
      const place = { taskId, contextId };
      const status = (state: number, message?: unknown): unknown => ({
        state,
        timestamp: new Date().toISOString(),
        message,
      });
      const send = (state: number, message?: unknown): void =>
        bus.publish(AgentEvent.statusUpdate({ ...place, status: status(state, message) }));
      const write = (value: string, append: boolean): void => {
        const artifact = { artifactId: 'a', name: 'out', description: '', parts: [part(value)] };
        const update = { ...place, artifact: { ...artifact, extensions: [] } };
        bus.publish(AgentEvent.artifactUpdate({ ...update, append, lastChunk: false }));
      };
      bus.publish(
        AgentEvent.task({
          id: taskId,
          contextId,
          status: status(SUBMITTED),
          history: [userMessage],
          artifacts: [],
        }),
      );
      send(WORKING);
      const [action, count] = text.split(' ');
      if (action === 'ask') {
        const message = { messageId: 'q', role: 2, parts: [part('Which city?')], ...place };
        send(INPUT_REQUIRED, message);
        return bus.finished();
      }
      if (task) write(`${text} it is.`, false);
      const words = action === 'wait' ? Infinity : Number(count ?? 0);
      for (let n = 0; n < words && !canceled.has(taskId); n++) {
        write(`w${n} `, n > 0);
        await sleep(2);
      }
      send(canceled.has(taskId) ? CANCELED : COMPLETED);
      bus.finished();
    },
    async cancelTask(taskId: string): Promise<void> {
      canceled.add(taskId);
    },
  };
}

/** The reference server, with the cross-origin headers that its SDK leaves to the application. */
async function openReference(peer: Peer, url: string): Promise<Server> {
  const sdk = {
    ...(await peer.import('@a2a-js/sdk/server')),
    ...(await peer.import('@a2a-js/sdk/server/express')),
  } as unknown as Sdk;
  const { default: express } = (await peer.import('express')) as { default: () => App };
  const card = {
    name: 'reference',
    description: 'for tests',
    version: '1',
    supportedInterfaces: ['1.0', '0.3'].flatMap((protocolVersion) => [
      { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion, tenant: '' },
      { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion, tenant: '' },
    ]),
    capabilities: { streaming: true, pushNotifications: false, extensions: [] },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
  };
  const requestHandler = new sdk.DefaultRequestHandler(
    card,
    new sdk.InMemoryTaskStore(),
    executor(sdk),
  );
  const legacyCompat = { enabled: true };
  const userBuilder = sdk.UserBuilder.noAuthentication;
  const app = express();
  const allow: RequestListener = (request, response) => {
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('access-control-allow-headers', '*');
    response.setHeader('access-control-allow-methods', '*');
    if (request.method === 'OPTIONS') response.writeHead(204).end();
  };
  app.use('/', (...[request, response, next]: [...Parameters<RequestListener>, () => void]) => {
    allow(request, response);
    if (request.method !== 'OPTIONS') next();
  });
  const cardHandler = sdk.agentCardHandler({ agentCardProvider: requestHandler, legacyCompat });
  app.use('/.well-known/agent-card.json', cardHandler);
  app.use('/rpc', sdk.jsonRpcHandler({ requestHandler, userBuilder, legacyCompat }));
  app.use('/rest', sdk.restHandler({ requestHandler, userBuilder, legacyCompat }));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
