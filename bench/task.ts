/**
 * Measures durable appends, event-loop delay and replay of the SQLite log: `npm run build && npx
 * tsx bench/task.ts [seconds]`. Appends alternate with those of a bare store
 * (`fixtures/bare-store.mjs`: a thread, two statements, group commit, no rules). Compare the ratio;
 * absolute figures depend on the machine. Exits with 1 if a limit is missed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { AgentEvent, Seq } from '../src/event/types.ts';
import type * as task from '../src/task/index.ts';
import type { Claim, TaskLog } from '../src/task/index.ts';
import { median, report } from './support.ts';

// The built package, as users have it: the loader of TypeScript would be measured too.
const built = new URL('../dist/task/index.js', import.meta.url).href;
const { memoryLog, sqliteLog } = (await import(built)) as typeof task;

const bareStore = new URL('fixtures/bare-store.mjs', import.meta.url).href;
interface BareStore extends AsyncDisposable {
  append(task: number, body: string): Promise<number>;
}
const { openBareStore } = (await import(bareStore)) as {
  readonly openBareStore: (file: string, tasks: number) => BareStore;
};

const ROUNDS = 5;
const STREAMS = 64;
const seconds = Number(process.argv.find((each) => /^[\d.]+$/.test(each)) ?? 3);
const delta = { type: 'text.delta', id: 't', delta: 'x'.repeat(400) } satisfies AgentEvent;
/** The stored form of the event; the bare store gets the same bytes. */
const line = JSON.stringify({ ...delta, at: Date.now(), seq: 1000 });

interface Writer {
  readonly claim: Claim;
  seq: Seq;
}

async function openTask(log: TaskLog, task: string): Promise<Writer> {
  const turn = { agent: 'a', task, context: 'c', messageId: task, parts: [{ text: 'hi' }] };
  const { claim } = await log.submit(turn, { worker: 'bench' });
  if (!claim) throw new Error('not free');
  return { claim, seq: await log.append(claim, 1, [{ type: 'run.started' }]) };
}

/** Appends one entry; resolves when it is durable. */
type Append = () => Promise<unknown>;

const openStreams = (log: TaskLog, name: string, streams: number): Promise<Append[]> =>
  Promise.all(
    Array.from({ length: streams }, async (_, index) => {
      const writer = await openTask(log, `${name}-${index}`);
      return async () => {
        writer.seq = await log.append(writer.claim, writer.seq, [delta]);
      };
    }),
  );

interface Appends {
  readonly rate: number;
  /** CPU time per append. */
  readonly cpuUs: number;
}

/** Each stream has one pending append, like a run. */
async function appends(streams: readonly Append[], forSeconds: number): Promise<Appends> {
  const start = performance.now();
  const end = start + forSeconds * 1000;
  const before = process.cpuUsage();
  let count = 0;
  await Promise.all(
    streams.map(async (append) => {
      for (; performance.now() < end; count++) await append();
    }),
  );
  const { user, system } = process.cpuUsage(before);
  return { rate: (count * 1000) / (performance.now() - start), cpuUs: (user + system) / count };
}

/** Runs all stores alternately, so that load of the machine affects all. */
async function compare<Name extends string>(
  all: Readonly<Record<Name, readonly Append[]>>,
): Promise<Record<Name, Appends>> {
  const names = Object.keys(all) as Name[];
  const seen: [Name, Appends][] = [];
  for (let round = 0; round < ROUNDS; round++)
    for (const name of names) seen.push([name, await appends(all[name], seconds / ROUNDS)]);
  const middle = (name: Name, figure: keyof Appends): number =>
    median(seen.flatMap(([each, figures]) => (each === name ? [figures[figure]] : [])));
  return Object.fromEntries(
    names.map((name) => [name, { rate: middle(name, 'rate'), cpuUs: middle(name, 'cpuUs') }]),
  ) as Record<Name, Appends>;
}

/** Measures the event-loop delay under 50 streams of 100 events a second. */
async function paced(log: TaskLog): Promise<{ p99: number; max: number; rate: number }> {
  const writers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => openTask(log, `paced-${index}`)),
  );
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const busy = new Set<Writer>();
  let count = 0;
  const tick = setInterval(() => {
    for (const writer of writers) {
      if (busy.has(writer)) continue;
      busy.add(writer);
      log.append(writer.claim, writer.seq, [delta]).then(
        (seq) => {
          writer.seq = seq;
          count++;
          busy.delete(writer);
        },
        (error: unknown) => console.error(error),
      );
    }
  }, 10);
  delay.enable();
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const rate = (count * 1000) / (performance.now() - start);
  delay.disable();
  clearInterval(tick);
  while (busy.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  return { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6, rate };
}

async function replay(log: TaskLog): Promise<number> {
  const writer = await openTask(log, 'long');
  const batch = Array.from({ length: 500 }, () => delta);
  for (let index = 0; index < 40; index++)
    writer.seq = await log.append(writer.claim, writer.seq, batch);
  await log.append(writer.claim, writer.seq, [
    { type: 'run.finished', outcome: 'completed', text: '' },
  ]);
  const start = performance.now();
  let count = 0;
  for await (const _ of log.read('long', 0)) count++;
  return (count * 1000) / (performance.now() - start);
}

const folder = await mkdtemp(join(tmpdir(), 'duolane-bench-'));
try {
  const started = performance.now();
  const log = await sqliteLog({ file: join(folder, 'tasks.db') });
  const opened = performance.now() - started;
  await using bare = openBareStore(join(folder, 'bare.db'), STREAMS);
  await using memory = memoryLog();
  const tasks = Array.from({ length: STREAMS }, (_, task) => task);
  const many = await compare({
    bare: tasks.map((task) => () => bare.append(task, line)),
    ours: await openStreams(log, 'many', STREAMS),
  });
  const one = await compare({
    bare: [() => bare.append(0, line)],
    ours: await openStreams(log, 'one', 1),
  });
  const loop = await paced(log);
  const rows = await replay(log);
  await log[Symbol.asyncDispose]();
  const inMemory = await appends(await openStreams(memory, 'many', STREAMS), 1);
  const ratio = many.ours.rate / many.bare.rate;
  report([
    { name: 'open', value: opened, unit: 'ms' },
    { name: 'appends, 64 streams: bare store', value: many.bare.rate, unit: '/s' },
    { name: '… ours', value: many.ours.rate, unit: '/s' },
    { name: '… ours / bare', value: ratio, unit: 'x' },
    // The target was set on a machine whose disk takes 1,900 appends of one stream per second.
    {
      name: '… ours / one stream of the bare store',
      value: many.ours.rate / one.bare.rate,
      unit: 'x',
      floor: 12_000 / 1900,
    },
    { name: '… processor of one, bare', value: many.bare.cpuUs, unit: 'us' },
    { name: '… processor of one, ours', value: many.ours.cpuUs, unit: 'us' },
    { name: 'appends, 1 stream: bare store', value: one.bare.rate, unit: '/s' },
    { name: '… ours', value: one.ours.rate, unit: '/s' },
    { name: 'appends in memory, 64 streams', value: inMemory.rate, unit: '/s' },
    { name: 'events/s while the event loop is watched', value: loop.rate, unit: '/s' },
    { name: '… its delay, p99', value: loop.p99, unit: 'ms', ceiling: 5 },
    { name: '… its delay, at most', value: loop.max, unit: 'ms' },
    { name: 'replay of 20,000 entries', value: rows, unit: '/s' },
  ]);
} finally {
  await rm(folder, { recursive: true });
}
