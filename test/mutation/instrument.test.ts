import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'vite';
import { expect, test } from 'vitest';
import { ROOT } from '../../scripts/setup.mjs';
import { readSource, sourceFiles } from '../source.ts';
import { instrument } from './instrument.ts';
import survivors from './survivors.json' with { type: 'json' };

const SOURCE = `export function f(a: number, b?: string): boolean {
  if (a < 1) return false;
  g(a);
  return b === undefined || b.toString() !== 'x';
}`;

test('a mutant is a change of a condition, an operator, a literal or a statement', () => {
  const { code, mutants } = instrument('f.ts', SOURCE, 10);
  expect(mutants.map(({ name, line }) => `${line} ${name}`)).toEqual(
    expect.arrayContaining([
      '2 f.ts: a < 1 → true',
      '2 f.ts: a < 1: < → <=',
      '2 f.ts: false → true',
      '3 f.ts: drop g(a);',
      '4 f.ts: b === undefined: === → !==',
    ]),
  );
  expect(mutants.filter(({ name }) => name.includes('native code'))).toEqual([]);
  expect(code).toContain('globalThis.mutants.is(10)');
});

test('the code with all mutants of a file can be parsed', () => {
  const wrong = sourceFiles()
    .filter((file) => /^(event|wire|task|host|a2a\/protocol)\//.test(file))
    .filter((file) => {
      const { code } = instrument(file, readSource(file), 0);
      return (parseAst(code, { lang: 'ts' }) as unknown as { body: unknown[] }).body.length === 0;
    })
    .filter((file) => readSource(file).includes('function'));
  expect(wrong).toEqual([]);
});

test('a kept survivor is of a file that exists', () => {
  const files = new Set(Object.keys(survivors).map((name) => name.slice(0, name.indexOf(':'))));
  expect([...files].filter((file) => !existsSync(join(ROOT, 'src', file)))).toEqual([]);
});
