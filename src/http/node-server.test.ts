import { EventEmitter, once } from 'node:events';
import { createServer, ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { listen, nodeHandler, type Handler, type Listening } from './node-server.ts';
import { DuolaneError } from '../errors.ts';
import { readBodyText } from './read-body.ts';
import { sleep } from '../stream/abort.ts';
import { sseResponse, streamResponse, type SseItem } from './sse-response.ts';
import { textResponse } from './text-response.ts';

let listening: Listening | undefined;
afterEach(async () => {
  await listening?.[Symbol.asyncDispose]();
  listening = undefined;
});
const serve = async (handler: Handler): Promise<string> => (listening = await listen(handler)).url;

test('a handler gets a Request with all of its members', async () => {
  const url = await serve(async (request) => {
    expect(request).toBeInstanceOf(Request);
    const copy = request.clone();
    const form = await copy.formData();
    return Response.json({
      method: request.method,
      path: new URL(request.url).pathname,
      type: request.headers.get('content-type')?.split(';')[0],
      form: form.get('a'),
      used: [request.bodyUsed, copy.bodyUsed],
      text: (await request.text()).includes('form-data'),
    });
  });
  const body = new FormData();
  body.set('a', 'b');
  const response = await fetch(`${url}/x?y=1`, { method: 'POST', body });
  expect(await response.json()).toEqual({
    method: 'POST',
    path: '/x',
    type: 'multipart/form-data',
    form: 'b',
    used: [false, true],
    text: true,
  });
});

test.each(['text', 'json', 'arrayBuffer', 'body'] as const)('a body is read by %s', async (way) => {
  const url = await serve(async (request) => {
    if (way === 'text') return new Response(await request.text());
    if (way === 'json') return Response.json(await request.json());
    if (way === 'arrayBuffer') return new Response(await request.arrayBuffer());
    return new Response(request.body);
  });
  const sent = JSON.stringify({ a: 'ä'.repeat(100_000) });
  const response = await fetch(url, { method: 'POST', body: sent });
  expect(await response.text()).toBe(sent);
});

test("the request's signal aborts when the client disconnects, and the source's finally runs", async () => {
  let left: (reason: unknown) => void = () => {};
  const gone = new Promise((resolve) => (left = resolve));
  const url = await serve(async (request) => {
    async function* events() {
      try {
        yield { data: 'one' };
        await new Promise((_resolve, reject) =>
          request.signal.addEventListener('abort', () => reject(request.signal.reason as Error)),
        );
      } finally {
        left(request.signal.reason);
      }
    }
    return sseResponse(events());
  });
  const stop = new AbortController();
  const response = await fetch(url, { signal: stop.signal });
  const reader = response.body!.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: one\n\n');
  stop.abort();
  await reader.read().catch(() => {});
  expect(await gone).toMatchObject({ code: 'closed' });
});

test('the headers of a silent stream are sent immediately, also if other silent streams begin', async () => {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  async function* silence(): AsyncGenerator<SseItem, void, undefined> {
    await ended;
    yield { data: 'at last' };
  }
  const url = await serve(async () => sseResponse(silence()));
  const responses = await Promise.all([fetch(url), fetch(url), fetch(url)]);
  for (const { status } of responses) expect(status).toBe(200);
  end();
  for (const response of responses) expect(await response.text()).toBe('data: at last\n\n');
});

test('streams that begin together send their headers with their first text', async () => {
  let speak = (): void => {};
  const said = new Promise<void>((resolve) => (speak = resolve));
  let streams = 0;
  async function* words(): AsyncGenerator<SseItem, void, undefined> {
    if (++streams === 1) await said;
    yield { data: 'hello' };
  }
  const flushed = vi.spyOn(ServerResponse.prototype, 'flushHeaders');
  const url = await serve(async () => sseResponse(words()));
  const silentOne = await fetch(url);
  expect(flushed).toHaveBeenCalledTimes(1);
  expect(await (await fetch(url)).text()).toBe('data: hello\n\n');
  expect(flushed).toHaveBeenCalledTimes(1);
  flushed.mockRestore();
  speak();
  expect(await silentOne.text()).toBe('data: hello\n\n');
});

test('an error of a handler is a 500 without its message', async () => {
  const url = await serve(async () => {
    throw new Error('secret of the house');
  });
  const response = await fetch(url);
  expect(response.status).toBe(500);
  expect(await response.text()).toBe('');
});

test('the error for a port in use says so', async () => {
  const url = await serve(async () => new Response('here'));
  await expect(
    listen(async () => new Response(), { port: Number(new URL(url).port) }),
  ).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('in use') as string,
  });
});

