import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { HttpTransport } from '../../src/mcp/json-rpc/http/client/http-transport.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { mcpHandler } from '../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { type DialStdioOptions, dialStdio } from '../../src/mcp/json-rpc/stdio.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { relaySource } from '../../src/mcp/relay/upstream.ts';
import type { MessageTransport, ToolSource } from '../../src/mcp/types.ts';
import { buildEnv } from '../../src/process/index.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { eventually } from '../support/busy.ts';

const SERVER = fileURLToPath(new URL('../fixtures/plain-mcp-server.mjs', import.meta.url));

const server = (options: Partial<DialStdioOptions> = {}): Promise<ToolSource & AsyncDisposable> =>
  dialStdio({ command: process.execPath, args: [SERVER], env: buildEnv(), ...options });

type Answer = (params: JsonObject) => JsonObject | Promise<JsonObject>;

/** A client that sends and records plain messages. */
class PlainClient {
  readonly received: JsonObject[] = [];
  readonly #transport: MessageTransport;
  readonly #waiting = new Map<unknown, (message: JsonObject) => void>();
  #next = 0;
  /** Answers a question: the `result` or `error` of the response. */
  answer: Answer = () => ({ result: { action: 'accept', content: {} } });

  constructor(transport: MessageTransport) {
    this.#transport = transport;
    this.#read().catch(() => {});
  }

  async #read(): Promise<void> {
    for await (const message of this.#transport.incoming) {
      const { id, method, params } = message;
      if (method === undefined) this.#waiting.get(id)?.(message);
      else this.received.push(message);
      if (method !== undefined && id !== undefined)
        Promise.resolve(this.answer((params ?? {}) as JsonObject))
          .then((body) => this.#transport.send({ jsonrpc: '2.0', id, ...body }))
          .catch(() => {});
    }
  }

