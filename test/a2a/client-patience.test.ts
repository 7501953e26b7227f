import { expect, test, vi } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { httpServer } from './support.ts';

const RESUME = 'urn:duolane:a2a:resume:v1';
const task = (state: string): JsonObject => ({
  kind: 'task',
  id: 't',
  contextId: 'c',
  status: { state },
});
const completed: JsonObject = {
  kind: 'status-update',
  taskId: 't',
  contextId: 'c',
  status: { state: 'completed' },
  final: true,
};

/** Cuts its first stream, after `beforeCut`, and ends the second. */
async function cuttingServer(beforeCut: () => Promise<void>) {
  const asked: string[] = [];
  const server = await httpServer((request, response, body) => {
    const capabilities = { streaming: true, extensions: [{ uri: RESUME }] };
    const card = { name: 'x', protocolVersion: '0.3.0', url: server.url, capabilities };
    if (request.method === 'GET') return void response.end(JSON.stringify(card));
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    asked.push(method);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const line = (event: number, result: JsonObject): string =>
      `id: ${event}\ndata: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`;
    if (asked.length > 1) return void response.end(line(2, completed));
    response.write(line(1, task('working')), () => {
      void beforeCut().then(() => response.destroy());
    });
  });
  return { ...server, asked };
}

test('a stream that was silent for longer than retryForMs is resumed when it is lost', async () => {
  const giveUpMs = 300;
  await using server = await cuttingServer(
    () => new Promise((resolve) => setTimeout(resolve, 2 * giveUpMs)),
  );
  const stream = (await connectA2A(server.url)).stream('go', { retryMs: 1, retryForMs: giveUpMs });
  await stream.result();
  expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  expect(server.asked).toEqual(['message/stream', 'tasks/resubscribe']);
});

test('a change of the system clock does not end the retries of the client', async () => {
  const now = Date.now.bind(Date);
  let cuts = 0;
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + cuts * 3_600_000);
  try {
    await using server = await cuttingServer(async () => void cuts++);
    const stream = (await connectA2A(server.url)).stream('go', { retryMs: 1 });
    await stream.result();
    expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  } finally {
    clock.mockRestore();
  }
});

/** A server without sockets, whose streams stay open until the client closes them. */
function openServer(): {
  readonly url: string;
  readonly asked: string[];
  readonly fetch: typeof globalThis.fetch;
  /** Breaks the last stream. */
  readonly lose: () => void;
} {
  const url = 'http://agent.invalid';
  const asked: string[] = [];
  let lose = (): void => {};
  const fetch = async (_input: unknown, init: RequestInit = {}): Promise<Response> => {
    const card = { name: 'x', protocolVersion: '0.3.0', url, capabilities: { streaming: true } };
    if (init.method === undefined) return Response.json(card);
    const { id, method } = JSON.parse(String(init.body)) as { id: number; method: string };
    asked.push(method);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        lose = () => controller.error(new TypeError('terminated'));
        init.signal?.addEventListener('abort', () => controller.error(init.signal?.reason));
        for (const result of [task('working'), completed])
          controller.enqueue(
            Buffer.from(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`),
          );
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
  return { url, asked, fetch, lose: () => lose() };
}

test('the time that a reader takes for an event is not a silence of the server', async () => {
  const { url, asked, fetch } = openServer();
  const client = await connectA2A(url, { fetch, silenceMs: 20 });
  let lost = 0;
  const stream = client.stream('go', { retryMs: 1, onDisconnect: () => void lost++ });
  const events: string[] = [];
  for await (const event of stream) {
    events.push(...Object.keys(event));
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  expect(events).toEqual(['task', 'statusUpdate']);
  expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  expect({ asked, lost }).toEqual({ asked: ['message/stream'], lost: 0 });
});

test('a connection that is lost after the last event does not repeat it', async () => {
  const { url, asked, fetch, lose } = openServer();
  const stream = (await connectA2A(url, { fetch })).stream('go', { retryMs: 1 });
  const events: string[] = [];
  for await (const event of stream) {
    events.push(...Object.keys(event));
    if ('statusUpdate' in event) lose();
  }
  expect(events).toEqual(['task', 'statusUpdate']);
  expect(asked).toEqual(['message/stream']);
});

test('a reader that stops after its connection was lost gets no error and no other connection', async () => {
  const { url, asked, fetch, lose } = openServer();
  const stream = (await connectA2A(url, { fetch })).stream('go', { retryMs: 1 });
  for await (const _ of stream) {
    lose();
    break;
  }
  expect(asked).toEqual(['message/stream']);
});
