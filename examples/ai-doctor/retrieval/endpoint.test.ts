import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ollamaEmbedder, openAiEmbedder } from './endpoint.ts';

let server: Server;
let base = '';
const asked: {
  readonly url: string | undefined;
  readonly auth: string | undefined;
  readonly body: unknown;
}[] = [];
let reply: (body: { readonly input: readonly string[] }) => {
  readonly status?: number;
  readonly json: unknown;
};

beforeAll(async () => {
  server = createServer((request, response) => {
    void answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = (await json(request)) as { readonly input: readonly string[] };
  asked.push({ url: request.url, auth: request.headers.authorization, body });
  const { status = 200, json: said } = reply(body);
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said));
}

test('an OpenAI-compatible endpoint gets model, key and size, and its results are sorted', async () => {
  reply = ({ input }) => ({
    json: { data: input.map((_, index) => ({ index, embedding: [index, 1] })).toReversed() },
  });
  const embedder = openAiEmbedder({
    baseUrl: `${base}/v1/`,
    model: 'm',
    dimensions: 2,
    apiKey: 'k',
  });
  const [first, second] = await embedder.embed(['a', 'b'], 'document');
  expect([...(first ?? [])]).toEqual([0, 1]);
  expect(second?.[0]).toBeCloseTo(Math.SQRT1_2); // of unit length
  expect(asked.at(-1)).toEqual({
    url: '/v1/embeddings',
    auth: 'Bearer k',
    body: { model: 'm', input: ['a', 'b'], dimensions: 2, encoding_format: 'float' },
  });
});

test('Ollama gets requests in its own format', async () => {
  reply = () => ({ json: { embeddings: [[3, 4]] } });
  const embedder = ollamaEmbedder({ baseUrl: base, model: 'nomic', dimensions: 2 });
  const [vector] = await embedder.embed(['a'], 'query');
  expect(vector?.[0]).toBeCloseTo(0.6);
  expect(asked.at(-1)).toMatchObject({
    url: '/api/embed',
    body: { model: 'nomic', input: ['a'], truncate: true },
  });
});

test('an error, an invalid response, a wrong number and a wrong width are each reported', async () => {
  const embedder = ollamaEmbedder({ baseUrl: base, model: 'nomic', dimensions: 2 });
  const failing = async (next: typeof reply): Promise<unknown> => {
    reply = next;
    return embedder.embed(['a'], 'query').catch((error: unknown) => error);
  };
  expect(await failing(() => ({ status: 503, json: 'busy' }))).toMatchObject({
    code: 'server',
    status: 503,
  });
  expect(await failing(() => ({ json: { vectors: [] } }))).toMatchObject({ code: 'malformed' });
  expect(await failing(() => ({ json: { embeddings: [] } }))).toMatchObject({
    code: 'malformed',
    message: expect.stringContaining('0 vectors for 1 texts'),
  });
  expect(await failing(() => ({ json: { embeddings: [[1, 2, 3]] } }))).toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('say dimensions: 3'),
  });
});

test('an abort ends the call with its reason', async () => {
  const abort = new AbortController();
  const reason = new Error('enough');
  reply = () => {
    abort.abort(reason);
    return { json: {} };
  };
  const embedder = openAiEmbedder({ baseUrl: base, model: 'm', dimensions: 2 });
  await expect(embedder.embed(['a'], 'query', abort.signal)).rejects.toBe(reason);
});
