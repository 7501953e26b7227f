import { expect, test } from 'vitest';
import { DuolaneError, RETRYABLE } from './errors.ts';

test('an error is retryable as its code says, unless it says otherwise', () => {
  expect(new DuolaneError('network', 'The line is down.').retryable).toBe(RETRYABLE.network);
  expect(new DuolaneError('network', 'Sent twice.', { retryable: false }).retryable).toBe(false);
});

test('as JSON it is a Failure, without the members that it does not have', () => {
  const error = new DuolaneError('rate_limited', 'Slow down.', { status: 429, retryAfterMs: 1000 });
  expect(JSON.parse(JSON.stringify(error))).toEqual({
    code: 'rate_limited',
    message: 'Slow down.',
    retryable: true,
    status: 429,
    retryAfterMs: 1000,
  });
  expect(Object.keys(new DuolaneError('closed', 'Over.').toJSON())).toEqual([
    'code',
    'message',
    'retryable',
  ]);
});

test('whatever was thrown becomes one, with the original as its cause', () => {
  const abort = AbortSignal.abort().reason as Error;
  expect(DuolaneError.from(abort)).toMatchObject({ code: 'canceled', cause: abort });
  const timeout = new DOMException('Too late.', 'TimeoutError');
  expect(DuolaneError.from(timeout)).toMatchObject({ code: 'timeout', cause: timeout });
  expect(DuolaneError.from('text', 'tool')).toMatchObject({ code: 'tool', message: 'text' });
  const own = new DuolaneError('fenced', 'Another runner has the task.');
  expect(DuolaneError.from(own, 'internal')).toBe(own);
});