test('a stream without node:http is an ordinary web response', async () => {
  async function* events() {
    yield { id: '1', data: 'a' };
    yield 'heartbeat' as const;
    yield { retry: 5 };
  }
  const response = sseResponse(events());
  expect(await response.text()).toBe('id: 1\ndata: a\n\n: \n\nretry: 5\n\n');
});

describe('an SSE response', () => {
  test('can be used as a web Response, on any runtime', async () => {
    let left = false;
    async function* items(): AsyncGenerator<SseItem | readonly SseItem[], void, undefined> {
      try {
        yield { id: '1', data: 'a' };
        yield [{ id: '2', data: 'b' }, 'heartbeat'];
      } finally {
        left = true;
      }
    }
    const response = sseResponse(items());
    expect(response).toBeInstanceOf(Response);
    expect([response.status, response.ok, response.bodyUsed]).toEqual([200, true, false]);
    response.headers.set('x-more', 'yes');
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(new Response(response.body, response).headers.get('x-more')).toBe('yes');
    const again = sseResponse(items());
    expect(await again.text()).toBe('id: 1\ndata: a\n\nid: 2\ndata: b\n\n: \n\n');
    expect(left).toBe(true);
  });
});

describe('a client that disconnects while its stream is silent', () => {
  /** One item, then silence until `return` is called. */
  function silent(): { readonly items: AsyncIterable<never>; readonly returned: Promise<void> } {
    let end = (): void => {};
    const returned = new Promise<void>((resolve) => (end = resolve));
    let first = true;
    const iterator = {
      next: () =>
        first
          ? ((first = false), Promise.resolve({ done: false, value: { data: 'a' } }))
          : new Promise(() => {}),
      return: () => (end(), Promise.resolve({ done: true, value: undefined })),
    };
    return { items: { [Symbol.asyncIterator]: () => iterator } as never, returned };
  }
  const bytes = (source: AsyncIterable<{ readonly data: string }>): ReadableStream => {
    const iterator = source[Symbol.asyncIterator]();
    return new ReadableStream({
      async pull(controller) {
        const { value } = (await iterator.next()) as { value: { data: string } };
        controller.enqueue(new TextEncoder().encode(value.data));
      },
      cancel: () => void iterator.return?.(),
    });
  };

  test.each([
    ['sseResponse', (items: AsyncIterable<never>) => sseResponse(items)],
    ['a Response with a body', (items: AsyncIterable<never>) => new Response(bytes(items))],
  ])('closes its source immediately (%s)', async (_, respond) => {
    const { items, returned } = silent();
    const url = await serve(async () => respond(items));
    const leaving = new AbortController();
    const response = await fetch(url, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    expect(await returned).toBeUndefined();
  });

  test('ends a generator that waits by the signal of its request', async () => {
    let left = (): void => {};
    const finished = new Promise<void>((resolve) => (left = resolve));
    const url = await serve(async ({ signal }) => {
      const items = async function* (): AsyncGenerator<SseItem, void, undefined> {
        try {
          yield { data: 'a' };
          await sleep(3_600_000, signal);
        } finally {
          left();
        }
      };
      return sseResponse(items());
    });
    const leaving = new AbortController();
    const response = await fetch(url, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    expect(await finished).toBeUndefined();
  });
});

describe('behind something that reads bodies', () => {
  test.each([
    ['parses them', (text: string): unknown => JSON.parse(text)],
    ['keeps their text', (text: string): unknown => text],
    ['keeps their bytes', (text: string): unknown => Buffer.from(text)],
  ])('and %s, they are read from there', async (_, parse) => {
    const handler = nodeHandler(async (request) =>
      request.headers.get('x-way') === 'body'
        ? new Response(request.body)
        : new Response(await request.text()),
    );
    const server = createServer((incoming, outgoing) => {
      void text(incoming).then((body) => {
        handler(Object.assign(incoming, { body: parse(body) }), outgoing);
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const body = JSON.stringify({ a: 'ä' });
    for (const way of ['text', 'body']) {
      const headers = { 'content-type': 'application/json', 'x-way': way };
      const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body });
      expect(await response.text()).toBe(body);
    }
    server.closeAllConnections();
    server.close();
  });
});

describe('a raw client', () => {
  async function raw(url: string, text: string): Promise<string> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.setEncoding('utf8');
    socket.write(text);
    let answer = '';
    socket.on('data', (chunk: string) => (answer += chunk));
    await once(socket, 'close');
    return answer;
  }

  test.each([
    ['two Host headers', 'Host: a\r\nHost: b\r\n'],
    ['two equal Host headers', 'Host: a\r\nhost: a\r\n'],
    ['a Host that holds a path', 'Host: a/metrics?\r\n'],
    ['a Host that hides the path', 'Host: a#\r\n'],
    ['a Host with a backslash', 'Host: a\\b\r\n'],
    ['a Host with a user', 'Host: localhost@a\r\n'],
    ['another transfer coding', 'Host: a\r\nTransfer-Encoding: xchunked, chunked\r\n'],
  ])('with %s is refused with 400', async (_, headers) => {
    let handled = 0;
    const url = await serve(async () => (handled++, new Response('ok')));
    const text = `POST / HTTP/1.1\r\n${headers}Connection: close\r\n\r\n0\r\n\r\n`;
    expect(await raw(url, text)).toMatch(/^HTTP\/1\.1 400 /);
    expect(handled).toBe(0);
  });

  test.each([
    ['the headers', 'POST / HTTP/1.1\r\nHost: a\r\n'],
    ['the body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf'],
  ])('that does not finish %s is cut with 408', async (_, text) => {
    const handler: Handler = async (request) => new Response(await request.text());
    listening = await listen(handler, { headersMs: 100, requestMs: 200 });
    expect(await raw(listening.url, text)).toMatch(/^HTTP\/1\.1 408 /);
  });

  test('beyond maxConnections is refused, which is reported', async () => {
    const errors: unknown[] = [];
    listening = await listen(async () => new Response('ok'), {
      maxConnections: 1,
      onError: (error) => errors.push(error),
    });
    const first = connect(Number(new URL(listening.url).port), '127.0.0.1');
    await once(first, 'connect');
    await expect.poll(() => raw((listening as Listening).url, 'GET / HTTP/1.1\r\n')).toBe('');
    await expect.poll(() => errors).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
    first.destroy();
  });

  test.each(['headersMs', 'requestMs', 'maxConnections', 'stallMs'])(
    'is limited by a positive %s only',
    async (name) => {
      for (const value of [0, -1, Number.NaN])
        await expect(listen(async () => new Response(), { [name]: value })).rejects.toMatchObject({
          code: 'invalid',
        });
    },
  );
});

describe('a client on a slow line', () => {
  /** A response whose socket is full after every write; `read` takes so many bytes out of it. */
  function slowLine() {
    const line = { destroyed: false, ended: false, bytes: 0 };
    let waiting = 0;
    const outgoing = Object.assign(new EventEmitter(), {
      writeHead() {},
      flushHeaders() {},
      write(chunk: string | Uint8Array) {
        waiting += chunk.length;
        return false;
      },
      end: () => (line.ended = true),
      destroy: () => {
        line.destroyed = true;
        outgoing.emit('close');
      },
    });
    const read = (bytes: number): void => {
      line.bytes += Math.min(bytes, waiting);
      waiting -= Math.min(bytes, waiting);
      if (waiting === 0) outgoing.emit('drain');
    };
    return { line, read, outgoing };
  }
  const incoming = { method: 'GET', url: '/', headers: { host: 'a' }, rawHeaders: ['host', 'a'] };
  const LONG = 'x'.repeat(1_000_000);
  const responses: [string, () => Response][] = [
    ['of a JSON text', () => new Response(LONG)],
    ['of an event', () => streamResponse(oneText(LONG), {})],
    ['that is written in one piece', () => textResponse(LONG, 200, {})],
  ];
  async function* oneText(text: string): AsyncGenerator<string, void, undefined> {
    yield text;
  }

  test.each(responses)('gets all %s: each piece that goes out counts', async (_, respond) => {
    vi.useFakeTimers();
    try {
      const { line, read, outgoing } = slowLine();
      nodeHandler(async () => respond(), { stallMs: 1000 })(incoming as never, outgoing as never);
      for (let i = 0; i < 100 && !line.ended && !line.destroyed; i++) {
        await vi.advanceTimersByTimeAsync(900);
        read(64 * 1024);
      }
      expect(line).toEqual({ destroyed: false, ended: true, bytes: LONG.length });
    } finally {
      vi.useRealTimers();
    }
  });

  test.each(responses)('is cut when it reads nothing %s', async (_, respond) => {
    vi.useFakeTimers();
    try {
      const errors: unknown[] = [];
      const { line, outgoing } = slowLine();
      const onError = (error: unknown): number => errors.push(error);
      const handler = nodeHandler(async () => respond(), { stallMs: 1000, onError });
      handler(incoming as never, outgoing as never);
      await vi.advanceTimersByTimeAsync(3000);
      expect(line.destroyed).toBe(true);
      expect(errors).toEqual([expect.objectContaining({ code: 'timeout' })]);
    } finally {
      vi.useRealTimers();
    }
  });

  test('cannot use up the memory: long responses that are not read have a limit', async () => {
    const long = 'x'.repeat(20_000_000);
    const errors: unknown[] = [];
    const handler: Handler = async () => textResponse(long, 200, {});
    const onError = (error: unknown): number => errors.push(error);
    listening = await listen(handler, { maxUnsentBytes: 25_000_000, onError });
    const silent = connect(Number(new URL(listening.url).port), '127.0.0.1');
    silent.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await once(silent, 'readable');
    for (;;) {
      const response = await fetch(listening.url);
      const body = await response.text();
      if (response.status === 200) {
        expect(body.length).toBe(long.length);
        break;
      }
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
      await sleep(100);
    }
    expect(errors).toEqual([expect.objectContaining({ code: 'overloaded' })]);
    silent.destroy();
  });

  const MANY = 20_000_000;
  const bytes = new Uint8Array(64 * 1024);
  const streams: [string, () => Response][] = [
    ['an event', () => sseResponse(oneItem({ data: 'x'.repeat(MANY) }))],
    ['a line', () => streamResponse(oneText('x'.repeat(MANY)), {})],
    ['a JSON text', () => Response.json('x'.repeat(MANY))],
    ['a file', () => new Response(ReadableStream.from(pieces()))],
  ];
  async function* oneItem(item: SseItem): AsyncGenerator<SseItem, void, undefined> {
    yield item;
  }
  async function* pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let at = 0; at < MANY; at += bytes.length) yield bytes;
  }

  test.each(streams)('cannot use up the memory with %s', async (_, respond) => {
    const errors: unknown[] = [];
    // A byte less than what waits for the first client, so that it does not fit beside another.
    const options = { maxUnsentBytes: 1, onError: (error: unknown) => errors.push(error) };
    listening = await listen(async () => respond(), options);
    const { port } = new URL(listening.url);
    const ask = async () => {
      const silent = connect(Number(port), '127.0.0.1');
      silent.on('error', () => {});
      silent.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
      await once(silent, 'readable');
      return silent;
    };
    const first = await ask();
    const second = await ask();
    // One of the two is disconnected, before `stallMs`.
    await expect.poll(() => errors.length, { timeout: 10_000 }).toBe(1);
    expect(errors).toEqual([expect.objectContaining({ code: 'overloaded' })]);
    first.destroy();
    second.destroy();
  });
});

describe('requests that follow each other on a connection', () => {
  test('are handled one after the other', async () => {
    const handled: string[] = [];
    let finish: (response: Response) => void = () => {};
    const url = await serve((request) => {
      handled.push(new URL(request.url).pathname);
      return new Promise((resolve) => (finish = resolve));
    });
    const client = connect(Number(new URL(url).port), '127.0.0.1');
    const request = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;
    client.write(request('/1') + request('/2') + request('/3'));
    for (const count of [1, 2, 3]) {
      await expect.poll(() => handled.length).toBe(count);
      await sleep(10);
      expect(handled).toHaveLength(count);
      finish(new Response(`response ${count}`));
    }
    let seen = '';
    client.on('data', (chunk) => (seen += String(chunk)));
    await expect.poll(() => seen).toContain('response 3');
    expect(handled).toEqual(['/1', '/2', '/3']);
    client.destroy();
  });

  test('have a limit: a client that never reads cannot queue more and more', async () => {
    const url = await serve(() => new Promise(() => {}));
    const client = connect(Number(new URL(url).port), '127.0.0.1');
    client.on('error', () => {});
    client.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(102));
    await once(client, 'close');
    expect(client.destroyed).toBe(true);
  });

  test('have a limit of bytes: a client cannot fill the memory with long ones', async () => {
    const url = await serve(() => new Promise(() => {}));
    let read = (): number => 0;
    listening?.server.once('connection', (socket) => (read = () => socket.bytesRead));
    const client = connect(Number(new URL(url).port), '127.0.0.1');
    client.on('error', () => {});
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    const body = 'z'.repeat(10_000);
    const long = `x-long: ${'y'.repeat(10_000)}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    for (let i = 0; i < 90; i++) client.write(`POST / HTTP/1.1\r\nhost: a\r\n${long}`);
    await closed;
    expect(read()).toBeLessThan(400_000);
  });
});

describe('bodies that arrive slowly', () => {
  test.each(['content-length: 200000', 'transfer-encoding: chunked'])(
    'have a limit of bytes together (%s)',
    async (header) => {
      const read: string[] = [];
      const handler: Handler = async (request) => {
        try {
          await readBodyText(request, 1_000_000, () => new Error('too large'));
          read.push('complete');
        } catch (error) {
          read.push(DuolaneError.from(error).code);
        }
        return new Response('done');
      };
      listening = await listen(handler, { maxReceivingBytes: 150_000 });
      const { port } = new URL(listening.url);
      const begin = () => {
        const client = connect(Number(port), '127.0.0.1');
        client.on('error', () => {});
        client.write(`POST / HTTP/1.1\r\nhost: a\r\n${header}\r\n\r\n`);
        const part = 'x'.repeat(100_000);
        client.write(header.startsWith('content') ? part : `186a0\r\n${part}\r\n`);
        return client;
      };
      const clients = [begin(), begin()];
      await expect.poll(() => read).toEqual(['overloaded']);
      for (const client of clients) client.destroy();
      await expect.poll(() => read).toEqual(['overloaded', 'closed']);
    },
  );
});
