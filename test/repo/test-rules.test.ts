import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../scripts/setup.mjs';

/** The limit of a test that names none (`vitest.config.ts`). A shorter one fails on a busy machine. */
const DEFAULT_MS = 300_000;

const files = ['src', 'test', 'examples'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(test|peer)\.ts$/.test(file) && !file.includes('node_modules'))
    .map((file) => join(folder, file)),
);

const placesOf = (pattern: RegExp, isWrong: (match: RegExpMatchArray) => boolean): string[] =>
  files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    return [...text.matchAll(pattern)]
      .filter(isWrong)
      .map((match) => `${file}:${text.slice(0, match.index).split('\n').length}`);
  });

test('no test has a limit of time that is shorter than the default', () => {
  const limit =
    /(?:test|verifies|testIf)\((?:(?!\n(?:test|verifies|testIf|suite|describe)\()[^])*?\n *\}, ?\n? *([\d_]+),?\n?\);/g;
  const isShort = ([, ms = '']: RegExpMatchArray): boolean =>
    Number(ms.replaceAll('_', '')) < DEFAULT_MS;
  expect(placesOf(limit, isShort)).toEqual([]);
});

test('tests wait with eventually(), whose limit is generous', () => {
  expect(placesOf(/\bvi\.waitFor\(/g, () => true)).toEqual([]);
});
