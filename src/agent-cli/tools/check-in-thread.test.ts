import { expect, test } from 'vitest';
import { checkInThread } from './check-in-thread.ts';

const { signal } = new AbortController();
const object = (property: object): { type: string; properties: object } => ({
  type: 'object',
  properties: { a: property },
});
/** Takes years for the input below. */
const SLOW = object({ type: 'string', pattern: '^(a+)+$' });
const MANY = { a: `${'a'.repeat(60)}!` };

test('an input is checked by the draft of the schema', async () => {
  const pair = object({ prefixItems: [{ type: 'string' }] });
  expect(await checkInThread(pair, { a: ['x'] }, signal)).toBeUndefined();
  expect(await checkInThread(pair, { a: [1] }, signal)).toBe('/a/0: must be string');
  const old = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...object({ items: [{ type: 'string' }] }),
  };
  expect(await checkInThread(old, { a: [1] }, signal)).toBe('/a/0: must be string');
});

test('a pattern that backtracks ends with the limit', async () => {
  await expect(checkInThread(SLOW, MANY, signal, 500)).rejects.toMatchObject({ code: 'timeout' });
});

test('a pattern that backtracks ends with the signal', async () => {
  const turn = new AbortController();
  const checked = checkInThread(SLOW, MANY, turn.signal, 600_000);
  turn.abort(new Error('interrupted'));
  await expect(checked).rejects.toThrow('interrupted');
});

test.each([
  ['asynchronous', { $async: true, ...object({ type: 'string' }) }],
  ['invalid', { type: 'strange' }],
])('an %s schema is refused', async (_, schema) => {
  await expect(checkInThread(schema, { a: 1 }, signal)).rejects.toMatchObject({ code: 'invalid' });
});
