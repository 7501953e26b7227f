import { expect, test } from 'vitest';
import { createRegistry } from '../../../registry/registry.ts';
import { tool } from '../../../registry/tool.ts';
import { sseHandler } from './sse-handler.ts';

const request = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'count' } };
const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } };

test('a request whose cancellation arrived first does not run', async () => {
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
