import { expect, test } from 'vitest';
import { approvedArgs } from './ask.ts';

const args = { to: 'mallory', amount: 1 };
const data = { name: 'pay', args };
const edited = { to: 'alice', amount: 1 };

test.each<[string, unknown, unknown, boolean]>([
  ['nothing', undefined, args, false],
  ['a text', 'ok', args, false],
  ['the same arguments, in another order', { amount: 1, to: 'mallory' }, args, false],
  ['the same data', { args, name: 'pay' }, args, false],
  ['changed arguments', edited, edited, true],
  ['data with changed arguments', { name: 'pay', args: edited }, edited, true],
  ['no arguments', {}, {}, true],
])('an approval with %s', (_, content, approved, changed) => {
  expect(approvedArgs(content, data, 'args')).toEqual({ args: approved, changed });
});

test.each<[string, unknown]>([
  ['another tool', { name: 'delete', args }],
  ['no arguments in the data', { name: 'pay' }],
  ['a list', [edited]],
  ['a number', 7],
])('an approval with %s approves nothing', (_, content) => {
  expect(approvedArgs(content, data, 'args')).toBeUndefined();
});

test('arguments that look like the data of a question stay arguments', () => {
  const inner = { name: 'a', args: { x: 1 } };
  const changed = { name: 'b', args: { x: 1 } };
  expect(approvedArgs(changed, { name: 'pay', args: inner }, 'args')).toEqual({
    args: changed,
    changed: true,
  });
});
