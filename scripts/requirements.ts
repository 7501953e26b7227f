// `npm run requirements`: how many requirements the last full test run has proven.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { GROUPS } from '../test/requirements.ts';
import {
  findLosses,
  findUnpinned,
  pin,
  type Pinned,
  type Proof,
  prove,
  type Row,
  type Standing,
  standingOf,
} from './requirement-proof.ts';
import type { TestReport } from './test-report.mjs';
import { ROOT, runTool } from './setup.mjs';

const HELP = `npm run requirements -- [option]
  (none)     per group, how many rows the last full test run has proven here; then all rows: proven
             here, proven elsewhere (pinned to a suite that did not run here), not run
  --list     the rows that were not proven here
  --json     everything, for machines
  --run      run the tests first instead of reading the last report
  --check    fail if a row of test/proven.json is no longer proven, or a cited row does not exist
  --update   write test/proven.json from the last report`;

const { values: flags } = parseArgs({
  options: {
    list: { type: 'boolean' },
    json: { type: 'boolean' },
    run: { type: 'boolean' },
    check: { type: 'boolean' },
    update: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});

const REPORT = join(ROOT, '.cache', 'test-report.json');
const PINS = join(ROOT, 'test', 'proven.json');

if (flags.help) console.log(HELP);
else await main();

async function main(): Promise<void> {
  const quiet = flags.json === true;
  if (flags.run === true || (!existsSync(REPORT) && flags.check !== true))
    await runTool(
      'vitest',
      ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`],
      { quiet },
    );
  if (!existsSync(REPORT)) return fail('No report of a full test run found; run `npm test` first.');
  const proof = prove(JSON.parse(readFileSync(REPORT, 'utf8')) as TestReport);
  const pinned = JSON.parse(readFileSync(PINS, 'utf8')) as Pinned;
  if (flags.update === true) {
    writeFileSync(PINS, `${JSON.stringify(pin(proof, pinned), null, 2)}\n`);
    return console.log(`test/proven.json: ${count(proof.rows)} rows`);
  }
  const losses = findLosses(proof, pinned);
  if (flags.json === true)
    console.log(JSON.stringify({ ...figures(proof, pinned), losses, rows: proof.rows }, null, 2));
  else if (flags.list === true) printOpenRows(proof, pinned);
  else if (flags.check !== true) printGroups(proof.rows);
  if (flags.json !== true) printSum(proof, pinned);
  const unpinned = findUnpinned(proof, pinned);
  if (flags.json !== true && unpinned.length > 0)
    console.log(`${unpinned.length} of them not pinned: run npm run requirements -- --update`);
  if (flags.check === true && losses.length > 0) fail(losses.join('\n'));
}

function printGroups(rows: readonly Row[]): void {
  for (const [group, title] of Object.entries(GROUPS)) {
    const own = rows.filter((row) => row.group === group);
    const figures = `${String(count(own)).padStart(3)} / ${String(own.length).padEnd(3)}`;
    const failed = own.filter(({ state }) => state === 'failed').map(({ id }) => id);
    const warning = failed.length > 0 ? `  FAILED: ${failed.join(' ')}` : '';
    console.log(`${group.padEnd(4)}${figures} ${title}${warning}`);
  }
}

function printOpenRows(proof: Proof, pinned: Pinned): void {
  for (const row of proof.rows) {
    const standing = standingOf(row, proof, pinned);
    if (standing !== 'here')
      console.log(`${row.id.padEnd(5)}${standing.padEnd(10)}${row.part}: ${row.text}`);
  }
}

function figures(proof: Proof, pinned: Pinned): Record<Standing, number> {
  const counts = { here: 0, elsewhere: 0, 'not run': 0, failed: 0 };
  for (const row of proof.rows) counts[standingOf(row, proof, pinned)] += 1;
  return counts;
}

function printSum(proof: Proof, pinned: Pinned): void {
  const { here, elsewhere, failed, 'not run': notRun } = figures(proof, pinned);
  const softer = proof.rows.filter(({ byContract }) => byContract !== undefined);
  console.log(
    `${proof.rows.length} rows: ${here} proven here, ${elsewhere} proven elsewhere (pinned), ` +
      `${notRun} not run${failed > 0 ? `, ${failed} FAILED` : ''}`,
  );
  for (const { id, byContract } of softer) console.log(`${id} by contract: ${byContract}`);
}

function count(rows: readonly Row[]): number {
  return rows.filter(({ state }) => state === 'proven').length;
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}
