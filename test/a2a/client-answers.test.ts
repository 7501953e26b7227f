import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { connectA2A, type A2AClient } from '../../src/a2a/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { httpServer } from './support.ts';

type Answer = (response: ServerResponse) => void;

/** A server with a good card that answers everything else with what the test says. */
async function answering(
  answer: Answer,
  capabilities: JsonObject = {},
): Promise<AsyncDisposable & { readonly client: A2AClient; readonly asked: () => number }> {
  let asked = 0;
  const server = await httpServer(({ method }, response) => {
    const card = { name: 'x', protocolVersion: '0.3.0', url: server.url, capabilities };
    if (method === 'GET') return void response.end(JSON.stringify(card));
    asked++;
    answer(response);
  });
  return { ...server, client: await connectA2A(server.url), asked: () => asked };
}

const EXACT = { extensions: [{ uri: 'urn:duolane:a2a:resume:v1' }] };

test.each([
  [400, 'invalid', false],
  [401, 'unauthorized', false],
  [403, 'unauthorized', false],
  [404, 'not_found', false],
  [413, 'too_large', false],
  [429, 'rate_limited', true],
  [500, 'server', true],
  [503, 'overloaded', true],
])('an answer of %i is %s, with and without words of A2A', async (status, code, retryable) => {
  for (const body of ['<html>no</html>', '{"message":"no"}']) {
    await using server = await answering((response) => response.writeHead(status).end(body));
    const call = server.client.get('t');
    await expect(call).rejects.toMatchObject({ code, retryable, status });
    await expect(call).rejects.toThrow('no');
  }
});

test('a mistake of the caller is not retried', async () => {
  await using server = await answering((response) => response.writeHead(400).end('{}'), EXACT);
  const stream = server.client.stream('go', { retryMs: 1, retryForMs: 2000 });
  await expect(stream.result()).rejects.toMatchObject({ code: 'invalid' });
  expect(server.asked()).toBe(1);
});

test('a client waits for the time of Retry-After', async () => {
  const busy: Answer = (response) => response.writeHead(429, { 'retry-after': '3600' }).end('busy');
  await using server = await answering(busy, EXACT);
  const stream = server.client.stream('go', { retryMs: 1, retryForMs: 2000 });
  const failure: unknown = await stream.result().catch((error: unknown) => error);
  expect(failure).toMatchObject({ cause: { code: 'rate_limited', retryAfterMs: 3_600_000 } });
  expect(server.asked()).toBe(1);
});

test('a response that is too large is aborted', async () => {
  const closed: Promise<unknown>[] = [];
  await using server = await answering((response) => {
    const piece = Buffer.alloc(1 << 20, ' ');
    closed.push(new Promise((resolve) => response.once('close', resolve)));
    const fill = (): void => {
      while (!response.destroyed && response.write(piece));
      if (!response.destroyed) response.once('drain', fill);
    };
    fill();
  });
  await expect(server.client.get('t')).rejects.toMatchObject({ code: 'too_large' });
  await Promise.all(closed);
});

test.each<[string, Answer, object]>([
  ['is for others', (response) => response.writeHead(401).end(), { code: 'unauthorized' }],
  ['is not there', (response) => response.writeHead(404).end(), { code: 'not_found' }],
  ['is unavailable', (response) => response.writeHead(503).end(), { retryable: true }],
  ['is a page', (response) => response.end('<html></html>'), { code: 'not_found' }],
  [
    'breaks off',
    (response) => {
      response.writeHead(200, { 'content-length': 100 }).write('{');
      setImmediate(() => response.destroy());
    },
    { code: 'network', retryable: true },
  ],
])('a card that %s is said so', async (_, answer, failure) => {
  await using server = await httpServer((_request, response) => answer(response));
  await expect(connectA2A(server.url)).rejects.toMatchObject(failure);
});

test('an abort while the card is read rejects with its reason', async () => {
  const stop = new AbortController();
  const reason = new Error('enough');
  await using server = await httpServer((_request, response) => response.write('{'));
  const got: typeof fetch = async (at, init) => {
    const response = await fetch(at, init);
    setImmediate(() => stop.abort(reason));
    return response;
  };
  const connecting = connectA2A(server.url, { signal: stop.signal, fetch: got });
  await expect(connecting).rejects.toBe(reason);
});

test('the result of a stream that was disconnected before its first event is `closed`', async () => {
  await using server = await answering(() => {});
  const stream = server.client.stream('go');
  const result = stream.result();
  stream.disconnect();
  await expect(result).rejects.toMatchObject({ code: 'closed' });
});
