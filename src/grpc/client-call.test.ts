import { getEventListeners, on } from 'node:events';
import { afterEach, expect, test, vi } from 'vitest';
import { ClientCall } from './client-call.ts';
import { GrpcClient, listenGrpc, unary } from './index.ts';
import type { Connection } from './connection.ts';
import { eventually } from '../../test/support/busy.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('a connection that accepts no request leaves neither timer nor listener', () => {
  vi.useFakeTimers();
  const refused = Object.assign(new Error('The session has been destroyed'), {
    code: 'ERR_HTTP2_INVALID_SESSION',
  });
  const connection = {
    request() {
      throw refused;
    },
  } as unknown as Connection;
  const caller = new AbortController();
  const options = { deadline: Date.now() + 1_000, metadata: {}, signal: caller.signal };
  let ended = 0;
  expect(() => new ClientCall(connection, '/s/m', options, () => (ended += 1))).toThrow(
    expect.objectContaining({ code: 'network', cause: refused }),
  );
  expect(vi.getTimerCount()).toBe(0);
  caller.abort();
  expect(ended).toBe(0);
});

test('a request that cannot be encoded opens no call, here or at the server', async () => {
  const text = {
    encode: (value: string): Uint8Array => {
      if (value === 'bad') throw new TypeError('cannot encode');
      return Buffer.from(value);
    },
    decode: (bytes: Uint8Array): string => Buffer.from(bytes).toString(),
  };
  const method = { path: '/s/echo', request: text, response: text };
  await using server = await listenGrpc([unary(method, async (request: string) => request)]);
  await using client = new GrpcClient(server.url);
  for (let i = 0; i < 5; i += 1)
    await expect(client.unary(method, 'bad')).rejects.toThrow('cannot encode');
  expect(await client.unary(method, 'fine')).toBe('fine');
  expect(client.calls).toBe(0);
  await eventually(() => expect(server.calls).toBe(0));
});

test.each(['unary', 'stream'] as const)(
  'a %s call that is cancelled in the moment in which it begins ends with the reason',
  async (kind) => {
    const text = {
      encode: (value: string): Uint8Array => Buffer.from(value),
      decode: (bytes: Uint8Array): string => Buffer.from(bytes).toString(),
    };
    const method = { path: '/s/never', request: text, response: text };
    await using server = await listenGrpc([unary(method, () => new Promise<string>(() => {}))], {
      closeMs: 20,
    });
    // The gap is some microtasks after the start; every one of the first is tried.
    for (let ticks = 0; ticks < 8; ticks += 1) {
      await using client = new GrpcClient(server.url);
      const caller = new AbortController();
      const reason = new Error(`after ${ticks} ticks`);
      const { signal } = caller;
      const called =
        kind === 'unary'
          ? client.unary(method, 'x', { signal })
          : client.stream(method, { one: 'x' }, { signal }).next();
      const ended = called.catch((error: unknown) => error);
      for (let i = 0; i < ticks; i += 1) await Promise.resolve();
      caller.abort(reason);
      expect(await ended).toBe(reason);
      expect(client.calls).toBe(0);
    }
  },
);

const TEXT = {
  encode: (value: string): Uint8Array => Buffer.from(value),
  decode: (bytes: Uint8Array): string => Buffer.from(bytes).toString(),
};
const ECHO = { path: '/s/echo', request: TEXT, response: TEXT };

test('a call whose metadata never comes still ends by its abort, its deadline or a dispose', async () => {
  await using server = await listenGrpc([unary(ECHO, async (request: string) => request)]);
  const asked: (() => void)[] = [];
  const client = new GrpcClient(server.url, {
    metadata: () => new Promise((_, reject) => asked.push(() => reject(new Error('too late')))),
  });
  const caller = new AbortController();
  const { signal } = caller;
  const aborted = client.unary(ECHO, 'a', { signal });
  const streamed = client.stream(ECHO, { one: 'b' }, { signal }).next();
  const late = client.unary(ECHO, 'c', { deadline: Date.now() + 1 });
  const open = client.unary(ECHO, 'd');
  await eventually(() => expect(asked).toHaveLength(4));
  caller.abort(new Error('not any more'));
  await expect(aborted).rejects.toThrow('not any more');
  await expect(streamed).rejects.toThrow('not any more');
  await expect(late).rejects.toMatchObject({ code: 'timeout' });
  const left = open.catch((error: unknown) => error);
  await client[Symbol.asyncDispose]();
  expect(await left).toMatchObject({ code: 'closed' });
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  // A later result has no reader: it must not end the process.
  for (const reject of asked) reject();
  await new Promise((resolve) => setImmediate(resolve));
});

test('an error of a handler is a warning of the process without onError', async () => {
  const warnings = on(process, 'warning');
  const broken = unary(ECHO, async (): Promise<string> => {
    throw new Error('password=hunter2');
  });
  await using server = await listenGrpc([broken]);
  await using client = new GrpcClient(server.url);
  const failed = await client.unary(ECHO, 'a').catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'internal' });
  expect(String(failed)).not.toContain('hunter2');
  for await (const [error] of warnings) if ((error as Error).message === 'password=hunter2') return;
});
