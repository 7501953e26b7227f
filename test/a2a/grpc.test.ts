import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { a2aServer, connectA2A } from '../../src/a2a/index.ts';
import { grpcMethods, type JsonMethod } from '../../src/a2a/grpc/codec.ts';
import { listenA2A } from '../../src/a2a/grpc/index.ts';
import type { Operation, Version } from '../../src/a2a/protocol/dialect.ts';
import type { Agent } from '../../src/event/types.ts';
import { detailsIn, GrpcClient, STATUS, statusOf, type Metadata } from '../../src/grpc/index.ts';
import { ErrorInfoSchema } from '../../src/grpc/gen/google/rpc/error_details_pb.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve, type ServeOptions, type Served } from '../../src/serve/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { verifies } from '../verifies.ts';
import { all } from './support.ts';

const counting = (count: number, ms = 1): Agent =>
  async function* (_turn, ctx) {
    for (let n = 0; n < count; n++) {
      await sleep(ms, ctx.signal);
      yield { type: 'text.delta', id: 't', delta: `w${n} ` };
    }
  };
const waiting: Agent = async function* (_turn, ctx) {
  yield { type: 'status', message: 'here' };
  await once(ctx.signal, 'abort');
};
const whole = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');

const serveGrpc = (agent: Agent, options: ServeOptions = {}): Promise<Served> =>
  serve(agent, { log: memoryLog(), page: false, graceMs: 50, grpc: {}, ...options });

/** A caller with nothing but the carrier, so that tests see statuses and metadata. */
class Stub implements AsyncDisposable {
  readonly #client: GrpcClient;
  readonly #methods: ReadonlyMap<Operation, JsonMethod>;

  constructor({ grpcUrl }: Pick<Served, 'grpcUrl'>, version: Version = '1.0') {
    this.#client = new GrpcClient(grpcUrl!);
    this.#methods = new Map(grpcMethods(version));
  }

  call(operation: Operation, request: JsonObject, metadata: Metadata = {}): Promise<JsonObject> {
    return this.#client.unary(this.#methods.get(operation)!, request, { metadata });
  }

  stream(operation: Operation, request: JsonObject, metadata: Metadata = {}) {
    return this.#client.stream(this.#methods.get(operation)!, { one: request }, { metadata });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }
}

const message = (text: string, more: JsonObject = {}): JsonObject => ({
  message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more },
});

/** How a call was refused: its status, its reason in the details, its words. */
async function refusal(call: Promise<unknown>): Promise<unknown[]> {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const status = statusOf(error);
  const [info] = detailsIn(status, ErrorInfoSchema);
  return [status?.status, info?.reason, info?.domain];
}

