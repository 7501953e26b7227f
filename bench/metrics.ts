/**
 * Measures the cost of metrics: `npm run build && npx tsx bench/metrics.ts [--json] [--quick]`. The
 * same server (in memory, so that no disk hides the cost) runs with and without the observers of
 * `serve()`, alternately. Compare the CPU time of the server; rates depend on the machine. Exits
 * with 1 if a limit is missed.
 */
import {
  agent,
  countTask,
  inParallel,
  oneStream,
  shortTasks,
  start,
  stream,
} from './fixtures/a2a-load.ts';
import { median, report } from './support.ts';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 5 : 15;
const servers = { off: await start('unmeasured'), on: await start('measured') };
type Kind = keyof typeof servers;
const KINDS: readonly Kind[] = ['off', 'on'];

interface Round {
  readonly rate: number;
  readonly cpuMs: number;
  readonly deltaUs: number;
}

/** Runs short tasks, then one stream whose deltas are not merged. */
async function round(kind: Kind): Promise<Round> {
  const server = servers[kind];
  const { rate, cpuMs } = await shortTasks(server, quick ? 200 : 600, countTask);
  const n = 20_000;
  const { cpu } = await server.ask('state');
  await oneStream(n)(server);
  const deltaUs = (((await server.ask('state')).cpu - cpu) / n) * 1000;
  return { rate, cpuMs, deltaUs };
}

for (const kind of KINDS) await inParallel(1500, 16, () => stream(servers[kind].url, { n: 3 }));
const seen: Record<Kind, Round[]> = { off: [], on: [] };
for (let i = 0; i < ROUNDS; i++)
  for (const kind of i % 2 ? KINDS : KINDS.toReversed()) seen[kind].push(await round(kind));

const of = (kind: Kind, name: keyof Round): number => median(seen[kind].map((each) => each[name]));
// A ratio compares two consecutive runs, so that load of the machine affects both.
const ratio = (name: keyof Round): number =>
  median(seen.on.map((each, i) => each[name] / (seen.off[i]?.[name] ?? Number.NaN)));
report([
  { name: 'short tasks, metrics off', value: of('off', 'rate'), unit: '/s' },
  { name: 'short tasks, metrics on', value: of('on', 'rate'), unit: '/s' },
  { name: '… on / off', value: ratio('rate'), unit: 'x' },
  { name: 'processor per short task, off', value: of('off', 'cpuMs') * 1000, unit: 'us' },
  { name: 'processor per short task, on', value: of('on', 'cpuMs') * 1000, unit: 'us' },
  { name: '… on / off', value: ratio('cpuMs'), unit: 'x', ceiling: 1.1 },
  { name: 'processor per delta, off', value: of('off', 'deltaUs'), unit: 'us' },
  { name: 'processor per delta, on', value: of('on', 'deltaUs'), unit: 'us' },
  { name: '… on / off', value: ratio('deltaUs'), unit: 'x', ceiling: 1.1 },
]);
for (const server of Object.values(servers)) server.stop();
agent.destroy();
