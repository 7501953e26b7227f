import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { RETRYABLE } from '../../src/errors.ts';

const rows = [
  ...readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8').matchAll(
    /^\| `(\w+)` \| (.+) \| (.+) \| (yes|no) \|$/gm,
  ),
];

test('docs/reference/errors.md explains every code, in the order of the source', () => {
  expect(rows.map(([, code]) => code)).toEqual(Object.keys(RETRYABLE));
});

test('docs/reference/errors.md says for each code whether a retry may help', () => {
  expect(Object.fromEntries(rows.map(([, code, , , again]) => [code, again === 'yes']))).toEqual(
    RETRYABLE,
  );
});
