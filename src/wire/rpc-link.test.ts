import { expect, test } from 'vitest';
import { invalid } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { RpcLink, type RpcLinkOptions } from './rpc-link.ts';

function open(options: Partial<RpcLinkOptions> = {}): {
  readonly link: RpcLink;
  readonly sent: JsonObject[];
  readonly ignored: string[];
} {
  const sent: JsonObject[] = [];
  const ignored: string[] = [];
  const link = new RpcLink({
    send: (message) => void sent.push(message),
    handle: async (method) => ({ method }),
    onNotification: () => {},
    onIgnored: (why) => void ignored.push(why),
    ...options,
  });
  return { link, sent, ignored };
}

const request = (id: string | number, method = 'x'): JsonObject => ({ jsonrpc: '2.0', id, method });
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('requests are settled by their ids, in any order, once', async () => {
  const { link, ignored } = open();
  const first = link.request('a', {});
  const second = link.request('b', {});
  link.receive({ jsonrpc: '2.0', id: 1, result: 'two' });
  link.receive({ jsonrpc: '2.0', id: 0, result: null });
  link.receive({ jsonrpc: '2.0', id: 0, result: 'again' });
  expect(await Promise.all([first, second])).toEqual([null, 'two']);
  expect(ignored).toEqual(['a response to an unknown request "0"']);
});

test('an error, an invalid response, an abort and the end reject', async () => {
  const { link } = open();
  const [failed, bad, left] = [link.request('a', {}), link.request('b', {}), link.request('c', {})];
  const stop = new AbortController();
  const aborted = link.request('d', {}, stop);
  link.receive({ jsonrpc: '2.0', id: 0, error: { code: -32602, message: 'no' } });
  link.receive({ jsonrpc: '2.0', id: 1, error: 'no' });
  stop.abort(new Error('stopped'));
  link.fail(new Error('gone'));
  await expect(failed).rejects.toMatchObject({ code: 'invalid', message: 'no' });
  await expect(bad).rejects.toMatchObject({ code: 'malformed' });
  await expect(aborted).rejects.toThrow('stopped');
  await expect(left).rejects.toThrow('gone');
  await expect(link.request('e', {})).rejects.toThrow('gone');
});

test('requests of the peer are answered, also if the handler throws', async () => {
  const { link, sent } = open({
    handle: (method) => {
      if (method === 'bad') throw invalid('not so');
      return Promise.resolve(undefined);
    },
  });
  link.receive(request('a'));
  link.receive(request('b', 'bad'));
  await settled();
  expect(
    sent.toSorted((one, other) => String(one['id']).localeCompare(String(other['id']))),
  ).toEqual([
    { jsonrpc: '2.0', id: 'a', result: {} },
    { jsonrpc: '2.0', id: 'b', error: { code: -32602, message: 'not so' } },
  ]);
});

test('messages that are not valid get an error, and the next one is handled', async () => {
  const { link, sent } = open();
  for (const bad of [
    [],
    'x',
    { id: 1, method: 'x' },
    { jsonrpc: '2.0', id: 2, method: 'x', params: [] },
  ])
    link.receive(bad);
  link.receive(request(3));
  await settled();
  expect(sent.map(({ id, error }) => [id, (error as JsonObject | undefined)?.['code']])).toEqual([
    [null, -32600],
    [null, -32600],
    [1, -32600],
    [2, -32602],
    [3, undefined],
  ]);
});

test('a request of the peer: canceled by it, refused under a used id and beyond the limit', async () => {
  let reason: unknown;
  const { link, sent } = open({
    maxRequests: 1,
    handle: (_method, _params, call) =>
      new Promise((_, reject) => call.onAbort((why) => reject((reason = why)))),
  });
  link.receive(request(1));
  link.receive(request(1));
  link.receive(request(2));
  expect(sent.map(({ id }) => id)).toEqual([1, 2]);
  link.receive({ jsonrpc: '2.0', method: '$/cancel_request', params: { requestId: 1 } });
  await settled();
  expect(reason).toMatchObject({ code: 'canceled' });
  expect(sent).toHaveLength(3);
});
