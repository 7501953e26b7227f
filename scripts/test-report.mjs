// Reads the JSON report of vitest: what passed, what failed by name, what was skipped and why.
import { relative } from 'node:path';

/** `exitCode` is that of vitest; without a report (`undefined`) the run counts as one failure. */
export function summarize(report, exitCode, root) {
  const summary = { passed: 0, failed: [], skipped: [] };
  if (report === undefined) {
    summary.failed.push(`the test run itself: no report was written (exit code ${exitCode})`);
    return summary;
  }
  for (const file of report.testResults) {
    const path = relative(root, file.name).replaceAll('\\', '/');
    const failedBefore = summary.failed.length;
    for (const test of file.assertionResults) {
      const { status, fullName, title } = test;
      const reason = skipReason(test) ?? (file.status === 'failed' ? BESIDE_A_FAILURE : undefined);
      if (status === 'passed') summary.passed += 1;
      else if (status === 'failed') summary.failed.push(`${path}: ${fullName.trim()}`);
      else if (reason !== undefined) summary.skipped.push({ test: `${path}: ${title}`, reason });
      else summary.failed.push(`${path}: ${fullName.trim()} was skipped without a reason`);
    }
    if (file.status === 'failed' && summary.failed.length === failedBefore)
      summary.failed.push(`${path}: ${firstLine(file.message) || 'the file could not be run'}`);
  }
  if (exitCode !== 0 && summary.failed.length === 0)
    summary.failed.push(
      `the test run itself: an error outside of any test (exit code ${exitCode})`,
    );
  return summary;
}

/** A hook that fails also skips the tests after it. */
const BESIDE_A_FAILURE = 'something else in its file failed';

/** The reason that `suite`, `testIf` and `skipBecause` of test/verifies.ts write into a report. */
function skipReason({ title, ancestorTitles, meta }) {
  if (typeof meta?.skipped === 'string') return meta.skipped;
  for (const name of [...ancestorTitles, title]) {
    const [, reason] = splitTitle(name);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/** Splits a title into the title itself and the reason for its skip. */
export function splitTitle(title) {
  const mark = ' (skipped: ';
  const at = title.indexOf(mark);
  if (at < 0 || !title.endsWith(')')) return [title, undefined];
  return [title.slice(0, at), title.slice(at + mark.length, -1)];
}

function firstLine(text) {
  return text.trim().split('\n', 1)[0];
}

/** The skipped tests as lines, grouped by reason. */
export function describeSkips(skipped) {
  const byReason = new Map();
  for (const { test, reason } of skipped)
    byReason.set(reason, [...(byReason.get(reason) ?? []), test]);
  return [...byReason].flatMap(([reason, tests]) => [
    `SKIPPED ${tests.length}: ${reason}`,
    ...tests.map((test) => `  - ${test}`),
  ]);
}

/** The last line of a test run: `N passed, N failed`, and `, N skipped` if any were. */
export function finalLine({ passed, failed, skipped }) {
  const tail = skipped.length === 0 ? '' : `, ${skipped.length} skipped`;
  return `${passed} passed, ${failed.length} failed${tail}`;
}
