import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { EventEmitter, once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { DuolaneError } from '../errors.ts';
import { sleep } from '../stream/abort.ts';
import { UnsentBytes } from '../http/unsent-bytes.ts';
import { destroySession } from '../http/close-http2.ts';
import { encodeFrame } from './frames.ts';
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from './gen/grpc/reflection/v1/reflection_pb.ts';
import type { Codec } from './method.ts';
import { Outbound } from './outbound.ts';
import { bidiStream, serverStream, unary } from './route.ts';
import { type GrpcListening, listenGrpc, type ListenGrpcOptions } from './server.ts';
import { standardRoutes } from './standard-services.ts';

const text: Codec<string> = {
  encode: (message) => Buffer.from(message),
  decode: (bytes) => Buffer.from(bytes).toString(),
};
const method = (name: string) => ({ path: `/test.Test/${name}`, request: text, response: text });
const LONG = 'x'.repeat(200_000);

let left: string[] = [];
const routes = [
  unary(method('Unary'), () => LONG),
  serverStream(method('Stream'), async function* (_, { signal }) {
    try {
      for (;;) yield LONG;
    } finally {
      left.push(signal.aborted ? 'aborted' : 'open');
    }
  }),
  bidiStream(method('Echo'), async function* (requests) {
    for await (const request of requests) yield request;
  }),
  serverStream(method('Silent'), async function* (_, { signal }) {
    await sleep(3_600_000, signal);
    yield '';
  }),
  ...standardRoutes([], { maxWatches: 2 }),
];

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  left = [];
  for (const each of opened.splice(0).toReversed()) await each[Symbol.asyncDispose]();
});

async function server(options: ListenGrpcOptions = {}): Promise<GrpcListening> {
  const listening = await listenGrpc(routes, { closeMs: 0, ...options });
  opened.push(listening);
  return listening;
}

function client({ url }: GrpcListening, settings = {}): ClientHttp2Session {
  const session = connect(url.replace('grpc:', 'http:'), { settings });
  session.on('error', () => {});
  opened.push({ [Symbol.asyncDispose]: async () => destroySession(session) });
  return session;
}

function call(session: ClientHttp2Session, path: string): ClientHttp2Stream {
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc' };
  const stream = session.request(headers, { endStream: false });
  stream.on('error', () => {});
  return stream;
}

/** The status of a call, in its trailers or, without an answer, in its headers. */
function statusOf(stream: ClientHttp2Stream): Promise<number> {
  return new Promise((resolve) => {
    const read = (headers: Record<string, unknown>): void => {
      if (headers['grpc-status'] !== undefined) resolve(Number(headers['grpc-status']));
    };
    stream.on('response', read);
    stream.on('trailers', read);
    stream.resume();
  });
}

