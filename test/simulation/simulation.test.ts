import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { bundle } from './bundle.ts';
import { DEFECTS } from './defects.ts';
import type { Failure } from './main.ts';
import { PART_NAMES } from './part-names.ts';
import { runSchedules } from './start.ts';

const folder = mkdtempSync(join(tmpdir(), 'duolane-simulation-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const module = await bundle('./main.ts', folder);

/** `npm run simulate`, always with the same schedules: the seeds from 1, in turn of each part. */
const SCHEDULES = 10_000;
/** So many run in one process. */
const CHUNK = 500;

test('no schedule breaks a law', { timeout: 3_600_000 }, async () => {
  const failures: Failure[] = [];
  let next = 1;
  let ran = 0;
  const work = async (): Promise<void> => {
    while (next <= SCHEDULES) {
      const from = next;
      next += CHUNK;
      const report = await runSchedules(module, { from, schedules: CHUNK, shrink: true });
      failures.push(...report.failures);
      ran += report.schedules;
    }
  };
  await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, work));
  expect(failures).toEqual([]);
  expect(ran).toBe(SCHEDULES);
});

test.each(PART_NAMES)('a seed is one run, whatever ran before it: %s', async (part) => {
  const first = await runSchedules(module, { from: 41, schedules: 1, part });
  const again = await runSchedules(module, { from: 41, schedules: 1, part });
  expect(again.hash).toBe(first.hash);
  const other = await runSchedules(module, { from: 42, schedules: 1, part });
  expect(other.hash).not.toBe(first.hash);
  // The hash over two runs in one process is made of the hashes of each.
  const both = await runSchedules(module, { from: 41, schedules: 2, part });
  const joined = Math.imul(Number.parseInt(first.hash, 16), 31) + Number.parseInt(other.hash, 16);
  expect(both.hash).toBe((joined >>> 0).toString(16));
});

/** Others need more schedules: `npm run simulate -- --defects` tries all of them. */
const QUICK = [
  'a batch counts as written before it is',
  'a suspended wait is taken as due',
  'a stream that resumes repeats its last event',
  'progress goes to the newest call',
  'a response that is lost is not reported',
  'a dispose does not stop tools',
];

test.each(QUICK)('a planted defect is found and its schedule is shrunk: %s', async (name) => {
  const defects = DEFECTS.filter((defect) => defect.name === name);
  const planted = await bundle('./main.ts', join(folder, name.replaceAll(' ', '-')), defects);
  const part = defects[0]?.part;
  const { failures } = await runSchedules(planted, { schedules: 300, shrink: true, part });
  expect(failures).toHaveLength(1);
  expect(failures[0]?.trace?.some((line) => line.includes('BROKEN'))).toBe(true);
});

test('every planted defect is one change of a file that exists', () => {
  expect(DEFECTS.length).toBeGreaterThanOrEqual(30);
  expect(new Set(DEFECTS.map(({ name }) => name)).size).toBe(DEFECTS.length);
});
