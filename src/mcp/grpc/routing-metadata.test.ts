import { expect, test } from 'vitest';
import type { CallContext } from '../../grpc/index.ts';
import { callerOf } from './routing-metadata.ts';

const call = (fields: Partial<CallContext>): CallContext =>
  ({ metadata: {}, peer: '192.0.2.1:5', ...fields }) as CallContext;

test('a client cannot take the name of another connection or owner', () => {
  const names = [
    call({}),
    call({ metadata: { 'duolane-caller': '#192.0.2.1:5' } }),
    call({ principal: 'anna' }),
    call({ principal: 'anna', metadata: { 'duolane-caller': 'x' } }),
    call({ principal: 'eve', metadata: { 'duolane-caller': 'x' } }),
    call({ metadata: { 'duolane-caller': 'x' } }),
  ].map(callerOf);
  expect(new Set(names).size).toBe(names.length);
});
