import { connect } from 'node:http2';
import { once } from 'node:events';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DuolaneError, RETRYABLE, type ErrorCode } from '../errors.ts';
import { Disposer } from '../stream/disposer.ts';
import { GrpcClient, type GrpcClientOptions } from './client.ts';
import { destroySession, resetStream } from '../http/close-http2.ts';
import type { Codec, GrpcMethod } from './method.ts';
import { bidiStream, clientStream, type GrpcRoute, serverStream, unary } from './route.ts';
import { type GrpcListening, listenGrpc, type ListenGrpcOptions } from './server.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

const text: Codec<string> = {
  encode: (message) => Buffer.from(message),
  decode: (bytes) => Buffer.from(bytes).toString(),
};
const method = (name: string): GrpcMethod<string, string> => ({
  path: `/test.Test/${name}`,
  request: text,
  response: text,
});

interface World extends AsyncDisposable {
  readonly client: GrpcClient;
  readonly server: GrpcListening;
}

async function world(
  routes: GrpcRoute[],
  options: ListenGrpcOptions = {},
  dialing: GrpcClientOptions = {},
): Promise<World> {
  const scope = new Disposer();
  const server = scope.use(await listenGrpc(routes, options));
  const client = scope.use(new GrpcClient(server.url, dialing));
  return { client, server, [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose]() };
}

async function toArray<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Something that a test waits for. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

const echo = unary(method('Echo'), (request) => request);
const stop = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

describe('the four kinds of method', () => {
  test('one message each way', async () => {
    await using at = await world([echo]);
    expect(await at.client.unary(method('Echo'), 'héllo')).toBe('héllo');
    expect(await at.client.unary(method('Echo'), '')).toBe('');
  });

  test('one in, many out; many in, one out; many both ways', async () => {
    await using at = await world([
      serverStream(method('Count'), async function* (request) {
        for (let n = 0; n < Number(request); n += 1) yield String(n);
      }),
      clientStream(method('Join'), async (requests) => (await toArray(requests)).join()),
      bidiStream(method('Shout'), async function* (requests) {
        for await (const request of requests) yield request.toUpperCase();
      }),
    ]);
    const numbers = await toArray(at.client.stream(method('Count'), { one: '1000' }));
    expect(numbers).toEqual(Array.from({ length: 1_000 }, (_, n) => String(n)));
    const many = async function* (): AsyncGenerator<string> {
      yield* ['a', 'b', 'c'];
    };
    expect(await toArray(at.client.stream(method('Join'), { many: many() }))).toEqual(['a,b,c']);
    const shouted = await toArray(at.client.stream(method('Shout'), { many: many() }));
    expect(shouted).toEqual(['A', 'B', 'C']);
  });

  test('in both directions concurrently: each response comes before the next request is made', async () => {
    await using at = await world([
      bidiStream(method('Shout'), async function* (requests) {
        for await (const request of requests) yield request.toUpperCase();
      }),
    ]);
    const heard: string[] = [];
    let next = gate();
    const many = async function* (): AsyncGenerator<string> {
      for (const word of ['a', 'b', 'c']) {
        next = gate();
        yield word;
        await next.opened;
      }
    };
    for await (const answer of at.client.stream(method('Shout'), { many: many() })) {
      heard.push(answer);
      next.open();
    }
    expect(heard).toEqual(['A', 'B', 'C']);
  });

  test('sixty-four concurrent calls on one connection', async () => {
    await using at = await world([echo]);
    const words = Array.from({ length: 64 }, (_, n) => `word ${n}`);
    expect(await Promise.all(words.map((word) => at.client.unary(method('Echo'), word)))).toEqual(
      words,
    );
    expect(at.client.calls).toBe(0);
    await expect.poll(() => at.server.calls).toBe(0);
  });
});

