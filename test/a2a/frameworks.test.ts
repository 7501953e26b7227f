import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { connectA2A, type A2AClient } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { nodeHandler } from '../../src/http/index.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { mountAgent } from './support.ts';

const frameworks = await peer('web-frameworks');

/** The mount path of docs/guides/a2a.md. */
const PATH = '/agents/echo';
type Handle = (request: Request) => Promise<Response>;

/** Each as docs/guides/a2a.md says; an ordinary route stands beside it. */
const MOUNTS: Readonly<Record<string, (handle: Handle) => Promise<Server>>> = {
  async 'node:http'(handle) {
    const server = createServer(nodeHandler(handle)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  },
  async Express(handle) {
    type App = {
      use(path: string, handler: unknown): void;
      use(handler: unknown): void;
      listen(port: number, host: string): Server;
    };
    const { default: express } = (await frameworks.import('express')) as unknown as {
      default: (() => App) & { json(): unknown };
    };
    const app = express();
    app.use(PATH, nodeHandler(handle));
    app.use(express.json());
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  },
  async Hono(handle) {
    type App = {
      on(method: string, paths: string[], handler: (c: { req: { raw: Request } }) => unknown): void;
      fetch: unknown;
    };
    const { Hono } = (await frameworks.import('hono')) as unknown as { Hono: new () => App };
    const { serve } = (await frameworks.import('@hono/node-server')) as unknown as {
      serve: (options: unknown) => Server;
    };
    const app = new Hono();
    app.on('ALL', [PATH, `${PATH}/*`], (c) => handle(c.req.raw));
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
    if (!server.listening) await once(server, 'listening');
    return server;
  },
  async Fastify(handle) {
    type Done = (error: null) => void;
    type App = {
      register(plugin: (app: App) => Promise<void>): void;
      removeAllContentTypeParsers(): void;
      addContentTypeParser(
        type: string,
        parser: (a: unknown, b: unknown, done: Done) => void,
      ): void;
      all(
        path: string,
        handler: (
          request: { raw: IncomingMessage },
          reply: { raw: ServerResponse; hijack(): void },
        ) => void,
      ): void;
      listen(options: unknown): Promise<string>;
      server: Server;
    };
    const { default: fastify } = (await frameworks.import('fastify')) as unknown as {
      default: () => App;
    };
    const app = fastify();
    const listener = nodeHandler(handle);
    app.register(async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _body, done) => done(null));
      for (const path of [PATH, `${PATH}/*`])
        scope.all(path, (request, reply) => {
          reply.hijack();
          listener(request.raw, reply.raw);
        });
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    return app.server;
  },
};

const CHUNK = 'x'.repeat(32 * 1024);
const CHUNKS = 512;

/** Says a word, waits for the gate, says another; before it, `flood` says 16 MB. */
function gatedAgent(): { readonly agent: Agent; readonly open: () => void } {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  const agent: Agent = async function* ({ parts: [part] }) {
    if (part && 'text' in part && part.text === 'flood')
      for (let n = 0; n < CHUNKS; n++) yield { type: 'text.delta', id: `t${n}`, delta: CHUNK };
    yield { type: 'text.delta', id: 't', delta: 'before ' };
    await gate;
    yield { type: 'text.delta', id: 't', delta: 'after' };
  };
  return { agent, open };
}

/** An agent mounted in a framework, and a client of it. */
async function open(name: string, maxStreams = 100) {
  // One of them replaces the web's own classes for speed; other tests want them back.
  const { Request: OwnRequest, Response: OwnResponse } = globalThis;
  let handle: Handle = async () => new Response(null, { status: 503 });
  const server = await MOUNTS[name]!((request) => handle(request));
  const responses: ServerResponse[] = [];
  server.on('request', (_request: IncomingMessage, response: ServerResponse) => {
    responses.push(response);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`;
  const gated = gatedAgent();
  const mounted = mountAgent(url, gated.agent, { maxStreams });
  handle = mounted.handle;
  return {
    gated,
    responses,
    log: mounted.log,
    client: (options = {}): Promise<A2AClient> => connectA2A(url, options),
    async [Symbol.asyncDispose]() {
      gated.open();
      await mounted[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
      Object.assign(globalThis, { Request: OwnRequest, Response: OwnResponse });
    },
  };
}

const stateOf = async (
  { log }: Awaited<ReturnType<typeof open>>,
  task: string,
): Promise<string | undefined> => (await log.get(task))?.state;

suite('web-frameworks', frameworks.reason, () => {
  for (const name of Object.keys(MOUNTS)) {
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const)
      test(`${name} sends each event when it happens (${binding})`, async () => {
        await using host = await open(name);
        const stream = (await host.client({ binding })).stream('go');
        for await (const _ of stream) if (stream.text === 'before ') host.gated.open();
        expect(stream.text).toBe('before after');
        expect(stream.problems).toEqual([]);
      });

    test(`in ${name} a disconnect frees the slot, and the task continues`, async () => {
      await using host = await open(name, 1);
      const client = await host.client();
      const stream = client.stream('go');
      for await (const _ of stream) if (stream.text !== '') break;
      // The only place is free again as soon as the server has noticed.
      const again = client.resume(stream.taskId!, { retryMs: 10 });
      for await (const _ of again) host.gated.open();
      expect(again.text).toBe('before after');
      expect(await stateOf(host, stream.taskId!)).toBe('completed');
    });

    test(`in ${name} writes to a client that does not read are bounded`, async () => {
      await using host = await open(name);
      const stream = (await host.client()).stream('flood', {
        signal: AbortSignal.timeout(100_000),
      });
      const events = stream[Symbol.asyncIterator]();
      await events.next();
      host.gated.open();
      await expect.poll(() => stateOf(host, stream.taskId!), { timeout: 60_000 }).toBe('completed');
      const [response] = host.responses.slice(-1) as [ServerResponse];
      const held = response.writableLength + (response.socket?.writableLength ?? 0);
      expect(held).toBeLessThan(2_000_000);
      expect(response.writableFinished).toBe(false);
      while (!(await events.next()).done);
      expect(stream.text.length).toBe(CHUNK.length * CHUNKS + 'before after'.length);
    });
  }
});
