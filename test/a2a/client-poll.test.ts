import { describe, expect, test } from 'vitest';
import { connectA2A, type A2AClient, type A2AStreamEvent } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, httpServer, WAYS, type Version, type Way } from './support.ts';

const hello: Agent = async function* () {
  yield { type: 'status', message: 'Thinking...' };
  yield { type: 'text.delta', id: 't', delta: 'Hello' };
};

const quick = { retryMs: 1 };

const shapes = (events: readonly A2AStreamEvent[]): string[] =>
  events.map((event) => {
    if ('task' in event) return `task ${event.task.status.state}`;
    if ('statusUpdate' in event) return event.statusUpdate.status.state;
    if ('message' in event) return 'message';
    const { artifact, append, lastChunk } = event.artifactUpdate;
    const text = artifact.parts.map((part) => part.text).join('');
    return `${append ? '+' : ''}${text}${lastChunk ? '.' : ''}`;
  });

/** To our own server, as if its card said that it does not stream. Streams over HTTP are counted. */
async function connectQuietly(
  url: string,
  way: Way,
): Promise<{ readonly client: A2AClient; readonly streamed: string[] }> {
  const streamed: string[] = [];
  const quiet: typeof fetch = async (at, init) => {
    const response = await fetch(at, init);
    if (/text\/event-stream/.test(response.headers.get('content-type') ?? ''))
      streamed.push(String(at));
    if (!String(at).endsWith('agent-card.json')) return response;
    const card = (await response.json()) as JsonObject;
    return Response.json({ ...card, capabilities: { streaming: false } });
  };
  return { client: await connectA2A(url, { ...way, fetch: quiet }), streamed };
}

describe.each(WAYS)('a card that says streaming: false ($version over $binding)', (way) => {
  test('a run comes as the events of a stream, and ends with its final state', async () => {
    await using served = await serve(hello, { log: memoryLog(), page: false, grpc: {} });
    const { client, streamed } = await connectQuietly(served.url, way);
    await using _ = client;
    const stream = client.stream('hi', quick);
    expect(shapes(await all(stream))).toEqual([
      'task TASK_STATE_SUBMITTED',
      'Hello.',
      'TASK_STATE_COMPLETED',
    ]);
    expect(stream.text).toBe('Hello');
    expect(stream.task).toEqual(await client.get(stream.taskId!));
    expect(stream.problems.map(({ kind }) => kind)).toEqual(['no-streaming']);
    expect(streamed).toEqual([]);
  });

  test('a task that is not waited for is asked for until it has settled', async () => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const slow: Agent = async function* (turn, ctx) {
      yield { type: 'text.delta', id: 't', delta: 'Hel' };
      await gate;
      yield { type: 'text.delta', id: 't', delta: 'lo' };
      await ctx.ask({ id: `${turn.messageId}/name`, kind: 'question', message: 'Who are you?' });
    };
    await using served = await serve(slow, { log: memoryLog(), page: false, grpc: {} });
    const { client } = await connectQuietly(served.url, way);
    await using _ = client;
    const stream = client.stream('hi', { ...quick, returnImmediately: true });
    const seen: A2AStreamEvent[] = [];
    for await (const event of stream) {
      seen.push(event);
      if (stream.text === 'Hel') open();
    }
    const words = shapes(seen);
    expect(words[0]).toMatch(/^task TASK_STATE_(SUBMITTED|WORKING)$/);
    const texts = words.filter((word) => word.startsWith('Hel'));
    expect(texts.map((word) => word.replace('.', ''))).toEqual(['Hel', 'Hello']);
    expect(words.at(-1)).toBe('TASK_STATE_INPUT_REQUIRED');
    expect(stream.status?.message?.parts[0]).toEqual({ text: 'Who are you?' });
    const canceled = await stream.cancel();
    expect(canceled.status.state).toBe('TASK_STATE_CANCELED');
    const again = client.resume(stream.taskId!, quick);
    expect(shapes(await all(again)).at(-1)).toBe('TASK_STATE_CANCELED');
  });

  test('a plain message is the whole stream', async () => {
    const a2a = { reply: async () => [{ text: 'pong' }] };
    await using served = await serve(hello, { log: memoryLog(), page: false, grpc: {}, a2a });
    const { client } = await connectQuietly(served.url, way);
    await using _ = client;
    const stream = client.stream('ping');
    expect(shapes(await all(stream))).toEqual(['message']);
    expect(stream.text).toBe('pong');
  });
});

type Script = (method: string, params: JsonObject) => JsonObject | 'cut';

