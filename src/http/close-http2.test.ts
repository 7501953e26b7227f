import { once } from 'node:events';
import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { destroySession, resetStream } from './close-http2.ts';

/** Sends one request to a server that handles its stream, and returns how the stream closed. */
async function codeOf(handle: (stream: ServerHttp2Stream) => void): Promise<number> {
  const server = createServer();
  server.on('stream', handle);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  session.on('error', () => {});
  const stream = session.request({ ':path': '/' }, { endStream: true });
  stream.on('error', () => {});
  await new Promise((resolve) => stream.once('close', resolve));
  destroySession(session);
  server.close();
  return stream.rstCode;
}

// The handler of a stream runs while Node receives.
test('a session is destroyed after the received bytes are processed, also if asked twice', async () => {
  let destroyedAtOnce: boolean | undefined;
  let destroyed: Promise<unknown> | undefined;
  await codeOf((stream) => {
    const { session } = stream;
    if (!session) return;
    destroyed = once(session, 'close');
    destroySession(session, { code: 11 });
    destroySession(session);
    destroyedAtOnce = session.destroyed;
  });
  await destroyed;
  expect(destroyedAtOnce).toBe(false);
});

test('a stream is reset after the received bytes are processed, also if asked twice', async () => {
  let closedAtOnce: boolean | undefined;
  const code = await codeOf((stream) => {
    stream.on('error', () => {});
    resetStream(stream, 7);
    resetStream(stream, 2);
    closedAtOnce = stream.closed;
  });
  expect(closedAtOnce).toBe(false);
  expect(code).toBe(7);
});
