import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { TLS } from '../../test/fixtures/tls.ts';
import { GrpcClient } from './client.ts';
import type { Codec } from './method.ts';
import { type GrpcListening, listenGrpc, type ListenGrpcOptions } from './server.ts';

const SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), SETTINGS]);
const text: Codec<string> = {
  encode: (message) => Buffer.from(message),
  decode: (bytes) => Buffer.from(bytes).toString(),
};
const method = { path: '/test.Test/Unary', request: text, response: text };

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** A peer that never closes its side of the connection. */
function keepOpen(socket: Socket): Socket {
  sockets.push(socket);
  return socket.on('error', () => {});
}

async function halfOpenClient({ url }: GrpcListening, first?: Uint8Array): Promise<Socket> {
  const { hostname: host, port } = new URL(url);
  const socket = keepOpen(connect({ host, port: Number(port), allowHalfOpen: true }));
  await once(socket, 'connect');
  if (first) {
    socket.write(first);
    await once(socket, 'readable');
  }
  return socket;
}

const server = (options: ListenGrpcOptions): Promise<GrpcListening> =>
  listenGrpc([], { closeMs: 0, ...options });

test.each([
  ['sends nothing', {}, undefined],
  ['keeps its side of the connection open', {}, PREFACE],
  ['does not begin its TLS handshake', { tls: TLS }, undefined],
])('a client that %s does not stop the server from closing', async (_, options, first) => {
  const listening = await server(options);
  const client = await halfOpenClient(listening, first);
  const closed = new Promise((resolve) => client.once('end', resolve));
  client.resume();
  await listening[Symbol.asyncDispose]();
  await expect(closed).resolves.toBeUndefined();
});

test('a connection without calls ends after idleMs, although its client keeps its side open', async () => {
  await using listening = await server({ idleMs: 200 });
  const client = await halfOpenClient(listening, PREFACE);
  client.resume();
  await once(client, 'end');
  // Once the socket of the server is gone, a write fails and this socket closes, too.
  const writing = setInterval(() => client.write('x'), 20);
  const closed = new Promise((resolve) => client.once('close', resolve));
  await expect(closed).resolves.toBeDefined();
  clearInterval(writing);
});

test('a server that keeps its side of the connection open does not stop the client from closing', async () => {
  const silent = createServer({ allowHalfOpen: true }, (socket) => {
    keepOpen(socket).write(SETTINGS);
    socket.resume();
  }).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  try {
    const { port } = silent.address() as AddressInfo;
    const client = new GrpcClient(`grpc://127.0.0.1:${port}`);
    const calling = client.unary(method, 'go');
    await once(silent, 'connection');
    await Promise.all([
      expect(calling).rejects.toMatchObject({ code: 'closed' }),
      client[Symbol.asyncDispose](),
    ]);
  } finally {
    silent.close();
  }
});