/** A server over JSON-RPC that answers as the script says: a result, an error, or a broken wire. */
async function scripted(
  version: Version,
  capabilities: JsonObject,
  script: Script,
): Promise<AsyncDisposable & { readonly client: A2AClient; readonly asked: string[] }> {
  const asked: string[] = [];
  const server = await httpServer((request, response, body) => {
    const { url } = server;
    const supportedInterfaces = [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
    const where = version === '1.0' ? { supportedInterfaces } : { url, protocolVersion: '0.3.0' };
    if (request.method === 'GET')
      return void response.end(JSON.stringify({ name: 'quiet', capabilities, ...where }));
    const { id, method, params } = JSON.parse(body) as JsonObject & { method: string };
    asked.push(method);
    const answer = script(method, params as JsonObject);
    if (answer === 'cut') return void response.destroy();
    const { error, ...result } = answer;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(error ? { error } : { result }) }));
  });
  return { ...server, asked, client: await connectA2A(server.url) };
}

const NAMES = {
  '1.0': { send: 'SendMessage', stream: 'SendStreamingMessage', get: 'GetTask' },
  '0.3': { send: 'message/send', stream: 'message/stream', get: 'tasks/get' },
} as const;

function spelled(version: Version, state: string, text?: string): JsonObject {
  const part = version === '1.0' ? { text } : { kind: 'text', text };
  return {
    ...(version === '0.3' && { kind: 'task' }),
    id: 't',
    contextId: 'c',
    status: { state: version === '1.0' ? `TASK_STATE_${state.toUpperCase()}` : state },
    ...(text !== undefined && { artifacts: [{ artifactId: 'a', parts: [part] }] }),
  };
}

describe.each(['1.0', '0.3'] as const)('a server of %s without streams', (version) => {
  const { send, stream: streams, get } = NAMES[version];
  const sent = (task: JsonObject): JsonObject => (version === '1.0' ? { task } : task);

  test('what changes between two looks is said once, also over a wire that breaks', async () => {
    const states: (JsonObject | 'cut')[] = [
      spelled(version, 'working'),
      spelled(version, 'working', 'Hel'),
      'cut',
      spelled(version, 'working', 'Hel'),
      { ...spelled(version, 'completed', 'Hello'), metadata: { cost: 1 } },
    ];
    const lengths = new Set<unknown>();
    await using server = await scripted(version, { streaming: false }, (method, params) => {
      if (method === send) return sent(spelled(version, 'submitted'));
      lengths.add(params['historyLength']);
      return states.shift() ?? {};
    });
    let lost = 0;
    const options = { ...quick, historyLength: 3, onDisconnect: () => lost++ };
    const stream = server.client.stream('hi', options);
    expect(shapes(await all(stream))).toEqual([
      'task TASK_STATE_SUBMITTED',
      'TASK_STATE_WORKING',
      'Hel',
      'Hello.',
      'TASK_STATE_COMPLETED',
    ]);
    expect(server.asked).toEqual([send, get, get, get, get, get]);
    expect([lost, stream.text, [...lengths]]).toEqual([1, 'Hello', [3]]);
    expect(stream.task).toMatchObject({ metadata: { cost: 1 } });
    expect(stream.problems.map(({ kind }) => kind)).toEqual(['no-streaming']);
  });

  test('an abort ends the asking with its reason, and leaving ends it quietly', async () => {
    await using server = await scripted(version, { streaming: false }, (method) =>
      method === send ? sent(spelled(version, 'working')) : spelled(version, 'working'),
    );
    const stop = new AbortController();
    const reason = new Error('enough');
    const since = Date.now();
    const aborted = server.client.stream('hi', { retryMs: 8, signal: stop.signal });
    const reading = all(aborted);
    await expect.poll(() => server.asked.length, { interval: 1 }).toBeGreaterThan(6);
    // Asked less and less: at least half of 8 + 8 + 16 + 32 + 64 + 128 ms.
    expect(Date.now() - since).toBeGreaterThanOrEqual(120);
    stop.abort(reason);
    await expect(reading).rejects.toBe(reason);
    const left = server.client.stream('hi', quick);
    for await (const _ of left) left.disconnect();
    expect(left.status?.state).toBe('TASK_STATE_WORKING');
  });

  test.each([
    ['an unknown method', -32601],
    ['an unsupported operation', -32004],
  ])('a card that does not say leaves it to the refusal: %s', async (_, code) => {
    await using server = await scripted(version, {}, (method) =>
      method === streams
        ? { error: { code, message: 'no streams here' } }
        : sent(spelled(version, 'completed', 'Hello')),
    );
    const stream = server.client.stream('hi', quick);
    expect(shapes(await all(stream)).at(-1)).toBe('TASK_STATE_COMPLETED');
    expect(server.asked).toEqual([streams, send]);
    expect(stream.problems).toMatchObject([
      { kind: 'no-streaming', message: expect.stringContaining('no streams here') as string },
    ]);
  });

  test('what a streaming server refuses stays refused', async () => {
    const refusal = { error: { code: -32004, message: 'that task has ended' } };
    await using server = await scripted(version, { streaming: true }, () => refusal);
    const stream = server.client.stream('hi', quick);
    await expect(stream.result()).rejects.toMatchObject({ code: 'unsupported' });
    expect(server.asked).toEqual([streams]);
  });
});
