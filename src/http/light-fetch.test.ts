import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { lightFetch } from './light-fetch.ts';
import { type Handler, listen, type Listening } from './node-server.ts';
import { sseResponse } from './sse-response.ts';
import { textResponse } from './text-response.ts';

const open: AsyncDisposable[] = [];
const fetch = lightFetch();
afterEach(async () => {
  fetch.close();
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

async function serve(
  handler: Handler,
): Promise<Listening & { readonly connections: () => number }> {
  const listening = await listen(handler);
  open.push(listening);
  let connections = 0;
  listening.server.on('connection', () => (connections += 1));
  return { ...listening, connections: () => connections };
}

test('Unicode bodies pass in both directions, and a complete response has its length', async () => {
  const { url } = await serve(async (request) =>
    textResponse(`${request.method} ${await request.text()}`, 201, { 'x-a': 'b' }),
  );
  const response = await fetch(new URL(url), { method: 'POST', body: 'grüße 世界' });
  expect([response.ok, response.status]).toEqual([true, 201]);
  expect(response.headers.get('X-A')).toBe('b');
  expect(response.headers.get('content-length')).toBe('19');
  expect(response.headers.get('x-none')).toBeNull();
  expect(await response.text()).toBe('POST grüße 世界');
});

test('one connection serves one request after the other, also after breaking out of a stream', async () => {
  const { url, connections } = await serve(async () =>
    sseResponse(
      (async function* () {
        yield { data: 'wanted' };
        yield { data: 'the rest' };
      })(),
    ),
  );
  // The rest comes to its end by itself, some time; from then on the connection is free.
  let made = 0;
  do {
    const { body } = await fetch(new URL(url), {});
    for await (const chunk of body!) {
      expect(String(Buffer.from(chunk))).toContain('wanted');
      break;
    }
    made += 1;
    await new Promise((resolve) => setImmediate(resolve));
  } while (connections() === made && made < 100);
  expect(connections()).toBeLessThan(made);
});

test('a redirect is followed within the origin and rejected beyond it', async () => {
  const other = await serve(async () => new Response('stolen'));
  const { url } = await serve(async (request) => {
    const { pathname } = new URL(request.url);
    const moved = (location: string): Response =>
      new Response(null, { status: 307, headers: { location } });
    if (pathname === '/here') return moved('/there');
    if (pathname === '/loop') return moved('/loop');
    if (pathname === '/away') return moved(other.url);
    return new Response(await request.text());
  });
  const post = { method: 'POST', body: 'secret' };
  expect(await (await fetch(new URL('/here', url), post)).text()).toBe('secret');
  for (const path of ['/away', '/loop'])
    await expect(fetch(new URL(path, url), post)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('it leads to') as string,
    });
});

test('an abort ends a request before its head, and in the middle of its body', async () => {
  const { url } = await serve(async (request) => {
    if (request.url.endsWith('/never')) await new Promise(() => {});
    return sseResponse(
      (async function* () {
        yield { data: 'one' };
        await new Promise(() => {});
      })(),
    );
  });
  const reason = new Error('enough');
  const early = new AbortController();
  const never = fetch(new URL('/never', url), { signal: early.signal });
  early.abort(reason);
  await expect(never).rejects.toBe(reason);
  const late = new AbortController();
  const { body } = await fetch(new URL(url), { signal: late.signal });
  const reading = (async () => {
    for await (const chunk of body!) if (chunk.byteLength > 0) late.abort(reason);
  })();
  await expect(reading).rejects.toBe(reason);
  await expect(fetch(new URL(url), { signal: late.signal })).rejects.toBe(reason);
});

test('a connection that is refused rejects with the error of the socket', async () => {
  const { url } = await serve(async () => new Response());
  await open.splice(0)[0]?.[Symbol.asyncDispose]();
  await expect(fetch(new URL(url), {})).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

test('a server that switches protocols does not keep the request forever', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    await expect(fetch(new URL(`http://127.0.0.1:${port}/`), {})).rejects.toMatchObject({
      code: 'network',
    });
  } finally {
    server.close();
  }
});
