import { once } from 'node:events';
import { expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { DuolaneError } from '../../src/errors.ts';
import { serve, type Served } from '../../src/serve/index.ts';
import { memoryDatabase, openLog, storeFromCalls } from '../../src/task/store/index.ts';
import { Caller, WAYS } from './support.ts';

const SECRET = 'password authentication failed for user "duolane" at 10.0.0.5';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A server whose store can be taken away, and an agent that asks when the test says so. */
async function serveOnStore(): Promise<{
  served: Served;
  store: { down: boolean };
  ask: () => void;
}> {
  const store = { down: false };
  const inner = memoryDatabase();
  const calls = storeFromCalls(async (method, args) => {
    if (store.down && (method === 'get' || method === 'submit'))
      throw new DuolaneError('server', `PostgreSQL failed: ${SECRET}`);
    return (inner[method] as (...args: unknown[]) => Promise<unknown>)(...args);
  });
  const log = openLog({
    ...calls,
    announcesAll: inner.announcesAll,
    onCommit: (listener) => inner.onCommit(listener),
    async [Symbol.asyncDispose]() {},
  });
  const told = new AbortController();
  const served = await serve(
    async function* (turn, ctx) {
      yield { type: 'status', message: 'ready' };
      await once(told.signal, 'abort');
      await ctx.ask({ id: `${turn.messageId}/q`, kind: 'question', message: 'Which?' });
    },
    { log, page: false, graceMs: 200, grpc: { port: 0 }, logger: quiet },
  );
  return { served, store, ask: () => told.abort() };
}

for (const version of ['1.0', '0.3'] as const) {
  test(`a stream that fails with the store has a time to reconnect (${version})`, async () => {
    const { served, store, ask } = await serveOnStore();
    await using _ = served;
    const caller = new Caller(served.url, version);
    const method = version === '1.0' ? 'SendStreamingMessage' : 'message/stream';
    const response = await caller.post(method, caller.message('go'));
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (!text.includes('ready') || store.down) continue;
      store.down = true;
      ask();
    }
    expect(text).toMatch(/^retry: ?5000$/m);
    expect(text).toContain('-32051');
    expect(text).toContain('"retryAfter":"5"');
    expect(text).not.toContain('10.0.0.5');
  });

  test(`a call while the store is unavailable gets UNAVAILABLE and Retry-After (${version})`, async () => {
    const { served, store } = await serveOnStore();
    await using _ = served;
    store.down = true;
    const caller = new Caller(served.url, version);
    const response = await caller.post(version === '1.0' ? 'GetTask' : 'tasks/get', { id: 'x' });
    expect(response.headers.get('retry-after')).toBe('5');
    const text = await response.text();
    expect(text).toContain('-32051');
    expect(text).not.toContain('10.0.0.5');
    const path = version === '1.0' ? '/tasks/x' : '/v1/tasks/x';
    const rest = await fetch(`${served.url}/a2a/agent${path}`, {
      headers: { 'a2a-version': version },
    });
    expect([rest.status, rest.headers.get('retry-after')]).toEqual([503, '5']);
  });
}

for (const way of WAYS)
  test.concurrent(`our client comes back to a stream that broke with the store (${way.binding} ${way.version})`, async () => {
    const { served, store, ask } = await serveOnStore();
    await using _ = served;
    await using client = await connectA2A(served.url, way);
    const stream = client.stream('go', { onDisconnect: () => (store.down = false) });
    for await (const _event of stream) {
      if (!JSON.stringify(stream.status).includes('ready')) continue;
      store.down = true;
      ask();
    }
    expect(stream.status?.state).toBe('TASK_STATE_INPUT_REQUIRED');
    expect(stream.task?.id).toBeDefined();
  });

test('the failure of a store is a temporary error for the client', async () => {
  const { served, store } = await serveOnStore();
  await using _ = served;
  await using client = await connectA2A(served.url);
  store.down = true;
  await expect(client.get('x')).rejects.toMatchObject({
    code: 'server',
    retryable: true,
    retryAfterMs: 5000,
  });
});

for (const { version, binding } of WAYS)
  test(`a client reads an error inside of a stream as an error (${version} over ${binding})`, async () => {
    const { served, store } = await serveOnStore();
    await using _ = served;
    await using client = await connectA2A(`${served.url}/a2a/agent`, { version, binding });
    store.down = true;
    const stream = client.stream('go', { retryForMs: 1 });
    await expect(stream.result()).rejects.toMatchObject({
      code: 'network',
      cause: { code: 'server', retryAfterMs: 5000 },
    });
    expect(stream.problems).toEqual([]);
  });
