import { expect, onTestFinished, test } from 'vitest';
import { listen } from '../../../http/node-server.ts';
import { sseResponse } from '../../../http/sse-response.ts';
import { createRegistry } from '../../registry/registry.ts';
import { tool } from '../../registry/tool.ts';
import { SseTransport } from './client/sse-transport.ts';
import { sseHandler } from './server/sse-handler.ts';

const request = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'count' } };
const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } };

test('over SSE, a client sends no cancellation before the server has the request', async () => {
  const arrived: string[] = [];
  let accept = (): void => {};
  const accepted = new Promise<void>((resolve) => (accept = resolve));
  const listening = await listen(async (posted) => {
    if (posted.method === 'GET')
      return sseResponse(
        (async function* () {
          yield { event: 'endpoint', data: '/messages' };
          await accepted;
        })(),
      );
    const { method } = (await posted.json()) as { method: string };
    arrived.push(method);
    if (method === 'tools/call') await accepted;
    return new Response(null, { status: 202 });
  });
  onTestFinished(() => listening[Symbol.asyncDispose]());
  const transport = new SseTransport({ url: listening.url });
  await transport.open();
  onTestFinished(() => transport.close());
  const sent = [transport.send(request), transport.send(cancel)];
  await expect.poll(() => arrived).toContain('tools/call');
  await transport.send({ jsonrpc: '2.0', method: 'notifications/other' });
  expect(arrived.toSorted()).toEqual(['notifications/other', 'tools/call']);
  accept();
  await Promise.all(sent);
  expect(arrived.at(-1)).toBe('notifications/cancelled');
});

test('over SSE, a request whose cancellation arrived first does not run', async () => {
  let calls = 0;
  const counting = createRegistry({
    name: 'counting',
    tools: [tool('count', '', {}, () => `${(calls += 1)}`)],
  });
  await using handler = sseHandler(counting);
  const opened = await handler.handle(new Request('http://127.0.0.1/sse'));
  const reader = opened.body!.getReader();
  let text = '';
  const read = async (): Promise<void> => {
    const { value } = await reader.read();
    text += new TextDecoder().decode(value);
  };
  while (!text.includes('\n\n')) await read();
  const [, address = ''] = /^data: ?(.+)$/m.exec(text) ?? [];
  const post = async (message: object): Promise<number> =>
    (
      await handler.handle(
        new Request(`http://127.0.0.1${address}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(message),
        }),
      )
    ).status;
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  };
  await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  while (!text.includes('"id":1')) await read();
  expect(await post(cancel)).toBe(202);
  expect(await post(request)).toBe(202);
  await post({ ...request, id: 6 });
  while (!text.includes('"id":6')) await read();
  expect([calls, text.includes('"id":5')]).toEqual([1, false]);
  await reader.cancel();
});
