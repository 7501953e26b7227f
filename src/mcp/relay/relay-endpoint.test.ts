import { expect, test } from 'vitest';
import type { JsonObject } from '../../json.ts';
import type { RpcRequest } from '../../wire/json-rpc.ts';
import { RelayEndpoint } from './relay-endpoint.ts';

const VERSION = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };

const request = (method: string, params: JsonObject): RpcRequest => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: { ...params, _meta: VERSION },
});

test.each<[string, JsonObject]>([
  ['tasks/get', { taskId: 't' }],
  ['tasks/cancel', { taskId: 't' }],
  ['subscriptions/listen', { notifications: { taskIds: ['t'] } }],
])(
  '%s of a caller with an owner does not reach a server that knows no owners',
  async (method, params) => {
    const passed: string[] = [];
    await using endpoint = new RelayEndpoint({
      reopens: false,
      open: () => Promise.reject(new Error('not in this test')),
      exchange: async ({ id, method: name }) => {
        passed.push(name);
        return { jsonrpc: '2.0', id, result: {} };
      },
    });
    const refused = await endpoint.receive(request(method, params), { owner: 'ann' });
    expect(JSON.stringify(refused)).toContain('tasks of callers with an owner cannot be relayed');
    expect(passed).toEqual([]);

    const listen = request('subscriptions/listen', { notifications: { toolsListChanged: true } });
    expect(await endpoint.receive(listen, { owner: 'ann' })).toMatchObject({ result: {} });
    expect(await endpoint.receive(request(method, params))).toMatchObject({ result: {} });
    expect(passed).toEqual(['subscriptions/listen', method]);
  },
);
