// Interrupts a scripted run after every event, in every way, for every agent and store: `npm run
// kill-matrix -- [--agent name] [--store sqlite|postgres] [--fault name] [--stride n] [--jobs n]`.
// Needs `npm run build`. Prints a row for each cell, and exits with 1 if a run differs from the
// unbroken one.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Fault, type FaultKind, type StoreKind, STORES } from '../test/kill-matrix/play.ts';
import {
  agentNames,
  type CellOptions,
  faultsOf,
  loadAgent,
  playPoint,
  pointsOf,
  type PointResult,
  unbroken,
} from '../test/kill-matrix/run-matrix.ts';
import { postgresMissing, startPostgres } from '../test/support/task/postgres.ts';

const { values } = parseArgs({
  options: {
    agent: { type: 'string', multiple: true },
    store: { type: 'string', multiple: true },
    fault: { type: 'string', multiple: true },
    at: { type: 'string', multiple: true },
    stride: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '3' },
  },
});

const folder = mkdtempSync(join(tmpdir(), 'duolane-kill-matrix-'));
const stores = (values.store ?? Object.keys(STORES)) as StoreKind[];
if (stores.includes('postgres') && postgresMissing !== undefined) throw new Error(postgresMissing);
await using database = stores.includes('postgres') ? await startPostgres() : undefined;
let failures = 0;
console.log(
  'agent            store     fault      points  failed  repeated requests, effects   time',
);
for (const name of values.agent ?? agentNames()) {
  const loaded = await loadAgent(name);
  if (loaded.agent.missing !== undefined) {
    console.log(`${name.padEnd(16)} not run: ${loaded.agent.missing}`);
    continue;
  }
  for (const store of stores) {
    const place = join(folder, name, store);
    const options = { loaded, store, temporary: place, ...(database && { database }) };
    const whole = await unbroken(options);
    const faults = faultsOf(store, loaded.agent).filter((each) => wants(values.fault, each));
    for (const kind of faults) {
      const points = values.at?.map((at) => ({ kind, at: Number(at) }));
      await playCell(options, whole, kind, points ?? pointsOf(whole, kind, Number(values.stride)));
    }
  }
}
if (failures === 0) rmSync(folder, { recursive: true, force: true });
else console.error(`${failures} runs differ; their logs are in ${folder}`);
process.exitCode = failures === 0 ? 0 : 1;

async function playCell(
  options: CellOptions,
  whole: Awaited<ReturnType<typeof unbroken>>,
  kind: FaultKind,
  points: readonly Fault[],
): Promise<void> {
  const start = performance.now();
  const results: PointResult[] = [];
  const rest = [...points];
  const work = async (): Promise<void> => {
    for (let fault = rest.shift(); fault; fault = rest.shift()) {
      const result = await playPoint(options, whole, fault);
      results.push(result);
      if (result.wrong.length > 0)
        console.log(`  ${kind} after ${result.at}: ${result.wrong.join('\n    ')}`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
  const failed = results.filter(({ wrong }) => wrong.length > 0);
  failures += failed.length;
  const sum = (of: 'requests' | 'effects'): number =>
    results.reduce((total, result) => total + result[of], 0);
  console.log(
    [
      options.loaded.name.padEnd(16),
      options.store.padEnd(9),
      kind.padEnd(10),
      String(results.length).padStart(6),
      String(failed.length).padStart(7),
      `${sum('requests')}, ${sum('effects')}`.padStart(27),
      `${Math.round((performance.now() - start) / 1000)} s`.padStart(6),
    ].join(' '),
  );
}

function wants(list: readonly string[] | undefined, name: string): boolean {
  return list === undefined || list.includes(name);
}