  request(method: string, params?: JsonObject): Promise<JsonObject> & { readonly id: number } {
    const id = (this.#next += 1);
    const message = { jsonrpc: '2.0', id, method, ...(params && { params }) };
    const answered = new Promise<JsonObject>((resolve, reject) => {
      this.#waiting.set(id, resolve);
      this.#transport.send(message).catch(reject);
    });
    return Object.assign(answered, { id });
  }

  notify(method: string, params?: JsonObject): Promise<void> {
    return this.#transport.send({ jsonrpc: '2.0', method, ...(params && { params }) });
  }

  /** Calls a tool and returns the value of its text. */
  async call(name: string, args: JsonObject = {}, meta?: JsonObject): Promise<JsonObject> {
    const params = { name, arguments: args, ...(meta && { _meta: meta }) };
    const { result, error } = await this.request('tools/call', params);
    if (error !== undefined) return { failed: error };
    const [{ text }] = (result as { content: [{ text: string }] }).content;
    return JSON.parse(text) as JsonObject;
  }

  async open(name: string, capabilities: JsonObject = { elicitation: {} }): Promise<JsonObject> {
    const clientInfo = { name, version: '9' };
    const protocolVersion = '2025-11-25';
    const opened = await this.request('initialize', { protocolVersion, capabilities, clientInfo });
    await this.notify('notifications/initialized');
    return opened['result'] as JsonObject;
  }

  count(method: string): number {
    return this.received.filter((message) => message['method'] === method).length;
  }
}

type Front = (source: ToolSource, scope: Disposer) => Promise<() => PlainClient>;

const overHttp: Front = async (source, scope) => {
  const { url } = scope.use(await offerHttp(source));
  return () => {
    const transport = new HttpTransport({ url });
    scope.defer(() => transport.close());
    return new PlainClient(transport);
  };
};

const FRONTS: Readonly<Record<string, Front>> = {
  'sessions over HTTP': overHttp,
  'message connections': async (source, scope) => () => {
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    return new PlainClient(near);
  },
  'gRPC, then HTTP': async (source, scope) => {
    const { url } = scope.use(await offerGrpc(source));
    return overHttp(scope.use(await dialGrpc({ url })), scope);
  },
};

describe.each(Object.entries(FRONTS))('a bridge of a stdio server over %s', (_, front) => {
  const join = async (scope: Disposer): Promise<() => PlainClient> =>
    front(scope.use(await server()), scope);

  test('gives each client a process of its own, with its own names and level', async () => {
    await using scope = new Disposer();
    const connect = await join(scope);
    const [a, b] = [connect(), connect()];
    const opened = await a.open('a', { elicitation: {}, roots: { listChanged: true } });
    await b.open('b', {});
    expect(opened).toMatchObject({
      capabilities: { tools: { listChanged: true }, logging: {}, experimental: { 'x/y': {} } },
      serverInfo: {
        name: 'plain',
        title: 'A plain server',
        websiteUrl: 'http://x',
        icons: [{ src: 'http://x/i.png' }],
      },
      instructions: 'be plain',
    });
    await a.request('logging/setLevel', { level: 'warning' });
    await a.notify('notifications/roots/list_changed');
    const [one, other] = [await a.call('who'), await b.call('who')];
    expect(one).toMatchObject({
      clientInfo: { name: 'a', version: '9' },
      capabilities: { elicitation: {}, roots: { listChanged: true } },
      level: 'warning',
    });
    expect(one['heard']).toContainEqual({ method: 'notifications/roots/list_changed' });
    expect(other).toMatchObject({ clientInfo: { name: 'b' }, capabilities: {}, level: 'debug' });
    expect(one['pid']).not.toBe(other['pid']);
  });

  test('asks only the client whose call asks, also during other calls', async () => {
    await using scope = new Disposer();
    const connect = await join(scope);
    const [a, b] = [connect(), connect()];
    await Promise.all([a.open('a'), b.open('b')]);
    const answers =
      (name: string): Answer =>
      (params) => ({
        result: { action: 'accept', content: { to: name, message: params['message'] } },
      });
    [a.answer, b.answer] = [answers('a'), answers('b')];
    const asked = await Promise.all([
      a.call('ask', { message: 'first' }),
      a.call('ask', { message: 'second' }),
      b.call('ask', { message: 'third' }),
    ]);
    expect(asked.map(({ content }) => content)).toEqual([
      { to: 'a', message: 'first' },
      { to: 'a', message: 'second' },
      { to: 'b', message: 'third' },
    ]);
  });

  test('passes on a refusal, a cancellation with its reason, and custom messages', async () => {
    await using scope = new Disposer();
    const client = (await join(scope))();
    await client.open('a');
    client.answer = () => ({ error: { code: -1, message: 'no', data: { why: 'x' } } });
    expect(await client.call('ask', { message: 'x' })).toEqual({
      error: { code: -1, message: 'no', data: { why: 'x' } },
    });
    let gotQuestion: () => void = () => {};
    const question = new Promise<void>((resolve) => (gotQuestion = resolve));
    client.answer = () => {
      gotQuestion();
      return new Promise(() => {});
    };
    const left = client.request('tools/call', { name: 'ask', arguments: { message: 'y' } });
    left.catch(() => {}); // a cancelled request has no response
    await question;
    await client.notify('notifications/cancelled', { requestId: left.id, reason: 'I left' });
    await client.notify('acme/event', { n: 1 });
    client.answer = () => ({ result: { action: 'decline' } });
    expect(await client.call('ask', { message: 'z' })).toEqual({ action: 'decline' });
    const { heard } = await client.call('who');
    expect(heard).toContainEqual({
      method: 'notifications/cancelled',
      params: { requestId: left.id, reason: 'I left' },
    });
    expect(heard).toContainEqual({ method: 'acme/event', params: { n: 1 } });
    expect((await client.request('acme/echo', { a: [1] }))['result']).toEqual({ a: [1] });
    expect((await client.request('acme/unknown'))['error']).toEqual({
      code: -32601,
      message: 'Method not found',
      data: { method: 'acme/unknown' },
    });
  });

  test('passes on `_meta` unchanged, and adds none of its own', async () => {
    await using scope = new Disposer();
    const client = (await join(scope))();
    const opened = await client.open('a');
    expect(opened).not.toHaveProperty('_meta');
    const _meta = { progressToken: 'p', 'acme/trace': { id: [1, 'é'] } };
    for (const params of [{ _meta, a: 1 }, { a: 1 }, { _meta: {} }])
      expect((await client.request('acme/echo', params))['result']).toEqual(params);
    const { result } = await client.request('tools/call', { name: 'who', arguments: {} });
    expect(Object.keys(result as JsonObject)).toEqual(['content']);
    expect(await client.call('who')).not.toHaveProperty('_meta');
  });

  test('delivers a change right after the connection, and `elicitation/complete`', async () => {
    await using scope = new Disposer();
    const client = (await join(scope))();
    await client.open('a');
    await eventually(() => expect(client.count('notifications/prompts/list_changed')).toBe(1));
    await client.call('open', { elicitationId: 'e1' });
    const method = 'notifications/elicitation/complete';
    const params = { elicitationId: 'e1', _meta: { 'x/n': 1 } };
    await eventually(() =>
      expect(client.received).toContainEqual({ jsonrpc: '2.0', method, params }),
    );
  });

  test('delivers every progress notification and log line of parallel calls', async () => {
    await using scope = new Disposer();
    const client = (await join(scope))();
    await client.open('a');
    await Promise.all([
      client.call('burst', { count: 3_000 }, { progressToken: 'p1' }),
      client.call('burst', { count: 3_000 }, { progressToken: 'p2' }),
    ]);
    expect(client.count('notifications/progress')).toBe(6_000);
    await eventually(() => expect(client.count('notifications/message')).toBe(60));
  });

  test('starts a server that exited again, and reports it', async () => {
    await using scope = new Disposer();
    const warned: string[] = [];
    const onWarning = ({ message }: Error): void => void warned.push(message);
    process.on('warning', onWarning);
    scope.defer(() => void process.off('warning', onWarning));
    const client = (await join(scope))();
    await client.open('a');
    const before = await client.call('who');
    expect(await client.call('exit', { code: 3 })).toMatchObject({ failed: { code: -32000 } });
    const after = await client.call('who');
    expect(after).toMatchObject({ clientInfo: { name: 'a' } });
    expect(after['pid']).not.toBe(before['pid']);
    await eventually(() => expect(warned.join()).toContain('exited with code 3'));
    await eventually(() =>
      expect(client.count('notifications/tools/list_changed')).toBeGreaterThan(0),
    );
    // A server that exits again soon is not started for each request.
    await client.call('exit', { code: 4 });
    expect(await client.call('who')).toMatchObject({ failed: { code: -32000 } });
  });
});

test.each(['first', 'last'])(
  'a result over maxBytes fails its call only (id %s)',
  async (order) => {
    await using scope = new Disposer();
    const connect = await overHttp(
      scope.use(await server({ maxBytes: 100_000, env: { ...buildEnv(), ID_ORDER: order } })),
      scope,
    );
    const client = connect();
    await client.open('a');
    const { pid } = await client.call('who');
    expect(await client.call('huge', { chars: 200_000 })).toMatchObject({
      failed: { message: expect.stringContaining('maxBytes (100000)') as unknown },
    });
    expect((await client.call('who'))['pid']).toBe(pid);
  },
);

test('a bridge of a stdio server refuses clients beyond maxProcesses', async () => {
  await using scope = new Disposer();
  const connect = await overHttp(scope.use(await server({ maxProcesses: 2 })), scope);
  await connect().open('a');
  await connect().open('b');
  const refused = await connect()
    .request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} })
    .catch((error: unknown) => error);
  expect(JSON.stringify(refused, ['error', 'message'])).toContain('maxProcesses');
});

