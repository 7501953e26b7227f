// The servers that `bench/a2a.ts` compares, each in a process of its own: bare | ours | memory | sdk.
import { mkdtempSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { once } from 'node:events';
import type { Agent } from '../src/event/types.ts';
import { serve } from '../src/serve/index.ts';
import { sleep } from '../src/stream/index.ts';
import { memoryLog, sqliteLog } from '../src/task/index.ts';
import { ensurePeer } from '../scripts/peers.mjs';

/** What a message asks for: so many deltas, so far apart; or to wait for a cancel. */
interface Work {
  readonly n: number;
  readonly everyMs?: number;
  readonly wait?: boolean;
}

const DELTA = 'x'.repeat(64);
const [kind = 'ours'] = process.argv.slice(2);
const url = kind === 'bare' ? await bare() : kind === 'sdk' ? await sdk() : await ours();
const loop = monitorEventLoopDelay({ resolution: 1 });
loop.enable();
process.send?.({ url });
process.on('message', (message) => {
  if (message === 'reset') loop.reset();
  globalThis.gc?.();
  const cpu = process.cpuUsage();
  process.send?.({
    rss: process.memoryUsage().rss,
    loopP99: loop.percentile(99) / 1e6,
    cpu: (cpu.user + cpu.system) / 1000,
  });
});
process.once('disconnect', () => process.exit(0));

async function ours(): Promise<string> {
  const agent: Agent = async function* (turn, ctx) {
    const [part] = turn.parts;
    const { n, everyMs = 0, wait } = JSON.parse(part && 'text' in part ? part.text : '{}') as Work;
    if (wait) await once(ctx.signal, 'abort');
    for (let i = 0; i < n; i++) {
      if (everyMs > 0) await sleep(everyMs, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: DELTA };
    }
  };
  const file = join(mkdtempSync(join(tmpdir(), 'duolane-bench-')), 'tasks.sqlite');
  const log = kind === 'memory' ? memoryLog() : await sqliteLog({ file });
  const served = await serve(agent, { log, page: false });
  return `${served.url}/a2a`;
}

/** The same events written straight to the socket, with back-pressure: no protocol, no store. */
async function bare(): Promise<string> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const { params } = JSON.parse(body) as {
      params: { message: { parts: [{ text: string }] } };
    };
    const { n, everyMs = 0 } = JSON.parse(params.message.parts[0].text) as Work;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    const place = { taskId: crypto.randomUUID(), contextId: crypto.randomUUID() };
    const timestamp = new Date().toISOString();
    const write = async (result: unknown): Promise<void> => {
      const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result });
      if (!response.write(`data: ${text}\n\n`)) await once(response, 'drain');
    };
    const say = (state: string): Promise<void> =>
      write({ statusUpdate: { ...place, status: { state, timestamp } } });
    await write({ task: { id: place.taskId, contextId: place.contextId, status: { timestamp } } });
    await say('TASK_STATE_WORKING');
    for (let i = 0; i < n; i++) {
      if (everyMs > 0) await sleep(everyMs);
      const artifact = { artifactId: 'a', name: 'out', parts: [{ text: DELTA }] };
      await write({ artifactUpdate: { ...place, artifact, append: i > 0 } });
    }
    await say('TASK_STATE_COMPLETED');
    response.end();
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

interface Bus {
  publish(event: unknown): void;
  finished(): void;
}
type Make = (data: unknown) => unknown;

/** The reference server, with its in-memory store. */
async function sdk(): Promise<string> {
  const peer = await ensurePeer('a2a-sdk');
  const { DefaultRequestHandler, InMemoryTaskStore, AgentEvent } = (await peer.import(
    '@a2a-js/sdk/server',
  )) as {
    DefaultRequestHandler: new (...args: unknown[]) => unknown;
    InMemoryTaskStore: new () => unknown;
    AgentEvent: Record<'task' | 'statusUpdate' | 'artifactUpdate', Make>;
  };
  const web = (await peer.import('@a2a-js/sdk/server/express')) as {
    jsonRpcHandler: Make;
    UserBuilder: { noAuthentication: unknown };
  };
  const { default: express } = (await peer.import('express')) as {
    default: () => { use: Make; listen(port: number, host: string): Server };
  };
  const canceled = new Set<string>();
  const executor = {
    async execute(
      { taskId, contextId, userMessage }: Record<'taskId' | 'contextId' | 'userMessage', never>,
      bus: Bus,
    ): Promise<void> {
      const place = { taskId, contextId };
      const { parts } = userMessage as { parts: [{ content: { value: string } }] };
      const { n, everyMs = 0, wait } = JSON.parse(parts[0].content.value) as Work;
      const status = (state: number): unknown => ({ state, timestamp: new Date().toISOString() });
      const task = { id: taskId, contextId, status: status(1), artifacts: [] };
      bus.publish(AgentEvent.task({ ...task, history: [userMessage] }));
      bus.publish(AgentEvent.statusUpdate({ ...place, status: status(2) }));
      while (wait && !canceled.has(taskId)) await sleep(1);
      for (let i = 0; i < n; i++) {
        await (everyMs > 0 ? sleep(everyMs) : new Promise(setImmediate));
        const artifact = {
          artifactId: 'a',
          name: 'out',
          parts: [{ content: { $case: 'text', value: DELTA } }],
        };
        bus.publish(AgentEvent.artifactUpdate({ ...place, artifact, append: i > 0 }));
      }
      bus.publish(AgentEvent.statusUpdate({ ...place, status: status(wait ? 5 : 3) }));
      bus.finished();
    },
    async cancelTask(taskId: string): Promise<void> {
      canceled.add(taskId);
    },
  };
  const card = {
    name: 'sdk',
    description: 'the reference',
    version: '1',
    supportedInterfaces: [
      { url: 'http://127.0.0.1/', protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
    ],
    capabilities: { streaming: true, pushNotifications: false, extensions: [] },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  const app = express();
  app.use(web.jsonRpcHandler({ requestHandler, userBuilder: web.UserBuilder.noAuthentication }));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
