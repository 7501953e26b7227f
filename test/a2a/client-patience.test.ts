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