describe('a status', () => {
  test('every one of our codes is received as itself', async () => {
    const codes = Object.keys(RETRYABLE) as ErrorCode[];
    await using at = await world([
      unary(method('Fail'), (request) => {
        throw new DuolaneError(request as ErrorCode, `it was ${request} – ünd 100 %\n`);
      }),
    ]);
    for (const code of codes) {
      const error: unknown = await at.client.unary(method('Fail'), code).catch((e: unknown) => e);
      const withheld = ['internal', 'network', 'server', 'peer_exited'].includes(code);
      const message = expect.stringMatching(withheld ? /^[^–]+$/ : `it was ${code} – ünd 100 %\n`);
      expect(error).toMatchObject({ code, message });
    }
  });

  test('a handler chooses status, trailers and details, and they are forwarded unchanged', async () => {
    const trailers = { 'grpc-status-details-bin': new Uint8Array([1, 2, 250]), 'x-code': '-32055' };
    await using far = await world([
      unary(method('Fail'), () => {
        throw new DuolaneError('server', 'inner', { cause: new GrpcStatus(9, 'no tea', trailers) });
      }),
    ]);
    await using near = await world([
      unary(method('Fail'), (request) => far.client.unary(method('Fail'), request)),
    ]);
    const error: unknown = await near.client.unary(method('Fail'), '').catch((e: unknown) => e);
    expect(statusOf(error)).toMatchObject({ status: 9, message: 'no tea', trailers });
  });

  test('a message that is too long for a trailer is cut, and the status arrives', async () => {
    await using at = await world([
      unary(method('Fail'), (character) => {
        throw new DuolaneError('not_found', character.repeat(1_000_000));
      }),
    ]);
    for (const character of ['x', '☕']) {
      const error: unknown = await at.client.unary(method('Fail'), character).catch((e) => e);
      expect(error).toMatchObject({ code: 'not_found' });
      expect((error as Error).message).toMatch(new RegExp(`^${character}{1000,} … \\(cut\\)$`));
    }
  });

  test('invalid trailers affect neither the status of the call nor the server', async () => {
    const trailers = { 'x-name': 'é\n' };
    await using at = await world([
      unary(method('Fail'), () => {
        throw new DuolaneError('server', 'inner', { cause: new GrpcStatus(9, 'no', trailers) });
      }),
    ]);
    const error: unknown = await at.client.unary(method('Fail'), '').catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'internal' });
  });

  test('an error that is not a DuolaneError is withheld and reported to the server', async () => {
    const told: unknown[] = [];
    await using at = await world(
      [
        unary(method('Fail'), () => {
          throw new TypeError('the password is 1234');
        }),
      ],
      { onError: (error) => told.push(error) },
    );
    const error: unknown = await at.client.unary(method('Fail'), '').catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'internal', message: 'internal error' });
    expect(told).toHaveLength(1);
  });

  test('messages before a failure come first', async () => {
    await using at = await world([
      serverStream(method('Count'), async function* () {
        yield 'one';
        yield 'two';
        throw new DuolaneError('conflict', 'the disk is gone');
      }),
    ]);
    const seen: string[] = [];
    const run = (async () => {
      for await (const word of at.client.stream(method('Count'), { one: '' })) seen.push(word);
    })();
    await expect(run).rejects.toMatchObject({ code: 'conflict', message: 'the disk is gone' });
    expect(seen).toEqual(['one', 'two']);
  });

  test('an unknown method, and a server that cannot be reached', async () => {
    await using at = await world([]);
    await expect(at.client.unary(method('Nothing'), '')).rejects.toMatchObject({
      code: 'unsupported',
      message: 'unknown method "/test.Test/Nothing"',
    });
    await at.server[Symbol.asyncDispose]();
    const nobody = new GrpcClient(at.server.url);
    await expect(nobody.unary(method('Nothing'), '')).rejects.toMatchObject({ code: 'network' });
    await nobody[Symbol.asyncDispose]();
  });

  test('a server that closes is reported, and the client connects again at its next call', async () => {
    const scope = new Disposer();
    const first = await listenGrpc([unary(method('Wait'), (_, { signal }) => stop(signal)), echo], {
      closeMs: 20,
    });
    const port = Number(new URL(first.url).port);
    const client = scope.use(new GrpcClient(first.url));
    const waiting = client.unary(method('Wait'), '').catch((error: unknown) => error);
    await expect.poll(() => first.calls).toBe(1);
    await first[Symbol.asyncDispose]();
    expect(await waiting).toMatchObject({ code: 'closed' });
    scope.use(await listenGrpc([echo], { port }));
    expect(await client.unary(method('Echo'), 'again')).toBe('again');
    await scope[Symbol.asyncDispose]();
  });
});

