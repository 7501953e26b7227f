import { expect, test } from 'vitest';
import { codeOfStatus, parseRetryAfter } from './http-status.ts';

test.each([
  [400, 'invalid'],
  [401, 'unauthorized'],
  [403, 'unauthorized'],
  [404, 'not_found'],
  [408, 'timeout'],
  [413, 'too_large'],
  [429, 'rate_limited'],
  [500, 'server'],
  [503, 'overloaded'],
  [529, 'overloaded'],
])('the code of %d is %s', (status, code) => {
  expect(codeOfStatus(status)).toBe(code);
});

test('Retry-After is parsed as seconds or as a date, and never negative', () => {
  const now = Date.parse('Wed, 21 Oct 2026 07:28:00 GMT');
  expect(parseRetryAfter('120', now)).toBe(120_000);
  expect(parseRetryAfter('Wed, 21 Oct 2026 07:28:30 GMT', now)).toBe(30_000);
  expect(parseRetryAfter('Wed, 21 Oct 2026 07:27:30 GMT', now)).toBe(0);
  for (const value of [null, undefined, '', 'soon']) {
    expect(parseRetryAfter(value, now)).toBeUndefined();
  }
});
