import { describe, expect, test } from 'vitest';
import { DuolaneError, type ErrorCode, RETRYABLE } from '../errors.ts';
import { RPC, rpcError } from './json-rpc.ts';
import { fromRpcError, isWithheld, RPC_CODE, toRpcError } from './json-rpc-errors.ts';

describe('toRpcError', () => {
  test('the message of an internal error does not leave the process', () => {
    const secrets = [
      new Error('secret'),
      new DuolaneError('internal', 'secret'),
      'secret',
      undefined,
    ];
    for (const reason of secrets) {
      expect(toRpcError(0, reason)).toEqual(rpcError(0, RPC.internalError, 'internal error'));
    }
  });

  test('every code has its number, and a message without private data of the server', () => {
    const withheld = ['internal', 'network', 'server', 'peer_exited'];
    for (const code of Object.keys(RETRYABLE) as ErrorCode[]) {
      const { error } = toRpcError('', new DuolaneError(code, 'the words'));
      expect(error.code).toBe(RPC_CODE[code]);
      expect(error.message === 'the words', code).toBe(!withheld.includes(code));
      expect(isWithheld(new DuolaneError(code, 'the words'))).toBe(withheld.includes(code));
    }
  });

  test('the numbers that peers depend on are those of the specification', () => {
    expect(RPC_CODE).toMatchObject({ unsupported: -32601, invalid: -32602, internal: -32603 });
  });

  test('the abort and the timeout of the platform keep their meaning', () => {
    expect(toRpcError(1, AbortSignal.abort().reason).error.code).toBe(-32000);
    expect(toRpcError(1, new DOMException('late', 'TimeoutError')).error.code).toBe(-32001);
  });
});

describe('fromRpcError', () => {
  test.each<[number, ErrorCode]>([
    [-32700, 'malformed'],
    [-32600, 'malformed'],
    [-32601, 'unsupported'],
    [-32602, 'invalid'],
    [-32603, 'server'],
    [-32000, 'closed'],
    [-32001, 'timeout'],
    [-32002, 'not_found'],
    [42, 'server'],
  ])('%d is %s', (number, code) => {
    expect(fromRpcError({ code: number, message: 'words' })).toMatchObject({
      code,
      message: 'words',
    });
  });

  test('a value that is not an error object is malformed', () => {
    for (const error of [null, 'no', {}, { code: 1 }, { code: '1', message: '' }]) {
      expect(fromRpcError(error).code).toBe('malformed');
    }
  });

  test("a peer's error is forwarded unchanged, including its data", () => {
    const error = { code: 4711, message: 'secret of theirs', data: { url: 'x' } };
    expect(toRpcError(9, fromRpcError(error))).toEqual({ jsonrpc: '2.0', id: 9, error });
  });
});
