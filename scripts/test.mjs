// `npm test`: everything. `npm run check` (--quick): types, lint, format and unit tests.
// With paths (`npm test -- src/stream`): the same checks, and only the tests of those paths.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePeer, everydayPeers } from './peers.mjs';
import { describeSkips, finalLine, summarize } from './test-report.mjs';
import { build, endChildrenOnSignal, install, ROOT, runTool, say } from './setup.mjs';

const args = process.argv.slice(2);
const quick = args.includes('--quick');
const paths = args.filter((arg) => arg !== '--quick');
const full = !quick && paths.length === 0;

endChildrenOnSignal();
const failedSteps = [];
const missing = await install(ROOT, () => say('install   npm ci, once for each new lock file'));
if (missing !== undefined) {
  say(`install   FAILED: ${missing.reason}`);
  failedSteps.push('install');
  finish({ passed: 0, failed: [], skipped: [] });
} else {
  await Promise.all([
    step('types', () => runTool('typescript', [], { quiet: true })),
    step('types web', () => runTool('typescript', ['-p', 'web/tsconfig.json'], { quiet: true })),
    step('lint', () => runTool('oxlint', [], { quiet: true })),
    step('format', () => runTool('oxfmt', ['--check'], { quiet: true })),
    ...(quick ? [] : [step('build', () => build())]),
    ...(full ? everydayPeers().map((name) => step(`peer ${name}`, () => preparePeer(name))) : []),
  ]);
  const summary = await runTests();
  // Requirements are judged by the report of all tests; a partial run cannot judge them.
  if (full) await step('requirements', checkRequirements, { show: true });
  finish(summary);
}

async function step(name, work, { show = false } = {}) {
  const startedAt = performance.now();
  const { code, output } = await work();
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  say(`${name.padEnd(16)}  ${code === 0 ? 'ok' : 'FAILED'}  ${seconds} s`);
  if (code !== 0) failedSteps.push(name);
  if (output.trim() !== '' && (code !== 0 || show)) say(output.trimEnd());
}

async function preparePeer(name) {
  try {
    const peer = await ensurePeer(name, () => say(`peer ${name}: npm ci, once for its lock file`));
    // An unavailable peer is not a failure: its tests are skipped and listed at the end.
    if (!peer.available) say(`peer ${name}: ${peer.reason}`);
    return { code: 0, output: '' };
  } catch (error) {
    return { code: 1, output: error.message };
  }
}

async function runTests() {
  const report = join(ROOT, '.cache', full ? 'test-report.json' : 'partial-report.json');
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  rmSync(report, { force: true });
  const { code } = await runTool('vitest', [
    'run',
    ...(quick ? ['--project', 'unit'] : []),
    ...paths,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ]);
  const json = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : undefined;
  return summarize(json, code, ROOT);
}

function checkRequirements() {
  return runTool('tsx', ['scripts/requirements.ts', '--check'], { quiet: true });
}

function finish(tests) {
  const failed = [...failedSteps.map((name) => `step: ${name}`), ...tests.failed];
  for (const line of describeSkips(tests.skipped)) say(line);
  for (const name of failed) say(`FAILED ${name}`);
  say(finalLine({ ...tests, failed }));
  process.exitCode = failed.length === 0 ? 0 : 1;
}