describe('cancelling', () => {
  test('an abort reaches the handler, and the client throws its reason', async () => {
    const [begun, ended] = [gate(), gate()];
    await using at = await world([
      unary(method('Wait'), async (_, { signal }) => {
        begun.open();
        return stop(signal).finally(() => ended.open());
      }),
    ]);
    const controller = new AbortController();
    const run = at.client.unary(method('Wait'), '', { signal: controller.signal });
    run.catch(() => {});
    await begun.opened;
    controller.abort(new Error('enough'));
    await expect(run).rejects.toThrow('enough');
    await ended.opened;
    await expect.poll(() => at.server.calls).toBe(0);
  });

  test('breaking out of the loop runs the finally of the generator', async () => {
    const ended = gate();
    await using at = await world([
      serverStream(method('Count'), async function* () {
        try {
          for (let n = 0; ; n += 1) yield String(n);
        } finally {
          ended.open();
        }
      }),
    ]);
    for await (const word of at.client.stream(method('Count'), { one: '' }))
      if (word === '3') break;
    await ended.opened;
    expect(at.client.calls).toBe(0);
  });

  test('a signal that has aborted sends nothing', async () => {
    await using at = await world([echo]);
    const signal = AbortSignal.abort(new Error('before'));
    await expect(at.client.unary(method('Echo'), '', { signal })).rejects.toThrow('before');
    expect(at.client.calls).toBe(0);
  });

  test('a deadline ends the call at both ends', async () => {
    const reasons: unknown[] = [];
    let deadline: number | undefined;
    await using at = await world([
      unary(method('Wait'), async (_, call) => {
        deadline = call.deadline;
        return stop(call.signal).catch((reason: unknown) => {
          reasons.push(reason);
          throw reason;
        });
      }),
    ]);
    const wanted = Date.now() + 2_000; // the call has to arrive first
    const run = at.client.unary(method('Wait'), '', { deadline: wanted });
    await expect(run).rejects.toMatchObject({ code: 'timeout' });
    await expect.poll(() => reasons.length).toBe(1);
    // It goes over the wire as the time that is left, so a slow way makes it later.
    expect(deadline ?? 0).toBeGreaterThan(wanted - 1_000);
    await expect(
      at.client.unary(method('Wait'), '', { deadline: Date.now() - 1 }),
    ).rejects.toMatchObject({ code: 'timeout' });
  });

  test('1,100 cancels in a burst affect no other call, on one connection or several', async () => {
    const begun = new Set<string>();
    await using at = await world([
      serverStream(method('Wait'), async function* (request, { signal }) {
        begun.add(request);
        yield 'begun';
        await stop(signal);
      }),
      serverStream(method('Tick'), async function* (_, { signal }) {
        for (let n = 0; !signal.aborted; n += 1) {
          yield String(n);
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }),
    ]);
    const bystander = at.client.stream(method('Tick'), { one: '' });
    await bystander.next();
    await Promise.all(
      Array.from({ length: 1_100 }, async (_, n) => {
        for await (const word of at.client.stream(method('Wait'), { one: String(n) }))
          if (word) break;
      }),
    );
    expect(begun.size).toBe(1_100);
    expect((await bystander.next()).done).toBe(false);
    await bystander.return();
    await expect.poll(() => at.server.calls).toBe(0);
  });
});

describe('flow', () => {
  test('a reader that stops blocks the producer within a window, and no other call', async () => {
    let produced = 0;
    const line = 'x'.repeat(1_000);
    await using at = await world([
      serverStream(method('Flood'), async function* () {
        for (;;) {
          produced += 1;
          yield line;
        }
      }),
      echo,
    ]);
    const stalled = at.client.stream(method('Flood'), { one: '' });
    await stalled.next();
    let before = -1;
    while (before !== produced) {
      before = produced;
      for (let n = 0; n < 20; n += 1)
        expect(await at.client.unary(method('Echo'), line)).toBe(line);
    }
    // One window, and what the two sockets and the stream's own buffer hold.
    expect(produced).toBeLessThan(400);
    await stalled.return();
  });

  test('a slow reader of a finished stream gets all of it', async () => {
    await using at = await world([
      serverStream(method('Count'), async function* () {
        for (let n = 0; n < 50; n += 1) yield String(n).padEnd(900);
      }),
    ]);
    const seen: string[] = [];
    for await (const word of at.client.stream(method('Count'), { one: '' })) {
      seen.push(word.trim());
      if (seen.length % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(seen).toEqual(Array.from({ length: 50 }, (_, n) => String(n)));
  });

  test('messages over the limit are rejected on either side', async () => {
    await using at = await world([echo], { maxMessageBytes: 100 }, { maxMessageBytes: 50 });
    expect(await at.client.unary(method('Echo'), 'x'.repeat(50))).toHaveLength(50);
    for (const length of [51, 101])
      await expect(at.client.unary(method('Echo'), 'x'.repeat(length))).rejects.toMatchObject({
        code: 'too_large',
      });
    expect(at.client.calls).toBe(0);
  });

  test('any message is received as it was sent', async () => {
    await using at = await world([bidiStream(method('Echo'), (requests) => requests)]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ maxLength: 5_000 })), async (messages) => {
        const many = async function* (): AsyncGenerator<string> {
          yield* messages;
        };
        const back = await toArray(at.client.stream(method('Echo'), { many: many() }));
        expect(back).toEqual(messages.map((one) => Buffer.from(one).toString()));
      }),
      { numRuns: 30 },
    );
  });
});

