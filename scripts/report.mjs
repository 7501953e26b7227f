// Reads the JSON report of vitest: what passed, what failed by name, what was skipped and why.
import { relative } from 'node:path';

/** `exitCode` is that of vitest; without a report (`undefined`) the whole run is one failure. */
export function summarize(report, exitCode, root) {
  const summary = { passed: 0, failed: [], skipped: [] };
  if (report === undefined) {
    summary.failed.push(`the test run itself: no report was written (exit code ${exitCode})`);
    return summary;
  }
  for (const file of report.testResults) {
    const path = relative(root, file.name).replaceAll('\\', '/');
    const failedBefore = summary.failed.length;
    for (const { status, fullName, title, ancestorTitles } of file.assertionResults) {
      if (status === 'passed') summary.passed += 1;
      else if (status === 'failed') summary.failed.push(`${path}: ${fullName.trim()}`);
      else summary.skipped.push({ test: `${path}: ${title}`, reason: skipReason(ancestorTitles) });
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

function skipReason(titles) {
  for (const title of titles) {
    const reason = /^suite \S+ \(skipped: (.*)\)$/s.exec(title)?.[1];
    if (reason !== undefined) return reason;
  }
  return 'no reason given';
}

function firstLine(text) {
  return text.trim().split('\n', 1)[0];
}

/** The skips as lines, one per reason, with the tests behind it. */
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