test('a client that disconnects ends the connection to the server', async () => {
  await using scope = new Disposer();
  const closed: number[] = [];
  let opened = 0;
  const registry = scope.use(await server());
  const source = relaySource(async () => {
    const number = (opened += 1);
    const [near, far] = messagePair();
    scope.use(serveMessages(registry, far));
    return {
      ...near,
      close: async () => {
        closed.push(number);
        await near.close?.();
      },
    };
  });
  for (let n = 1; n <= 3; n += 1) {
    const [near, far] = messagePair();
    const served = serveMessages(source, far);
    const client = new PlainClient(near);
    await client.open(`c${n}`);
    await near.close?.();
    await served.done;
  }
  expect(closed).toEqual([1, 2, 3]);
});

test('a wrapper of a dialled source is never passed by', async () => {
  await using scope = new Disposer();
  const dialled = scope.use(await server());
  const calls: string[] = [];
  const gated: ToolSource = {
    ...dialled,
    async *callTool({ name }) {
      calls.push(name);
      yield { type: 'result', result: { content: [{ type: 'text', text: '"gated"' }] } };
    },
  };
  const client = (await overHttp(gated, scope))();
  await client.open('a');
  expect(await client.call('who')).toBe('gated');
  expect(calls).toEqual(['who']);
});

