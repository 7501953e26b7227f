import { expect, test } from 'vitest';
import {
  describeSkips,
  finalLine,
  summarize,
  type TestReport,
} from '../../scripts/test-report.mjs';

type File = TestReport['testResults'][number];

function file(tests: Record<string, string>, more: Partial<File> = {}): File {
  const status = Object.values(tests).includes('failed') ? 'failed' : 'passed';
  const assertionResults = Object.entries(tests).map(([title, result]) => ({
    title,
    fullName: ` ${title}`,
    status: result,
    ancestorTitles: [''],
  }));
  return { name: '/repo/src/x.test.ts', status, message: '', assertionResults, ...more };
}

test('counts passed tests and names failed ones', () => {
  const report = { testResults: [file({ a: 'passed', b: 'failed', c: 'passed' })] };
  const summary = summarize(report, 1, '/repo');
  expect(summary).toEqual({ passed: 2, failed: ['src/x.test.ts: b'], skipped: [] });
  expect(finalLine(summary)).toBe('2 passed, 1 failed');
});

test('a file that could not be loaded is one failure', () => {
  const broken = file({}, { status: 'failed', message: 'Cannot find module\n  at …' });
  const summary = summarize({ testResults: [broken] }, 1, '/repo');
  expect(summary.failed).toEqual(['src/x.test.ts: Cannot find module']);
});

test('an error outside of any test is one failure', () => {
  const summary = summarize({ testResults: [file({ a: 'passed' })] }, 1, '/repo');
  expect(summary.failed).toEqual([expect.stringContaining('an error outside of any test')]);
  expect(finalLine(summary)).toBe('1 passed, 1 failed');
});

test('no report at all is one failure', () => {
  expect(finalLine(summarize(undefined, 137, '/repo'))).toBe('0 passed, 1 failed');
});

test('skipped tests are listed under the reason of their suite', () => {
  const skipped = (title: string): File['assertionResults'][number] => ({
    title,
    fullName: title,
    status: 'skipped',
    ancestorTitles: ['', 'suite the real CLI (skipped: no CLI (set X) here)', 'inner'],
  });
  const alone = {
    title: 'd (skipped: it is Tuesday)',
    fullName: 'd',
    status: 'skipped',
    ancestorTitles: [''],
  };
  const found = { ...alone, title: 'e', meta: { skipped: 'no registry' } };
  const testResults = [
    file({ a: 'passed' }),
    file({}, { assertionResults: [skipped('b'), skipped('c'), alone, found] }),
  ];
  const summary = summarize({ testResults }, 0, '/repo');
  expect(finalLine(summary)).toBe('1 passed, 0 failed, 4 skipped');
  expect(describeSkips(summary.skipped)).toEqual([
    'SKIPPED 2: no CLI (set X) here',
    '  - src/x.test.ts: b',
    '  - src/x.test.ts: c',
    'SKIPPED 1: it is Tuesday',
    '  - src/x.test.ts: d (skipped: it is Tuesday)',
    'SKIPPED 1: no registry',
    '  - src/x.test.ts: e',
  ]);
});

test('a skip without a reason is a failure', () => {
  const summary = summarize({ testResults: [file({ a: 'passed', b: 'todo' })] }, 0, '/repo');
  expect(summary.failed).toEqual(['src/x.test.ts: b was skipped without a reason']);
});
