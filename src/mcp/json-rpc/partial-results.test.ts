import { expect, test } from 'vitest';
import { send } from '../../../test/support/mcp/message-endpoint.ts';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import type { JsonObject } from '../../json.ts';
import { createRegistry } from '../registry/registry.ts';
import { tool } from '../registry/tool.ts';
import { dialHttp } from './http/client/dial-http.ts';
import { offerHttp } from './http/server/offer-http.ts';
import { offerMessages } from './server/offer-messages.ts';

const registry = createRegistry({
  name: 'partial',
  tools: [
    tool('write', 'Writes', {}, async function* () {
      yield { type: 'partial', index: 0, content: [{ type: 'text', text: 'Once ' }] };
      yield { type: 'partial', index: 1, content: [{ type: 'text', text: 'upon' }], final: true };
      return 'Once upon';
    }),
  ],
});

for (const protocol of ['session', 'stateless'] as const)
  test(`parts of a result arrive through two ${protocol} hops, before the complete result`, async () => {
    await using far = await offerHttp(registry);
    await using middle = await dialHttp({ url: far.url, protocol });
    await using near = await offerHttp(middle);
    await using source = await dialHttp({ url: near.url, protocol });
    expect(await toArray(source.callTool(call('write')))).toEqual([
      { type: 'partial', index: 0, content: [{ type: 'text', text: 'Once ' }] },
      { type: 'partial', index: 1, content: [{ type: 'text', text: 'upon' }], final: true },
      { type: 'result', result: { content: [{ type: 'text', text: 'Once upon' }] } },
    ]);
  });

test('a client without the extension gets none', async () => {
  await using end = offerMessages(registry);
  const heard: JsonObject[] = [];
  const related = async (message: JsonObject): Promise<void> => void heard.push(message);
  const params = { name: 'write', _meta: { progressToken: 1 } };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  await end.receive(message, { related });
  expect(heard).toEqual([]);
  const capabilities = { experimental: { 'duolane/partial': {} } };
  await send(end, 'initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: {} });
  await end.receive(message, { related });
  expect(heard.map(({ method }) => method)).toEqual([
    'notifications/tools/partial_result',
    'notifications/tools/partial_result',
  ]);
});
