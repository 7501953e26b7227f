// Durable appends, event-loop delay and replay of the SQLite log: `npm run build && npx tsx bench/task.ts [seconds]`
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { AgentEvent, Seq } from '../src/event/types.ts';
import type * as task from '../src/task/index.ts';
import type { Claim, TaskLog } from '../src/task/index.ts';

// The built package, as users have it: a loader would be measured too.
const built = new URL('../dist/task/index.js', import.meta.url).href;
const { memoryLog, sqliteLog } = (await import(built)) as typeof task;

const seconds = Number(process.argv[2] ?? 3);
const delta: AgentEvent = { type: 'text.delta', id: 't', delta: 'x'.repeat(400) };

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

/** Each stream has one append in flight, as a run has. Per second, and what one costs the processor. */
async function appends(
  log: TaskLog,
  name: string,
  streams: number,
): Promise<{ rate: number; cpuUs: number }> {
  const writers = await Promise.all(
    Array.from({ length: streams }, (_, index) => openTask(log, `${name}-${index}`)),
  );
  const start = performance.now();
  const end = start + seconds * 1000;
  const before = process.cpuUsage();
  let count = 0;
  await Promise.all(
    writers.map(async (writer) => {
      while (performance.now() < end) {
        writer.seq = await log.append(writer.claim, writer.seq, [delta]);
        count++;
      }
    }),
  );
  const { user, system } = process.cpuUsage(before);
  return { rate: (count * 1000) / (performance.now() - start), cpuUs: (user + system) / count };
}

/** 50 streams of 100 events a second: what the event loop feels of it. */
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
  const concurrent = await appends(log, 'many', 64);
  const serial = await appends(log, 'one', 1);
  const loop = await paced(log);
  const rows = await replay(log);
  await log[Symbol.asyncDispose]();
  await using memory = memoryLog();
  const inMemory = await appends(memory, 'many', 64);
  const line = (what: string, figure: string): void => console.log(`${what.padEnd(46)}${figure}`);
  line('open', `${opened.toFixed(0)} ms`);
  const shown = ({ rate, cpuUs }: typeof serial): string =>
    `${rate.toFixed(0)} events/s, ${cpuUs.toFixed(0)} us of processor each`;
  line('durable appends, 64 streams', `${shown(concurrent)} (target 12,000/s)`);
  line('durable appends, 1 stream', shown(serial));
  line('gain of the group', `${(concurrent.rate / serial.rate).toFixed(1)}x`);
  line('in memory, 64 streams', shown(inMemory));
  line(
    `event loop at ${loop.rate.toFixed(0)} events/s`,
    `p99 ${loop.p99.toFixed(1)} ms (target 5), max ${loop.max.toFixed(1)} ms`,
  );
  line('replay of 20,000 entries', `${rows.toFixed(0)} rows/s`);
} finally {
  await rm(folder, { recursive: true });
}
