/**
 * Measures the cost of a durable A2A server: `npm run build && npx tsx bench/a2a.ts [--json]
 * [--quick]`. Our server (SQLite, every event on disk before a client sees it) alternates with the
 * reference server (in memory) and with bare node:http. Compare the ratios; absolute figures depend
 * on the machine. Exits with 1 if a limit is missed.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  agent,
  countTask,
  followTask,
  inParallel,
  oneStream,
  post,
  type Server,
  shortTasks,
  start,
  stream,
  type Streamed,
} from './fixtures/a2a-load.ts';
import { serverCost } from './fixtures/raw-client.ts';
import { median } from './support.ts';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 3 : 7;
/** `memory` is our server without a disk: the cost of the protocol alone. */
const KINDS = ['bare', 'ours', 'memory', 'sdk'] as const;
type Kind = (typeof KINDS)[number];

async function latencies({ url }: Server): Promise<{ headers: number; first: number }> {
  const seen: Streamed[] = [];
  for (let i = 0; i < (quick ? 20 : 30); i++) seen.push(await stream(url, { n: 1 }));
  return {
    headers: median(seen.map(({ headersMs }) => headersMs)),
    first: median(seen.map(({ firstMs }) => firstMs)),
  };
}

/** Cancels a task as soon as its id is known, and measures the time to the response. */
async function cancel({ url }: Server): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 15; i++) {
    let asked = false;
    await stream(url, { n: 0, wait: true }, (text) => {
      const [, id] = /"taskId":"([^"]+)"/.exec(text) ?? [];
      if (asked || id === undefined) return;
      asked = true;
      const startedAt = performance.now();
      void post(url, 'CancelTask', { id }).then(async (response) => {
        for await (const _ of response);
        times.push(performance.now() - startedAt);
      });
    });
  }
  return median(times);
}

type Values = Partial<Record<Kind, number>>;

/**
 * The medians, and the median of the ratio of our server to bare in each round, in which both had
 * the same conditions on the machine.
 */
interface Figures {
  readonly values: Values;
  readonly ratio?: number;
}

interface Row extends Figures {
  readonly name: string;
  readonly unit: string;
  /** Limit of the ratio to bare. */
  readonly floor?: number;
  readonly ceiling?: number;
  /** Limit of our own figure. */
  readonly least?: number;
  readonly most?: number;
}

/** The CPU times of all processors, where the system reports them (Linux). */
const readStat = async (): Promise<readonly number[]> =>
  (await readFile('/proc/stat', 'utf8').catch(() => ''))
    .split('\n', 1)[0]
    ?.split(/\s+/)
    .slice(1, 9)
    .map(Number) ?? [];

function stealOf(now: readonly number[], before: readonly number[]): number | undefined {
  const spent = now.map((ticks, index) => ticks - (before[index] as number));
  return (spent[7] ?? Number.NaN) / spent.reduce((sum, ticks) => sum + ticks, 0) || undefined;
}

const atStart = await readStat();
const servers = Object.fromEntries(
  await Promise.all(KINDS.map(async (kind) => [kind, await start(kind)] as const)),
) as Record<Kind, Server>;
const rows: Row[] = [];

/** Measures all kinds of server alternately and collects each figure of a run. */
async function compareAll<Name extends string>(
  run: (server: Server) => Promise<Record<Name, number>>,
  kinds: readonly Kind[] = KINDS,
  rounds = ROUNDS,
): Promise<Record<Name, Figures>> {
  const seen: Partial<Record<Kind, Record<Name, number>>>[] = [];
  for (let round = 0; round < rounds; round++) {
    const turn: (typeof seen)[number] = {};
    for (const kind of kinds) turn[kind] = await run(servers[kind]);
    seen.push(turn);
  }
  const names = Object.keys(seen[0]?.[kinds[0] as Kind] ?? {}) as Name[];
  const of = (name: Name): Figures => {
    const all = (kind: Kind): number[] => seen.map((turn) => turn[kind]?.[name] as number);
    const values = Object.fromEntries(kinds.map((kind) => [kind, median(all(kind))])) as Values;
    if (values.bare === undefined) return { values };
    const bare = all('bare');
    const ratio = median(all('ours').map((ours, round) => ours / (bare[round] as number)));
    return { values, ratio };
  };
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, Figures>;
}

const compare = async (
  run: (server: Server) => Promise<number>,
  kinds?: readonly Kind[],
  rounds?: number,
): Promise<Figures> =>
  (await compareAll(async (server) => ({ only: await run(server) }), kinds, rounds)).only;

// Many processes never get warm: the cost from the 200th task of a fresh server on.
const costOf = async (): Promise<Figures> =>
  compare((server) => serverCost(server, 1000), KINDS, 1);
await compare((server) => serverCost(server, 200), KINDS, 1);
rows.push({ name: 'server processor, cold, raw client', ...(await costOf()), unit: 'ms' });

