import { expect, test } from 'vitest';
import { fromRpcError } from '../../../wire/json-rpc-errors.ts';
import { fromGrpcError, toGrpcError } from './grpc-errors.ts';

const passed = (data: unknown): unknown =>
  fromGrpcError(toGrpcError(fromRpcError({ code: -32055, message: 'Out of tea', data })));

test('the data of an error is sent in trailers, and omitted if it is too large', () => {
  const cups = { cups: 'x'.repeat(20_000) };
  expect(passed(cups)).toEqual(fromRpcError({ code: -32055, message: 'Out of tea', data: cups }));
  expect(passed({ cups: 'x'.repeat(100_000) })).toEqual(
    fromRpcError({ code: -32055, message: 'Out of tea' }),
  );
});
