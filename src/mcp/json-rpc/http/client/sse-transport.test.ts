import { expect, onTestFinished, test } from 'vitest';
import { listen } from '../../../../http/node-server.ts';
import { sseResponse } from '../../../../http/sse-response.ts';
import { SseTransport } from './sse-transport.ts';

const request = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'count' } };
const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } };

test('no cancellation is sent before the server has the request', async () => {
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