describe('a client that does not read responses', () => {
  test.each(['Stream', 'Unary'])('is cut after stallMs (%s)', async (name) => {
    const errors: unknown[] = [];
    const listening = await server({ stallMs: 50, onError: (error) => errors.push(error) });
    // No window at all: nothing that the server writes can go out.
    const stream = call(client(listening, { initialWindowSize: 0 }), `/test.Test/${name}`);
    stream.end(encodeFrame(Buffer.from('go')));
    await once(stream, 'close');
    expect(stream.rstCode).toBe(8);
    await expect.poll(() => listening.calls).toBe(0);
    if (name === 'Stream') expect(left).toEqual(['aborted']);
    expect(errors).toEqual([expect.objectContaining({ code: 'timeout' })]);
  });

  test('does not fill the memory: a response beyond maxUnsentBytes is refused', async () => {
    const listening = await server({ maxUnsentBytes: 300_000 });
    const session = client(listening, { initialWindowSize: 0 });
    // The first response of 200,000 bytes waits for a window, so a second does not fit.
    const first = call(session, '/test.Test/Unary');
    first.end(encodeFrame(Buffer.from('go')));
    await once(first, 'response');
    const second = call(session, '/test.Test/Unary');
    second.end(encodeFrame(Buffer.from('go')));
    expect(await statusOf(second)).toBe(14);
    // A client that reads gets its response as soon as the first one is gone.
    first.close();
    await expect.poll(() => listening.calls).toBe(0);
    const third = call(client(listening), '/test.Test/Unary');
    third.end(encodeFrame(Buffer.from('go')));
    expect(await statusOf(third)).toBe(0);
  });

  test('gives the room of a message back when that message is written', async () => {
    const unsent = new UnsentBytes(300_000);
    const waiting: (() => void)[] = [];
    const write = (_piece: Uint8Array, written: () => void): boolean => waiting.push(written) > 0;
    const stream = Object.assign(new EventEmitter(), { write });
    const outbound = new Outbound(stream as never, { stallMs: 1000, onStall: () => {}, unsent });
    outbound.admit(Buffer.from(LONG));
    await outbound.send(Buffer.from(LONG));
    expect(() => outbound.admit(Buffer.from(LONG))).toThrow('hold too much memory');
    // A short message behind it keeps the stream busy, and holds no room.
    await outbound.send(Buffer.from('short'));
    for (const written of waiting.slice(0, -1)) written();
    expect(() => outbound.admit(Buffer.from(LONG))).not.toThrow();
    outbound.close();
  });

  test('is not one that reads slowly: each written piece counts as progress', () => {
    vi.useFakeTimers();
    try {
      const waiting: (() => void)[] = [];
      const write = (_piece: Uint8Array, written: () => void): boolean => waiting.push(written) < 2;
      const stream = Object.assign(new EventEmitter(), { write });
      let stalls = 0;
      const outbound = new Outbound(stream as never, { stallMs: 1000, onStall: () => stalls++ });
      void outbound.send(Buffer.from(LONG))?.catch(() => {});
      expect(waiting.length).toBe(4);
      for (const written of waiting) {
        vi.advanceTimersByTime(900);
        written();
      }
      vi.advanceTimersByTime(10_000);
      expect(stalls).toBe(0);
      void outbound.send(Buffer.from('more'))?.catch(() => {});
      vi.advanceTimersByTime(999);
      expect(stalls).toBe(0);
      vi.advanceTimersByTime(1);
      expect(stalls).toBe(1);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('a client that does not finish a message', () => {
  const half = encodeFrame(Buffer.from('a whole message')).subarray(0, 9);

  test.each([
    ['nothing', 'Unary', undefined],
    ['half a message', 'Unary', half],
    ['half a message', 'Stream', half],
    ['half a message', 'Echo', half],
  ])('is refused after messageMs (%s to %s)', async (_, name, bytes) => {
    const listening = await server({ messageMs: 50 });
    const stream = call(client(listening), `/test.Test/${name}`);
    if (bytes) stream.write(bytes);
    expect(await statusOf(stream)).toBe(4); // DEADLINE_EXCEEDED
    await expect.poll(() => listening.calls).toBe(0);
  });

  test('is not one that waits between messages', async () => {
    const listening = await server({ messageMs: 50 });
    const stream = call(client(listening), '/test.Test/Echo');
    const status = statusOf(stream);
    for (const word of ['one', 'two']) {
      stream.write(encodeFrame(Buffer.from(word)));
      await once(stream, 'data');
      await sleep(120);
    }
    stream.end();
    expect(await status).toBe(0);
  });
});

describe('a server limits', () => {
  test('calls to maxCalls, and rejects the next with RESOURCE_EXHAUSTED', async () => {
    const listening = await server({ maxCalls: 2 });
    const session = client(listening);
    for (let n = 0; n < 2; n++)
      call(session, '/test.Test/Silent').end(encodeFrame(Buffer.from('go')));
    await expect.poll(() => listening.calls).toBe(2);
    const third = call(client(listening), '/test.Test/Unary');
    third.end(encodeFrame(Buffer.from('go')));
    expect(await statusOf(third)).toBe(8);
  });

  test('calls of one principal to half of maxCalls', async () => {
    const listening = await server({ maxCalls: 4, authorize: ({ metadata }) => metadata['who'] });
    const session = client(listening);
    const as = (who: string): ClientHttp2Stream => {
      const headers = { ':method': 'POST', ':path': '/test.Test/Unary', who };
      const stream = session.request(
        { ...headers, 'content-type': 'application/grpc' },
        { endStream: false },
      );
      stream.on('error', () => {});
      return stream;
    };
    const silent = [as('eve'), as('eve')];
    await expect.poll(() => listening.calls).toBe(2);
    expect(await statusOf(as('eve'))).toBe(8);
    const other = as('ada');
    other.end(encodeFrame(Buffer.from('go')));
    expect(await statusOf(other)).toBe(0);
    for (const each of silent) each.close(8);
    await expect.poll(() => listening.calls).toBe(0);
    const later = as('eve');
    later.end(encodeFrame(Buffer.from('go')));
    expect(await statusOf(later)).toBe(0);
  });

  test.each(['Check', 'Watch'])(
    'calls of Health/%s without a request: the oldest ends, so that probes get their answer',
    async (name) => {
      const listening = await server();
      const session = client(listening);
      const path = `/grpc.health.v1.Health/${name}`;
      const [oldest, second] = [call(session, path), call(session, path)];
      await expect.poll(() => listening.calls).toBe(2);
      const ended = statusOf(oldest);
      const probe = call(session, path);
      probe.end(encodeFrame(new Uint8Array()));
      await once(probe, 'data');
      expect(await ended).toBe(8);
      expect(second.closed).toBe(false);
    },
  );

  test.each(['health.v1.Health/Check', 'reflection.v1.ServerReflection/ServerReflectionInfo'])(
    'the requests of %s, which needs no credentials, to 8 KiB',
    async (name) => {
      const listening = await server({ maxMessageBytes: 2 ** 24 });
      const stream = call(client(listening), `/grpc.${name}`);
      const head = Buffer.alloc(5);
      head.writeUInt32BE(2 ** 23, 1);
      stream.write(head);
      expect(await statusOf(stream)).toBe(8);
    },
  );

  test.each(['Unary', 'Echo'])(
    'the bytes of unfinished messages to maxReceivingBytes (%s)',
    async (name) => {
      const listening = await server({ maxReceivingBytes: 200_000, maxMessageBytes: 2 ** 20 });
      const session = client(listening);
      const long = encodeFrame(Buffer.alloc(180_000)).subarray(0, 150_000);
      const begin = (): ClientHttp2Stream => {
        const stream = call(session, `/test.Test/${name}`);
        stream.write(long);
        return stream;
      };
      // Either of the two is refused; which one depends on the order of their last chunks.
      const both = [begin(), begin()];
      expect(await Promise.race(both.map(statusOf))).toBe(14);
      await expect.poll(() => listening.calls).toBe(1);
    },
  );

  test('health watches to maxWatches, and rejects the next with RESOURCE_EXHAUSTED', async () => {
    const session = client(await server());
    const watch = (): ClientHttp2Stream => {
      const stream = call(session, '/grpc.health.v1.Health/Watch');
      stream.end(encodeFrame(new Uint8Array()));
      return stream;
    };
    const first = watch();
    const second = watch();
    await Promise.all([once(first, 'data'), once(second, 'data')]);
    expect(await statusOf(watch())).toBe(8);
    first.close(8);
    await expect
      .poll(async () => {
        const again = watch();
        const seen = await Promise.race([
          once(again, 'data').then(() => 'watching'),
          statusOf(again),
        ]);
        again.close(8);
        return seen;
      })
      .toBe('watching');
  });

  test('reflection streams to maxWatches, which need no credentials either', async () => {
    const session = client(await server());
    const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
    const reflect = (): ClientHttp2Stream => {
      const stream = call(session, path);
      stream.write(encodeFrame(Buffer.from([0x3a, 0]))); // list_services
      return stream;
    };
    const first = reflect();
    const second = reflect();
    await Promise.all([once(first, 'data'), once(second, 'data')]);
    expect(await statusOf(reflect())).toBe(8);
    first.end();
    expect(await statusOf(first)).toBe(0);
    const third = reflect();
    await once(third, 'data');
  });

  test('the length of a symbol that reflection looks up', async () => {
    const stream = call(
      client(await server()),
      '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
    );
    const request = create(ServerReflectionRequestSchema, {
      messageRequest: { case: 'fileContainingSymbol', value: '.'.repeat(1_001) },
    });
    stream.end(encodeFrame(toBinary(ServerReflectionRequestSchema, request)));
    const [frame] = (await once(stream, 'data')) as [Buffer];
    const { messageResponse } = fromBinary(
      ServerReflectionResponseSchema,
      new Uint8Array(frame.subarray(5)),
    );
    expect(messageResponse).toMatchObject({ case: 'errorResponse', value: { errorCode: 3 } });
  });

  test('connections to maxConnections', async () => {
    const errors: unknown[] = [];
    const listening = await server({ maxConnections: 1, onError: (error) => errors.push(error) });
    const session = client(listening);
    await once(session, 'connect');
    const { port } = new URL(listening.url);
    const socket = connectTcp(Number(port), '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'close');
    expect(errors).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });

  test('the time of a connection without calls to idleMs', async () => {
    const listening = await server({ idleMs: 500 });
    const [idle, busy] = [client(listening), client(listening)];
    call(busy, '/test.Test/Silent').end(encodeFrame(Buffer.from('go')));
    await once(idle, 'close');
    expect(busy.closed).toBe(false);
    expect(listening.calls).toBe(1);
  });
});

test.each(['stallMs', 'messageMs', 'maxCalls', 'maxConnections', 'idleMs', 'maxStreams'])(
  'listenGrpc rejects a %s that is not a positive number',
  async (name) => {
    for (const value of [0, -1, Number.NaN, '5'])
      await expect(listenGrpc([], { [name]: value })).rejects.toThrow(DuolaneError);
  },
);
