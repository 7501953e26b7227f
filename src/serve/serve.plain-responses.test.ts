import { once } from 'node:events';
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import type { Agent } from '../event/types.ts';
import { memoryLog } from '../task/index.ts';
import { serve } from './serve.ts';

const echo: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

async function call(
  url: string,
  body?: unknown,
): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
  const sent = request(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** Counts the web responses that are built, each with a stream for its body. */
function countResponses(): Disposable & { readonly built: () => number } {
  const { Response: Original } = globalThis;
  let built = 0;
  globalThis.Response = new Proxy(Original, {
    construct(target, args, newTarget) {
      built++;
      return Reflect.construct(target, args, newTarget) as object;
    },
  });
  return { built: () => built, [Symbol.dispose]: () => void (globalThis.Response = Original) };
}

test('plain responses have their length and are built without a web stream', async () => {
  await using log = memoryLog();
  await using served = await serve(echo, { log, page: false });
  const rpc = (method: string, params: unknown): unknown => ({
    jsonrpc: '2.0',
    id: 1,
    method,
    params,
  });
  const a2a = `${served.url}/a2a`;
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
  const { text } = await call(a2a, rpc('SendMessage', { message }));
  const { id } = (JSON.parse(text) as { result: { task: { id: string } } }).result.task;
  using responses = countResponses();
  const plain = {
    'a task': await call(a2a, rpc('GetTask', { id })),
    'an unknown task': await call(a2a, rpc('GetTask', { id: 'unknown' })),
    'an unknown method': await call(a2a, rpc('Nothing', {})),
    'a list': await call(a2a, rpc('ListTasks', {})),
    'a task over REST': await call(`${a2a}/tasks/${id}`),
    'the card': await call(`${served.url}/.well-known/agent-card.json`),
    agents: await call(`${served.url}/api/agents`),
    'tasks of the page': await call(`${served.url}/api/tasks`),
    'a task of the page': await call(`${served.url}/api/tasks/${id}`),
    'an unknown path': await call(`${served.url}/nothing`),
    'the state': await call(`${served.url}/healthz`),
  };
  for (const [name, { headers, text: body }] of Object.entries(plain)) {
    expect(headers['content-length'], name).toBe(String(Buffer.byteLength(body)));
    expect(headers['transfer-encoding'], name).toBeUndefined();
  }
  expect(Object.values(plain).filter(({ status }) => status === 200).length).toBeGreaterThan(6);
  expect(responses.built()).toBe(0);
});
