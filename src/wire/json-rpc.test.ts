import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../json.ts';
import {
  isNotification,
  isRpcRequest,
  isResponse,
  readRpc,
  RPC,
  rpcError,
  rpcResult,
} from './json-rpc.ts';

const rpcRequest = (id: string | number, method: string, params?: JsonObject): JsonObject => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params && { params }),
});
const rpcNotification = (method: string, params?: JsonObject): JsonObject => ({
  jsonrpc: '2.0',
  method,
  ...(params && { params }),
});

const kinds = (message: JsonObject): string[] =>
  Object.entries({ isRequest: isRpcRequest, isNotification, isResponse }).flatMap(([name, is]) =>
    is(message) ? [name] : [],
  );

describe('guards', () => {
  test.each([0, '', 'a', -1, 1.5])('the id %j is one like any other', (id) => {
    expect(kinds(rpcRequest(id, 'm'))).toEqual(['isRequest']);
    expect(kinds(rpcResult(id, null))).toEqual(['isResponse']);
    expect(kinds(rpcError(id, -1, 'no'))).toEqual(['isResponse']);
  });

  test('a null id is neither a request nor a notification, but may be an error response', () => {
    expect(kinds({ jsonrpc: '2.0', id: null, method: 'm' })).toEqual([]);
    expect(kinds(rpcError(null, RPC.parseError, 'no'))).toEqual(['isResponse']);
  });

  test('a request that has a result is not a response', () => {
    expect(kinds({ ...rpcRequest(1, 'm'), result: {} })).toEqual(['isRequest']);
  });

  test('no object is of two kinds of message', () => {
    const member = fc.option(fc.oneof(fc.jsonValue(), fc.constantFrom('m', 0, '')), {
      nil: undefined,
    });
    const shape = fc.record(
      { id: member, method: member, result: member, error: member },
      { requiredKeys: [] },
    );
    fc.assert(fc.property(shape, (message) => kinds(message).length <= 1));
  });
});

describe('readRpc', () => {
  test('messages of the builders are read unchanged', () => {
    const messages = [
      rpcRequest(0, 'm', { a: 1 }),
      rpcRequest('', 'm'),
      rpcNotification('n', {}),
      rpcNotification('n'),
      rpcResult(0, undefined),
      rpcError(null, RPC.parseError, 'no', { why: 1 }),
    ];
    for (const message of messages) expect(readRpc(message)).toBe(message);
  });

  test.each<[string, unknown, string | number | null, number]>([
    ['a batch', [rpcRequest(1, 'm')], null, RPC.invalidRequest],
    ['an empty batch', [], null, RPC.invalidRequest],
    ['null', null, null, RPC.invalidRequest],
    ['a string', 'm', null, RPC.invalidRequest],
    ['another version', { id: 0, method: 'm' }, 0, RPC.invalidRequest],
    ['a null id', { jsonrpc: '2.0', id: null, method: 'm' }, null, RPC.invalidRequest],
    ['an object as id', { jsonrpc: '2.0', id: {}, method: 'm' }, null, RPC.invalidRequest],
    ['no method', { jsonrpc: '2.0', id: '' }, '', RPC.invalidRequest],
    ['params in a list', { ...rpcRequest(3, 'm'), params: [1] }, 3, RPC.invalidParams],
    [
      'both answers',
      { ...rpcResult(4, 1), error: { code: 1, message: '' } },
      4,
      RPC.invalidRequest,
    ],
    ['an error without code', { jsonrpc: '2.0', id: 5, error: {} }, 5, RPC.invalidRequest],
  ])('%s is refused, under its id if it has one', (_, value, id, code) => {
    expect(readRpc(value)).toMatchObject({ refuse: { jsonrpc: '2.0', id, error: { code } } });
  });

  test('any value is a message of one kind, or gets an error response', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const read = readRpc(value);
        return 'refuse' in read || kinds(read).length === 1;
      }),
    );
  });
});
