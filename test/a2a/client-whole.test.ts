import { expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { httpServer } from './support.ts';

const task = (state: string, text?: string): JsonObject => ({
  id: 't',
  contextId: 'c',
  status: { state: `TASK_STATE_${state}` },
  ...(text !== undefined && { artifacts: [{ artifactId: 'a', parts: [{ text }] }] }),
});

/** A 1.0 server that cannot stream: it takes a message, and is asked for the task. */
async function wholeServer(
  capabilities: JsonObject,
  states: readonly JsonObject[],
): Promise<AsyncDisposable & { readonly url: string; readonly asked: string[] }> {
  const asked: string[] = [];
  const left = [...states];
  const server = await httpServer(({ method: verb }, response, body) => {
    response.setHeader('content-type', 'application/json');
    const own = { url: server.url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' };
    if (verb === 'GET') {
      response.end(JSON.stringify({ name: 'whole', capabilities, supportedInterfaces: [own] }));
      return;
    }
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    asked.push(method);
    const error = { code: -32601, message: 'no streams' };
    const now = method === 'SendStreamingMessage' ? undefined : left.shift();
    const answer = now ? { result: method === 'SendMessage' ? { task: now } : now } : { error };
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
  });
  return { ...server, asked };
}

test.each([
  ['says so', { streaming: false }, ['SendMessage']],
  ['refuses to', {}, ['SendStreamingMessage', 'SendMessage']],
])('a server that cannot stream, and %s, is asked how the task stands', async (_, can, asks) => {
  const states = [task('SUBMITTED'), task('WORKING', 'Hel'), task('COMPLETED', 'Hello')];
  await using server = await wholeServer(can, states);
  let lost = 0;
  const onLost = (): void => void lost++;
  const stream = (await connectA2A(server.url)).stream('go', { retryMs: 5, onLost });
  const texts: string[] = [];
  for await (const _event of stream) texts.push(stream.text);
  expect(texts).toEqual(['', 'Hel', 'Hello']);
  expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  expect([stream.problems, lost]).toEqual([[], 0]);
  expect(server.asked).toEqual([...asks, 'GetTask', 'GetTask']);
});