test('a stateless client of a server with sessions is translated', async () => {
  await using scope = new Disposer();
  const { url } = scope.use(await offerHttp(scope.use(await server())));
  const client = scope.use(await dialHttp({ url, protocol: 'stateless' }));
  const names: string[] = [];
  for await (const { name } of client.listTools()) names.push(name);
  expect(names).toContain('who');
});

test('the client of a connection that ends with its server is disconnected', async () => {
  await using scope = new Disposer();
  const [toServer, atServer] = messagePair();
  const [near, far] = messagePair();
  scope.use(
    serveMessages(
      relaySource(async () => toServer),
      far,
    ),
  );
  const registry = scope.use(await server());
  scope.use(serveMessages(registry, atServer));
  const client = scope.use(await dialMessages(near));
  await atServer.close?.();
  await expect(
    (async () => {
      for await (const _ of client.listTools());
    })(),
  ).rejects.toMatchObject({ code: 'peer_exited' });
});

test('a tool behind a translating bridge sees the capabilities of its client', async () => {
  await using scope = new Disposer();
  const registry = createRegistry({
    name: 'demo',
    tools: [tool('can', '', {}, (_, ctx) => JSON.stringify(ctx.clientCapabilities))],
  });
  const { url } = scope.use(await offerHttp(registry));
  const dialled = scope.use(
    await dialHttp({ url, protocol: 'stateless', capabilities: { elicitation: {}, roots: {} } }),
  );
  // A copy of the source is not passed by, so its calls are translated.
  const front = scope.use(await offerHttp({ ...dialled }));
  const capabilities = { sampling: {} };
  const client = scope.use(await dialHttp({ url: front.url, protocol: 'stateless', capabilities }));
  for await (const event of client.callTool({ id: '1', name: 'can', args: {} }))
    expect(event).toMatchObject({
      type: 'result',
      result: { content: [{ text: expect.stringMatching(/^\{"sampling":\{\},/) as unknown }] },
    });
});

test('clients that disconnect without DELETE do not keep connections to the server', async () => {
  await using scope = new Disposer();
  const registry = createRegistry({ name: 'demo' });
  let open = 0;
  const source = relaySource(async () => {
    const [near, far] = messagePair();
    const served = serveMessages(registry, far);
    open += 1;
    served.done.finally(() => (open -= 1)).catch(() => {});
    return near;
  });
  const handler = scope.use(mcpHandler(source, { maxSessions: 20, idleMs: 200 }));
  for (let n = 0; n < 500; n += 1) {
    const response = await handler.handle(initializeRequest());
    expect(response.status).toBe(200);
    await response.text();
    expect(open).toBeLessThanOrEqual(21);
  }
  await eventually(() => expect([handler.sessions, open]).toEqual([0, 0]));
});

const initializeRequest = (): Request =>
  new Request('http://localhost/mcp', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'c', version: '1' },
      },
    }),
  });
