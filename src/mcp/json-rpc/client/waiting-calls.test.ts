import { expect, test } from 'vitest';
import type { PendingCall } from './pending-call.ts';
import { WaitingCalls } from './waiting-calls.ts';

const callOf = (caller: string): PendingCall =>
  ({ caller, cancel: async () => {} }) as unknown as PendingCall;

test('a caller with many waiting calls ends none of another caller', () => {
  const waiting = new WaitingCalls();
  const anna = waiting.keep(callOf('anna'));
  const eve = Array.from({ length: 300 }, () => waiting.keep(callOf('eve')));
  expect(waiting.size).toBe(256);
  expect(waiting.take(eve[0])).toBeUndefined();
  expect(waiting.take(eve.at(-1))).toMatchObject({ caller: 'eve' });
  expect(waiting.take(anna)).toMatchObject({ caller: 'anna' });
  waiting.clear();
});
