// `npm run simulate -- [--schedules N | --hours H] [--from N] [--seed S] [--part P] [--defects]`: runs the real
// code in a world whose time, order and faults a seed decides. A schedule that breaks a law is shrunk
// and printed. `--seed` runs one schedule and prints its trace; `--defects` looks how many schedules
// find each mistake of test/simulation/defects.ts. The coverage is that of the first 500 schedules.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bundle } from '../test/simulation/bundle.ts';
import { readCoverage } from '../test/simulation/coverage.ts';
import { DEFECTS } from '../test/simulation/defects.ts';
import type { Report } from '../test/simulation/main.ts';
import { runSchedules } from '../test/simulation/start.ts';

const { values, positionals } = parseArgs({
  options: {
    schedules: { type: 'string', default: '10000' },
    hours: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    part: { type: 'string' },
    defects: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const CHUNK = 500;
const { part } = values;
const folder = mkdtempSync(join(tmpdir(), 'duolane-simulation-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

if (values.seed !== undefined) await one(Number(values.seed));
else if (values.defects) await defects(Number(values.schedules));
else await many();

async function one(seed: number): Promise<void> {
  const module = await bundle('./main.ts', folder);
  const report = await runSchedules(module, { from: seed, trace: true, shrink: true, part });
  console.log(`trace hash ${report.hash}, ${report.events} events`);
  show(report);
}

async function many(): Promise<void> {
  const module = await bundle('./main.ts', folder);
  const end = values.hours === undefined ? Infinity : Date.now() + Number(values.hours) * 3_600_000;
  const first = Number(values.from);
  const last = values.hours === undefined ? first + Number(values.schedules) : Infinity;
  const reports: Report[] = [];
  const records = join(folder, 'coverage');
  let next = first;
  const work = async (): Promise<void> => {
    while (next < last && Date.now() < end) {
      const from = next;
      next = Math.min(next + CHUNK, last);
      const options = { from, schedules: next - from, shrink: true, part } as const;
      const env = { ...process.env, ...(from === first && { NODE_V8_COVERAGE: records }) };
      const report = await runSchedules(module, options, env);
      reports.push(report);
      show(report);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const sum = (of: (report: Report) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const counts: Record<string, number> = {};
  for (const report of reports)
    for (const [what, count] of Object.entries(report.counts))
      counts[what] = (counts[what] ?? 0) + count;
  const days = sum(({ virtualMs }) => virtualMs) / 86_400_000;
  console.log(
    `${sum(({ schedules }) => schedules)} schedules, ${sum(({ events }) => events)} events`,
  );
  console.log(`${days.toFixed(1)} days of simulated time`);
  for (const [what, count] of Object.entries(counts)) console.log(`${what.padEnd(18)} ${count}`);
  console.log(`${countLaws()} laws, checked in each schedule of their part`);
  for (const { folder: name, ran, lines } of readCoverage(module, records))
    console.log(`${name.padEnd(36)} ${String(ran).padStart(5)} of ${lines} lines`);
}

/** How many laws the sources of the simulation name. */
function countLaws(): number {
  const root = fileURLToPath(new URL('../test/simulation/', import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' });
  const laws = files
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [
      ...readFileSync(join(root, name), 'utf8').matchAll(/broken\(\s*'([^']+)'/g),
    ]);
  return new Set(laws.map(([, law]) => law)).size;
}

async function defects(schedules: number): Promise<void> {
  let [found, tried] = [0, 0];
  const chosen = DEFECTS.filter(
    ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part)),
  );
  for (const defect of chosen) {
    const module = await bundle('./main.ts', join(folder, String(tried++)), [defect]);
    const report = await runSchedules(module, { schedules, part: defect.part });
    const [failure] = report.failures;
    if (failure) found++;
    const result = failure ? `found: ${failure.law}` : 'not found';
    console.log(`${String(report.schedules).padStart(6)}  ${defect.name}: ${result}`);
  }
  console.log(`${found} of ${chosen.length} defects were found within ${schedules} schedules`);
}

function show({ failures }: Report): void {
  for (const { seed, law, what, schedule, trace = [] } of failures) {
    process.exitCode = 1;
    console.error(`BROKEN by --seed ${seed}: ${law}\n${what}\n\n${schedule}\n`);
    console.error(trace.join('\n'));
  }
}
