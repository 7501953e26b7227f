import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../scripts/setup.mjs';

const page = readFileSync(join(ROOT, 'docs/guides/security.md'), 'utf8');
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** The cells of the rows of one section's table, without its head. */
function tableOf(title: string): string[][] {
  const section = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

const claims = tableOf('Claims and their tests');
const limits = tableOf('Limits');
const cited = [...page.matchAll(/`((?:src|test)\/[^`]+\.ts)`: "([^"]+)"/g)].map(
  ([, file = '', name = '']) => [file, name] as const,
);

test.each(cited)('docs/guides/security.md names an existing test: %s, %s', (file, name) => {
  expect(existsSync(join(ROOT, file))).toBe(true);
  expect(read(file).replaceAll(/\s+/g, ' ')).toContain(name);
});

test('every claim names its party and its test', () => {
  expect(claims.length).toBeGreaterThan(15);
  const bare = claims.filter(([, party, proof]) => !party || !/\.ts`: "/.test(proof ?? ''));
  expect(bare).toEqual([]);
});

test('every party of the threat model is in a claim', () => {
  const parties = tableOf('Trust').map(([party = '']) => party.split(/ \(| of /)[0]!);
  expect(parties).toEqual([
    'operator',
    'caller',
    'approver',
    'model',
    'tool server',
    'remote agent',
    'web page',
    'neighbour tenant',
  ]);
  const named = claims.map(([, party]) => party).join();
  // The rules limit an approver; the claims about the model cover them.
  for (const party of parties) if (party !== 'approver') expect(named).toContain(party);
});

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  ms: 1,
  s: 1000,
  min: 60_000,
  h: 3_600_000,
};

function amount(text: string): number {
  const [number = '', unit = ''] = text.split(' ');
  return Number(number.replaceAll(',', '')) * (UNITS[unit] ?? NaN);
}

/**
 * The number behind a constant or the default of an option: `NAME = 4 * 2 ** 20`, `name ?? 100`.
 */
function numberIn(source: string, name: string): number {
  const constants = new Map(
    [...source.matchAll(/const (\w+) = ([\d_* ]+);/g)].map(([, key, value = '']) => [
      key,
      String(value.split('*').reduce((all, one) => all * Number(one.replaceAll('_', '')), 1)),
    ]),
  );
  const [, written = ''] =
    new RegExp(
      `\\b${name}(?:(?:: \\w+)? (?:=|\\?\\?)|:(?= \\d)) ([\\w*<. ]+?)(?=[;,})\\n]| \\}|$)`,
    ).exec(source) ?? [];
  const terms = written.split(' ').map((term) => constants.get(term) ?? term);
  const numbers = terms.map((term) => Number(term.replaceAll('_', '')));
  let value = numbers[0] ?? NaN;
  for (let at = 1; at < terms.length; at += 2) {
    const next = numbers[at + 1] ?? NaN;
    // `**` binds stronger than `*`, and stands last wherever it is used here.
    if (terms[at] === '*' && terms[at + 2] === '**') {
      value *= next ** (numbers[at + 3] ?? NaN);
      break;
    }
    if (terms[at] === '*') value *= next;
    else if (terms[at] === '**') value **= next;
    else if (terms[at] === '<<') value *= 2 ** next;
  }
  return value;
}

test('the table of limits exists', () => {
  expect(limits.length).toBeGreaterThan(20);
});

test.each(limits.map((row) => [row[0], row] as const))('the default of a limit: %s', (_, row) => {
  const [, written = '', , beyond, source = ''] = row;
  const [, file = '', name = ''] = /^`([^`]+)` `([^`]+)`$/.exec(source) ?? [];
  expect(beyond).not.toBe('');
  expect(numberIn(read(file), name)).toBe(amount(written));
});
