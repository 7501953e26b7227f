import { expect, test } from 'vitest';
import { findRegExps, judgeRegExps, readReviewed, regExpsOf } from '../../scripts/check-regexps.ts';

test('no regular expression takes long on hostile input, except for reviewed ones', () => {
  const uses = findRegExps();
  expect(uses.length).toBeGreaterThan(100);
  expect(judgeRegExps(uses, readReviewed())).toEqual([]);
});

test.each([
  ['a literal', String.raw`const a = text.replace(/\/+$/, '');`],
  ['an exponential one', 'const a = /^(a|a)*$/.test(text);'],
  ['a text', 'const a = new RegExp("^(a+)+$").test(text);'],
  ['a template', String.raw`const a = { b: RegExp(${'`'}\\s+$${'`'}, 'g') };`],
  ['one in a class', String.raw`class A { static b = /\s+$/; }`],
  ['a computed one', 'const a = new RegExp(`^${given}$`);'],
])('a new one is refused: %s', (_, source) => {
  const uses = regExpsOf('src/x.ts', source);
  expect(uses).toHaveLength(1);
  expect(judgeRegExps(uses, { safe: [], exceptions: [] })).toEqual([
    expect.stringContaining('src/x.ts:1 '),
  ]);
});

test('a linear expression passes, and a known one is not checked again', () => {
  const uses = regExpsOf('src/x.tsx', 'const a = <b>{/^[a-z]+$/.test(text)}</b>;');
  expect(judgeRegExps(uses, { safe: [], exceptions: [] })).toEqual([]);
  const check = (): never => {
    throw new Error('it was checked');
  };
  expect(judgeRegExps(uses, { safe: ['/^[a-z]+$/'], exceptions: [] }, check)).toEqual([]);
});

test('an exception needs a reason, and a source that has its expression', () => {
  const [use] = regExpsOf('src/x.ts', 'const a = new RegExp(given);');
  const exception = {
    file: 'src/x.ts',
    text: 'new RegExp(given)',
    reason: 'the operator gives it',
  };
  const judge = (...exceptions: (typeof exception)[]): string[] =>
    judgeRegExps([use!], { safe: [], exceptions });
  expect(judge(exception)).toEqual([]);
  expect(judge({ ...exception, reason: ' ' })).toEqual([expect.stringContaining('no reason')]);
  expect(judge(exception, { ...exception, file: 'src/y.ts' })).toEqual([
    expect.stringContaining('src/y.ts'),
  ]);
});