// Warm up for some seconds: V8 optimizes larger programs later than small ones.
for (const kind of KINDS) {
  await inParallel(1500, 16, () => stream(servers[kind].url, { n: 3 }));
  if (kind !== 'bare') for (let i = 0; i < 5; i++) await cancel(servers[kind]);
  await inParallel(3500, 16, () => followTask(servers[kind].url));
  if (kind !== 'sdk') await inParallel(10, 1, () => stream(servers[kind].url, { n: 1000 }));
}

const short = await compareAll(
  (server) => shortTasks(server, quick ? 200 : 400, followTask),
  KINDS,
  quick ? 5 : 15,
);
rows.push({ name: 'short tasks, 16 concurrent', ...short.rate, unit: '/s', floor: 0.6 });
rows.push({ name: 'server processor per short task', ...short.cpuMs, unit: 'ms' });
rows.push({ name: 'server processor, warm, raw client', ...(await costOf()), unit: 'ms' });
const counted = await compareAll((server) => shortTasks(server, quick ? 200 : 400, countTask));
rows.push({ name: 'short tasks, bytes only counted', ...counted.rate, unit: '/s' });
for (const n of [200, 1000, 10_000]) {
  const kinds = n > 1000 ? (['bare', 'ours', 'memory'] as const) : KINDS;
  const figures = await compare(oneStream(n), kinds, n > 1000 ? 3 : 2 * ROUNDS + 1);
  rows.push({ name: `one stream, ${n} deltas`, ...figures, unit: 'deltas/s', floor: 0.5 });
}
const { headers, first } = await compareAll(latencies);
rows.push({ name: 'response headers, p50', ...headers, unit: 'ms', ceiling: 2 });
rows.push({ name: 'first event, p50', ...first, unit: 'ms', ceiling: 4 });
rows.push({
  name: 'cancel, p50',
  ...(await compare(cancel, ['ours', 'memory', 'sdk'])),
  unit: 'ms',
  most: 5,
});

/**
 * 64 concurrent streams at full speed, then 64 streams that make 5,000 deltas a second together.
 */
const n = quick ? 500 : 2000;
const fast = await compare(
  async ({ url }) => {
    const startedAt = performance.now();
    await inParallel(64, 64, () => stream(url, { n }));
    return (64 * n) / ((performance.now() - startedAt) / 1000);
  },
  ['ours'],
  3,
);
rows.push({ name: 'durable deltas, 64 streams', ...fast, unit: 'deltas/s', least: 12_000 });

/**
 * Measures the event-loop delay. The starts are spread, because short tasks measure starts and
 * ends.
 */
async function loopDelay(server: Server): Promise<number> {
  const talking = Array.from({ length: 64 }, async (_, index) => {
    await sleep(index * 5);
    await stream(server.url, { n: 240, everyMs: 12 });
  });
  await sleep(600);
  await server.ask('reset');
  await sleep(2000);
  const { loopP99 } = await server.ask('state');
  await Promise.all(talking);
  return loopP99;
}
rows.push({
  name: 'event-loop delay p99 at 5,000 deltas/s',
  ...(await compare(loopDelay, ['bare', 'ours', 'memory'], quick ? 3 : 5)),
  unit: 'ms',
  most: 5,
});

const slow: Values = {};
for (const kind of KINDS) {
  const streams = quick ? 300 : 1000;
  const before = (await servers[kind].ask('collect')).rss;
  const all = inParallel(streams, streams, () =>
    stream(servers[kind].url, { n: 8, everyMs: 1000 }),
  );
  await sleep(6000);
  slow[kind] = ((await servers[kind].ask('collect')).rss - before) / 1024 / streams;
  await all;
}
rows.push({ name: 'a slow stream, resident', values: slow, unit: 'KB', most: 40 });

const stolen = stealOf(await readStat(), atStart);
let missed = 0;
if (!process.argv.includes('--json'))
  console.log(' '.repeat(40), ...KINDS.map((kind) => kind.padStart(10)));
for (const { name, values, ratio, unit, floor, ceiling, least, most } of rows) {
  const { bare, ours = 0, memory, sdk } = values;
  const low =
    (ratio !== undefined && floor !== undefined && ratio < floor) ||
    (least !== undefined && ours < least);
  const high =
    (ratio !== undefined && ceiling !== undefined && ratio > ceiling) ||
    (most !== undefined && ours > most);
  if (low || high) missed++;
  const show = (value: number | undefined): string =>
    (value === undefined ? '-' : value.toPrecision(4)).padStart(10);
  if (!process.argv.includes('--json'))
    console.log(
      name.padEnd(40),
      show(bare),
      show(ours),
      show(memory),
      show(sdk),
      unit.padEnd(9),
      ratio === undefined ? '' : `${ratio.toFixed(2)} x bare`,
      low ? `MISSED (at least ${floor ?? least})` : '',
      high ? `MISSED (at most ${ceiling ?? most})` : '',
    );
}
if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
else if (stolen !== undefined)
  console.log(
    `Of the processors, ${(stolen * 100).toFixed(1)} % were used by other virtual machines of the host.`,
  );
for (const server of Object.values(servers)) server.stop();
agent.destroy();
process.exitCode = missed > 0 ? 1 : 0;