describe('around a call', () => {
  test('metadata passes in both directions, text and bytes, and an unauthorized call is rejected', async () => {
    const bytes = new Uint8Array([0, 255, 7]);
    await using at = await world(
      [
        unary(method('Who'), (_, { metadata, principal }) => {
          expect(metadata['trace-bin']).toEqual(bytes);
          return `${String(principal)} ${String(metadata['x-word'])}`;
        }),
      ],
      {
        authorize: async ({ metadata }) => {
          if (metadata['authorization'] !== 'Bearer secret')
            throw new DuolaneError('unauthorized', 'a token is needed');
          return 'ann';
        },
      },
      { metadata: async () => ({ authorization: 'Bearer secret' }) },
    );
    const metadata = { 'x-word': 'hi there', 'trace-bin': bytes };
    expect(await at.client.unary(method('Who'), '', { metadata })).toBe('ann hi there');
    await using stranger = new GrpcClient(at.server.url);
    const refused: unknown = await stranger.unary(method('Who'), '').catch((e: unknown) => e);
    expect(refused).toMatchObject({ code: 'unauthorized', message: 'a token is needed' });
    expect(statusOf(refused)?.status).toBe(STATUS.unauthenticated);
    for (const bad of [{ 'X-Upper': 'a' }, { 'grpc-timeout': '1S' }, { note: 'ü' }])
      await expect(at.client.unary(method('Who'), '', { metadata: bad })).rejects.toMatchObject({
        code: 'invalid',
      });
  });

  test('a call ends when the credentials of its caller expire', async () => {
    let reason: unknown;
    await using at = await world(
      [
        unary(method('Wait'), async (_, { signal }) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          reason = signal.reason;
          return '';
        }),
      ],
      { authorize: (call) => call.expireAt(Date.now() + 1) },
    );
    await expect(at.client.unary(method('Wait'), '')).rejects.toMatchObject({
      code: 'unauthorized',
      message: 'the credentials of the caller have expired',
    });
    expect(reason).toMatchObject({ code: 'unauthorized' });
  });

  test('a request that is not gRPC gets an HTTP status', async () => {
    await using at = await world([echo]);
    const session = connect(at.server.url.replace('grpc:', 'http:'));
    for (const [headers, status] of [
      [{ ':method': 'GET', ':path': '/' }, 405],
      [{ ':method': 'POST', ':path': '/', 'content-type': 'text/plain' }, 415],
    ] as const) {
      const stream = session.request(headers);
      const [answer] = (await once(stream, 'response')) as [Record<string, unknown>];
      expect(answer[':status']).toBe(status);
      resetStream(stream, 0);
    }
    destroySession(session);
  });

  test('an invalid deadline, compression, an incomplete, a missing, a second message: each fails only its own call', async () => {
    await using at = await world([echo]);
    const session = connect(at.server.url.replace('grpc:', 'http:'));
    const raw = async (headers: Record<string, string>, body: Uint8Array): Promise<string> => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/test.Test/Echo',
        'content-type': 'application/grpc',
        ...headers,
      });
      stream.on('error', () => {});
      stream.end(body);
      const [answer] = (await once(stream, 'response')) as [Record<string, string>];
      stream.resume();
      return String(answer['grpc-status']);
    };
    const one = Buffer.from([0, 0, 0, 0, 1, 65]);
    expect(await raw({ 'grpc-timeout': 'soon' }, one)).toBe('3');
    expect(await raw({ 'grpc-encoding': 'gzip' }, one)).toBe('12');
    expect(await raw({}, one.subarray(0, 5))).toBe('3');
    expect(await raw({}, Buffer.alloc(0))).toBe('3');
    expect(await raw({}, Buffer.concat([one, one]))).toBe('3');
    expect(await at.client.unary(method('Echo'), 'well')).toBe('well');
    destroySession(session);
    await expect.poll(() => at.server.calls).toBe(0);
  });

  test('a client that is rejected while it sends leaves nothing behind', async () => {
    await using at = await world([unary(method('Echo'), (request) => request)], {
      authorize: () => {
        throw new DuolaneError('unauthorized', 'no caller may');
      },
    });
    const refused = Array.from({ length: 20 }, () =>
      at.client.unary(method('Echo'), 'x'.repeat(1_000_000)).catch((error: unknown) => error),
    );
    for (const error of await Promise.all(refused))
      expect(error).toMatchObject({ code: 'unauthorized' });
    await expect.poll(() => at.server.calls).toBe(0);
    expect(at.client.calls).toBe(0);
  });

  test('a client may ping as often as it is sent something, to measure the bandwidth', async () => {
    await using at = await world([bidiStream(method('Echo'), (requests) => requests)]);
    const session = connect(at.server.url.replace('grpc:', 'http:'));
    const headers = { 'content-type': 'application/grpc', te: 'trailers' };
    const stream = session.request({ ':method': 'POST', ':path': '/test.Test/Echo', ...headers });
    for (let n = 0; n < 300; n += 1) {
      stream.write(Buffer.from([0, 0, 0, 0, 1, 65]));
      await once(stream, 'data');
      await new Promise((resolve) => session.ping(resolve));
    }
    expect(session.destroyed).toBe(false);
    destroySession(session);
  });

  test('a client that pings without end is disconnected', async () => {
    await using at = await world([echo]);
    const session = connect(at.server.url.replace('grpc:', 'http:'), { maxOutstandingPings: 500 });
    session.on('error', () => {});
    const gone = once(session, 'goaway');
    await once(session, 'connect');
    for (let n = 0; n < 300; n += 1) session.ping(() => {});
    expect((await gone)[0]).toBe(11);
    expect(await at.client.unary(method('Echo'), 'well')).toBe('well');
  });
});
