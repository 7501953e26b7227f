import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { constants, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { Disposer } from '../stream/disposer.ts';
import { GrpcClient } from './client.ts';
import { destroySession, resetStream } from '../http/close-http2.ts';
import { encodeFrame } from './frames.ts';
import type { Codec } from './method.ts';
import { serverStream } from './route.ts';
import { listenGrpc } from './server.ts';
import { statusOf } from './status.ts';

const text: Codec<string> = {
  encode: (message) => Buffer.from(message),
  decode: (bytes) => {
    const decoded = Buffer.from(bytes).toString();
    if (decoded === 'unreadable') throw new TypeError('it cannot be read');
    return decoded;
  },
};
const METHOD = { path: '/test.Test/Any', request: text, response: text };

const GRPC = { ':status': 200, 'content-type': 'application/grpc' };
const frame = (message: string): Buffer => encodeFrame(Buffer.from(message));

/** A server that breaks the protocol in the way that a test chooses. */
async function bad(
  answer: (stream: ServerHttp2Stream, server: Http2Server) => void,
): Promise<{ url: string } & AsyncDisposable> {
  const server = createServer().listen(0, '127.0.0.1');
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    stream.resume();
    answer(stream, server);
  });
  await once(server, 'listening');
  return {
    url: `grpc://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const sending =
  (trailers: Record<string, string>, ...chunks: Uint8Array[]) =>
  (stream: ServerHttp2Stream): void => {
    stream.respond(GRPC, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    for (const chunk of chunks) stream.write(chunk);
    stream.end();
  };

const OK = { 'grpc-status': '0' };

test.each([
  ['no status at the end', sending({}, frame('a')), 'malformed', ['a']],
  [
    'a status that is not a number',
    sending({ 'grpc-status': 'fine' }, frame('a')),
    'malformed',
    ['a'],
  ],
  ['half a message', sending(OK, frame('a'), frame('bcd').subarray(0, 6)), 'malformed', ['a']],
  [
    'a compressed message',
    sending(OK, frame('a'), Buffer.from([1, 0, 0, 0, 0])),
    'unsupported',
    ['a'],
  ],
  [
    'a message without end',
    sending(OK, frame('a'), Buffer.from([0, 255, 0, 0, 0])),
    'too_large',
    ['a'],
  ],
  [
    'a message that cannot be read',
    sending(OK, frame('a'), frame('unreadable')),
    'malformed',
    ['a'],
  ],
  ['a status of its own making', sending({ 'grpc-status': '77' }, frame('a')), 'server', ['a']],
  [
    'a page of HTML',
    (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 502, 'content-type': 'text/html' });
      stream.end('<html>');
    },
    'network',
    [],
  ],
  [
    'HTML with 200',
    (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' });
      stream.end('<html>');
    },
    'server',
    [],
  ],
  ['a refusal', (stream: ServerHttp2Stream) => resetStream(stream, 7), 'network', []],
  ['a reset', (stream: ServerHttp2Stream) => resetStream(stream, 2), 'server', []],
  [
    'its death in the middle',
    (stream: ServerHttp2Stream) => {
      stream.respond(GRPC);
      stream.write(frame('a'), () => stream.session && destroySession(stream.session));
    },
    'network',
    ['a'],
  ],
] as const)(
  '%s is an error with a name, and what came before stays',
  async (_, answer, code, kept) => {
    await using server = await bad(answer);
    await using client = new GrpcClient(server.url);
    const seen: string[] = [];
    const reading = (async () => {
      for await (const word of client.stream(METHOD, { one: '' })) seen.push(word);
    })();
    await expect(reading).rejects.toMatchObject({ code });
    expect(seen).toEqual(kept);
    await expect(client.unary(METHOD, '')).rejects.toMatchObject({ code });
    expect(client.calls).toBe(0);
  },
);

test('two responses to a unary call, and none, are malformed', async () => {
  for (const chunks of [[frame('a'), frame('b')], []]) {
    await using server = await bad(sending(OK, ...chunks));
    await using client = new GrpcClient(server.url);
    await expect(client.unary(METHOD, '')).rejects.toMatchObject({ code: 'malformed' });
  }
});

test('a status may be the complete response, with any message', async () => {
  await using server = await bad((stream) =>
    stream.respond(
      { ...GRPC, 'grpc-status': '5', 'grpc-message': 'n%C3%B6 %ZZ' },
      { endStream: true },
    ),
  );
  await using client = new GrpcClient(server.url);
  const error: unknown = await client.unary(METHOD, '').catch((e: unknown) => e);
  expect(error).toMatchObject({ code: 'not_found' });
  expect(statusOf(error)?.status).toBe(5);
});

test('the error for a server of HTTP/1.1 says so', async () => {
  const server = createHttpServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await using client = new GrpcClient(`grpc://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await expect(client.unary(METHOD, '')).rejects.toMatchObject({ code: 'network' });
  server.closeAllConnections();
  server.close();
});

test('a connection that is never established times out', async () => {
  const silent = createTcpServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const sockets: Socket[] = [];
  silent.on('connection', (socket) => sockets.push(socket));
  const url = `grpcs://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  await using client = new GrpcClient(url, { connectMs: 100 });
  await expect(client.unary(METHOD, '')).rejects.toMatchObject({ code: 'network' });
  for (const socket of sockets) socket.destroy();
  silent.close();
});

test('a peer that vanishes without closing is detected', async () => {
  const scope = new Disposer();
  let ended = (): void => {};
  const noticed = new Promise<void>((resolve) => (ended = resolve));
  const server = scope.use(
    await listenGrpc(
      [
        serverStream(METHOD, async function* (_, { signal }) {
          signal.addEventListener('abort', ended);
          yield 'here';
          await new Promise((_resolve, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason)),
          );
        }),
      ],
      { keepAliveMs: 100 },
    ),
  );
  // In between, something that stops passing anything on.
  const port = Number(new URL(server.url).port);
  const pairs: Socket[] = [];
  const between = createTcpServer((near) => {
    const far = connect(port, '127.0.0.1');
    pairs.push(near, far);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(between, 'listening');
  const url = `grpc://127.0.0.1:${(between.address() as AddressInfo).port}`;
  const client = new GrpcClient(url, { keepAliveMs: 100 });
  const stream = client.stream(METHOD, { one: '' });
  await stream.next();
  for (const socket of pairs) socket.unpipe().pause();
  await expect(stream.next()).rejects.toMatchObject({ code: 'network' });
  await noticed;
  for (const socket of pairs) socket.destroy();
  between.close();
  await client[Symbol.asyncDispose]();
  await scope[Symbol.asyncDispose]();
});

test('a call that the server resets at its deadline has timed out', async () => {
  const begun = Date.now();
  const now = vi.spyOn(Date, 'now');
  await using server = await bad((stream) => {
    now.mockReturnValue(begun + 60_000);
    stream.close(constants.NGHTTP2_CANCEL);
  });
  try {
    await using client = new GrpcClient(server.url);
    const call = (deadline: number): Promise<string> => {
      now.mockReturnValue(begun);
      return client.unary(METHOD, '', { deadline });
    };
    await expect(call(begun + 60_000)).rejects.toMatchObject({ code: 'timeout' });
    await expect(call(begun + 60_001)).rejects.toMatchObject({ code: 'canceled' });
  } finally {
    now.mockRestore();
  }
});
