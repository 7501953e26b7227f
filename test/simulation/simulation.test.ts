import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { bundle } from './bundle.ts';
import { DEFECTS } from './defects.ts';
import { runSchedules } from './start.ts';

const folder = mkdtempSync(join(tmpdir(), 'duolane-simulation-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const module = await bundle('./main.ts', folder);

/** Some seconds of `npm run simulate`, always with the same schedules: so many in each test. */
const SCHEDULES = 500;

test.each([1, 501])('no schedule breaks a law, from seed %i', async (from) => {
  const report = await runSchedules(module, { from, schedules: SCHEDULES, shrink: true });
  expect(report.failures).toEqual([]);
  expect(report.schedules).toBe(SCHEDULES);
});

test('a seed is one run, whatever ran before it', async () => {
  const first = await runSchedules(module, { from: 41, schedules: 1 });
  const again = await runSchedules(module, { from: 41, schedules: 1 });
  expect(again.hash).toBe(first.hash);
  const other = await runSchedules(module, { from: 42, schedules: 1 });
  expect(other.hash).not.toBe(first.hash);
  // The hash over two runs in one process is made of the hashes of each.
  const both = await runSchedules(module, { from: 41, schedules: 2 });
  const joined = Math.imul(Number.parseInt(first.hash, 16), 31) + Number.parseInt(other.hash, 16);
  expect(both.hash).toBe((joined >>> 0).toString(16));
});

/** Others need more schedules: `npm run simulate -- --defects` tries all of them. */
const QUICK = [
  'a batch counts as written before it is',
  'a suspended wait is taken as due',
  'a reader shows entries twice',
];

test.each(QUICK)('a planted defect is found and its schedule is shrunk: %s', async (name) => {
  const defects = DEFECTS.filter((defect) => defect.name === name);
  const planted = await bundle('./main.ts', join(folder, name.replaceAll(' ', '-')), defects);
  const { failures } = await runSchedules(planted, { schedules: 300, shrink: true });
  expect(failures).toHaveLength(1);
  expect(failures[0]?.trace?.some((line) => line.includes('BROKEN'))).toBe(true);
});

test('every planted defect is one change of a file that exists', () => {
  expect(DEFECTS.length).toBeGreaterThanOrEqual(30);
  expect(new Set(DEFECTS.map(({ name }) => name)).size).toBe(DEFECTS.length);
});