/** A wire that breaks behind so many bytes of what the server says, once. */
async function openBreaking(target: string) {
  const sockets = new Set<Socket>();
  const wire = { url: '', breakAfter: Infinity, broke: 0 };
  const server = createServer((client) => {
    const { hostname, port } = new URL(target);
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on('data', (chunk: Buffer) => {
      const room = wire.breakAfter;
      wire.breakAfter -= chunk.length;
      client.write(chunk.subarray(0, room));
      if (room > chunk.length) return;
      wire.breakAfter = Infinity;
      wire.broke++;
      client.resetAndDestroy();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  wire.url = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(wire, {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
}

for (const version of ['1.0', '0.3'] as const)
  verifies(
    ['S131', 'S191', 'S197', 'S196'],
    `a gRPC stream that is lost at any byte is complete (${version})`,
    async () => {
      await using inner = await serveGrpc(counting(8));
      await using wire = await openBreaking(inner.grpcUrl!);
      // The same agent again, whose card has the breaking wire.
      await using served = await serveGrpc(counting(8), {
        log: inner.log,
        grpc: { publicUrl: wire.url },
      });
      await using client = await connectA2A(served.url, { version, binding: 'GRPC' });
      for (let bytes = 200; bytes < 4000; bytes += 370) {
        wire.breakAfter = bytes;
        const stream = client.stream('go', { retryMs: 1 });
        const events = await all(stream);
        expect(stream.text).toBe(whole(8));
        expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
        expect(stream.problems).toEqual([]);
        expect(events.filter((event) => 'task' in event)).toHaveLength(1);
      }
      expect(wire.broke).toBeGreaterThan(5);
    },
  );

test.each(['1.0', '0.3'] as const)(
  'no word of an agent breaks its stream, or the reading of its task (%s)',
  async (version) => {
    const half = '😀'.slice(0, 1);
    const sloppy: Agent = async function* (_turn, ctx) {
      yield { type: 'text.delta', id: 't', delta: `a${half}b` };
      yield { type: 'status', message: half, data: { half } };
      const parts = [{ text: half }, { text: 5 }, { text: 'x', url: 'y' }, { data: half }] as never;
      yield { type: 'artifact', artifactId: half, name: 5 as never, parts, metadata: [] as never };
      await ctx.ask({ id: 'q', kind: 'question', message: 5 as never });
    };
    await using served = await serveGrpc(sloppy);
    await using client = await connectA2A(served.url, { version, binding: 'GRPC' });
    const stream = client.stream(`hi ${half}`, { retryForMs: 1000, retryMs: 50 });
    await stream.result();
    expect(stream.status?.state).toBe('TASK_STATE_INPUT_REQUIRED');
    expect(stream.problems).toEqual([]);
    expect((await client.get(stream.taskId!)).artifacts).toHaveLength(2);
    expect((await client.cancel(stream.taskId!)).status.state).toBe('TASK_STATE_CANCELED');
  },
);

describe('an error has its status, and its reason in the details', () => {
  const { notFound, invalidArgument, failedPrecondition, resourceExhausted } = STATUS;
  const DOMAIN = 'a2a-protocol.org';

  test.each<[string, Version, Operation, JsonObject, Metadata, number, string]>([
    ['no such task', '1.0', 'get', { id: 'x' }, {}, notFound, 'TASK_NOT_FOUND'],
    ['no such task', '0.3', 'get', { name: 'tasks/x' }, {}, notFound, 'TASK_NOT_FOUND'],
    ['no name', '0.3', 'get', { name: 'x' }, {}, invalidArgument, 'INVALID_PARAMS'],
    ['no parts', '1.0', 'send', message('', { parts: [] }), {}, invalidArgument, 'INVALID_PARAMS'],
    ['bad page', '1.0', 'list', { pageSize: 101 }, {}, invalidArgument, 'INVALID_PARAMS'],
    [
      'no extended card',
      '1.0',
      'extendedCard',
      {},
      {},
      failedPrecondition,
      'UNSUPPORTED_OPERATION',
    ],
    [
      'a version of tomorrow',
      '1.0',
      'get',
      { id: 'x' },
      { 'a2a-version': '9.0' },
      failedPrecondition,
      'VERSION_NOT_SUPPORTED',
    ],
    [
      'a version of another service',
      '1.0',
      'get',
      { id: 'x' },
      { 'a2a-version': '0.3' },
      failedPrecondition,
      'VERSION_NOT_SUPPORTED',
    ],
  ])('%s (%s %s)', async (_, version, operation, request, metadata, status, reason) => {
    await using served = await serveGrpc(counting(1));
    await using stub = new Stub(served, version);
    const refused = await refusal(stub.call(operation, request, metadata));
    expect(refused).toEqual([status, reason, DOMAIN]);
  });

  test('a task that has ended refuses cancels and messages', async () => {
    await using served = await serveGrpc(counting(1));
    await using stub = new Stub(served);
    const { task } = (await stub.call('send', message('go'))) as { task: { id: string } };
    expect(await refusal(stub.call('cancel', { id: task.id }))).toEqual([
      failedPrecondition,
      'TASK_NOT_CANCELABLE',
      DOMAIN,
    ]);
    const more = stub.call('send', message('go', { taskId: task.id }));
    expect(await refusal(more)).toEqual([failedPrecondition, 'UNSUPPORTED_OPERATION', DOMAIN]);
    const again = all(stub.stream('subscribe', { id: task.id }));
    expect(await refusal(again)).toEqual([failedPrecondition, 'UNSUPPORTED_OPERATION', DOMAIN]);
  });

  test('too many streams and too large messages are refused', async () => {
    await using served = await serveGrpc(waiting, { a2a: { maxStreams: 1, maxBodyBytes: 1000 } });
    await using stub = new Stub(served);
    const open = stub.stream('stream', message('one'));
    await open.next();
    expect(await refusal(all(stub.stream('stream', message('two'))))).toEqual([
      resourceExhausted,
      'TOO_MANY_STREAMS',
      DOMAIN,
    ]);
    const [status] = await refusal(stub.call('send', message('x'.repeat(2000))));
    expect(status).toBe(resourceExhausted);
    await open.return();
    // A place that was left is free again, as soon as the server has noticed.
    await expect
      .poll(async () => {
        const next = stub.stream('stream', message('three'));
        const first = await next.next().catch(() => undefined);
        await next.return();
        return first?.value;
      })
      .toHaveProperty('task');
  });

  test('an internal failure is logged and not shown to the caller', async () => {
    const told: unknown[] = [];
    const logger = { error: (_: string, fields?: object) => told.push(fields) };
    const get = () => Promise.reject(new Error('secret of the house'));
    await using served = await serveGrpc(counting(1), {
      log: Object.assign(memoryLog(), { get }),
      logger: { ...logger, debug() {}, info() {}, warn() {} } as never,
    });
    await using stub = new Stub(served);
    const failed: unknown = await stub.call('get', { id: 'x' }).catch((error: unknown) => error);
    expect(await refusal(Promise.reject(failed))).toEqual([
      STATUS.internal,
      'INTERNAL_ERROR',
      DOMAIN,
    ]);
    expect(JSON.stringify(statusOf(failed)?.message)).not.toContain('secret');
    expect(told).toHaveLength(1);
    expect(JSON.stringify(told)).toContain('secret of the house');
  });
});

test('the guard of HTTP reads the metadata, and callers see only their own tasks', async () => {
  const bearer = { ada: 'token-of-ada', bob: 'token-of-bob' };
  await using served = await serveGrpc(counting(1), { auth: { bearer } });
  await using stub = new Stub(served);
  const failed: unknown = await stub.call('list', {}).catch((error: unknown) => error);
  expect(statusOf(failed)).toMatchObject({
    status: STATUS.unauthenticated,
    trailers: { 'www-authenticate': 'Bearer' },
  });
  const ada = { authorization: 'Bearer token-of-ada' };
  const bob = { authorization: 'Bearer token-of-bob' };
  const { task } = (await stub.call('send', message('go'), ada)) as { task: { id: string } };
  expect(await stub.call('get', { id: task.id }, ada)).toMatchObject({ id: task.id });
  expect(await refusal(stub.call('get', { id: task.id }, bob))).toContain('TASK_NOT_FOUND');
  const cross = { ...ada, origin: 'https://evil.example' };
  expect(await refusal(stub.call('get', { id: task.id }, cross))).toEqual([
    STATUS.permissionDenied,
    undefined,
    undefined,
  ]);
});

test('tasks of other tenants do not exist, and several agents share a port by tenant', async () => {
  const said = (text: string): Agent =>
    async function* () {
      yield { type: 'text.delta', id: 't', delta: text };
    };
  await using served = await serve(
    { first: { default: said('I am first.') }, second: { default: said('I am second.') } },
    { log: memoryLog(), page: false, grpc: {} },
  );
  await using stub = new Stub(served);
  const { task } = (await stub.call('send', { tenant: 'acme', ...message('go') })) as {
    task: { id: string };
  };
  expect(task).toMatchObject({ artifacts: [{ parts: [{ text: 'I am first.' }] }] });
  expect(await stub.call('get', { tenant: 'acme', id: task.id })).toMatchObject({ id: task.id });
  for (const tenant of ['', 'other', 'second'])
    expect(await refusal(stub.call('get', { tenant, id: task.id }))).toContain('TASK_NOT_FOUND');
  await using client = await connectA2A(`${served.url}/a2a/second`, { binding: 'GRPC' });
  expect(await client.send('go')).toMatchObject({
    artifacts: [{ parts: [{ text: 'I am second.' }] }],
  });
  // 0.3 has no tenant to say which of them is meant, so only the first is offered there.
  await expect(
    connectA2A(`${served.url}/a2a/second`, { binding: 'GRPC', version: '0.3' }),
  ).rejects.toMatchObject({ code: 'unsupported' });
});

test('events have ids for callers with the resume extension, and a resume beyond the end is refused', async () => {
  await using served = await serveGrpc(counting(3));
  await using stub = new Stub(served);
  const extension = 'urn:duolane:a2a:resume:v1';
  const plain = await all(stub.stream('stream', message('go')));
  expect(JSON.stringify(plain)).not.toContain('duolane');
  const events = await all(stub.stream('stream', message('go'), { 'a2a-extensions': extension }));
  const ids = events.map((event) => /resume:v1\/id":"([^"]+)/.exec(JSON.stringify(event))?.[1]);
  expect(new Set(ids).size).toBe(events.length);
  const { id } = (events[0] as { task: { id: string } }).task;
  const from = (after: string) =>
    all(stub.stream('subscribe', { id }, { 'last-event-id': after, 'a2a-extensions': extension }));
  for (const [at, after] of ids.entries()) expect(await from(after!)).toEqual(events.slice(at + 1));
  expect(await refusal(from('999'))).toContain('INVALID_PARAMS');
});

test('a drain ends a stream with a status that makes clients reconnect', async () => {
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { agent: waiting }, graceMs: 50 });
  const description = { name: 'test', description: 'for tests' };
  await using server = a2aServer({ agent: 'agent', description, url: 'http://a.b', log, runner });
  await using listening = await listenA2A(server);
  await using stub = new Stub({ grpcUrl: listening.url });
  const open = stub.stream('stream', message('go'));
  await open.next();
  server.drain();
  const error: unknown = await all(open).catch((reason: unknown) => reason);
  expect(statusOf(error)?.status).toBe(STATUS.unavailable);
  expect(error).toMatchObject({ code: 'interrupted', retryable: true });
});

test('every form of the card has the gRPC address', async () => {
  await using served = await serveGrpc(counting(1), { grpc: { publicUrl: 'grpc.example:443' } });
  const cardOf = async (headers: Record<string, string>): Promise<JsonObject> =>
    (await (
      await fetch(`${served.url}/.well-known/agent-card.json`, { headers })
    ).json()) as JsonObject;
  const entry = { url: 'grpc.example:443', protocolBinding: 'GRPC' };
  const { supportedInterfaces } = await cardOf({ 'a2a-version': '1.0' });
  for (const protocolVersion of ['1.0', '0.3'])
    expect(supportedInterfaces).toContainEqual({ ...entry, protocolVersion });
  const { additionalInterfaces } = await cardOf({ 'a2a-version': '0.3' });
  expect(additionalInterfaces).toContainEqual({ url: 'grpc.example:443', transport: 'GRPC' });
  // A card that points to another machine gets no secrets, on this binding either.
  const dialed = connectA2A(served.url, { binding: 'GRPC' });
  await expect(dialed).rejects.toMatchObject({ code: 'invalid' });
});
