/**
 * Measures the cost of the message lane and of a reader that sleeps: `npx tsx bench/stream.ts
 * [--json]`. Exits with 1 if a limit is missed.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { isObject, type JsonObject } from '../src/json.ts';
import { OverflowQueue } from '../src/stream/overflow-queue.ts';
import { encodeLine, LineDecoder, parseLine, InvalidLine } from '../src/wire/jsonl.ts';
import { median, report, type Row } from './support.ts';

const CHUNK = 64 * 1024; // the size of one read from a pipe
const ROUNDS = 15;
const FLOOR = 0.7;
const PASSED_BYTES = 500_000_000;
const GROWTH_MB = 30;

const line = (n: number, size: number): Buffer => {
  const message = (text: string): string =>
    encodeLine({
      type: 'assistant',
      session_id: 'b5c1d6a0',
      uuid: `m-${n}`,
      message: { role: 'assistant', content: [{ type: 'text', text }] },
    });
  return Buffer.from(message('x'.repeat(Math.max(0, size - message('').length))));
};

function chunksOf(size: number, total: number): Buffer[] {
  const lines = Array.from({ length: Math.ceil(total / size) }, (_, n) => line(n, size));
  const bytes = Buffer.concat(lines);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += CHUNK) chunks.push(bytes.subarray(at, at + CHUNK));
  return chunks;
}

/** Simulates a pipe: every chunk comes in a separate turn of the event loop. */
async function* pipe(chunks: readonly Buffer[]): AsyncGenerator<Buffer, void, undefined> {
  for (const chunk of chunks) {
    await turn();
    yield chunk;
  }
}

async function bare(chunks: readonly Buffer[]): Promise<number> {
  let count = 0;
  let rest = '';
  for await (const chunk of pipe(chunks)) {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const each of lines) if (isObject(JSON.parse(each))) count++;
  }
  return count;
}

async function lane(chunks: readonly Buffer[]): Promise<number> {
  await using queue = new OverflowQueue<JsonObject>();
  const decoder = new LineDecoder();
  const feeding = (async () => {
    for await (const chunk of pipe(chunks)) {
      for (const text of decoder.decode(chunk)) {
        const frame = typeof text === 'string' ? parseLine(text) : text;
        if (!(frame instanceof InvalidLine)) queue.offer(frame, text as string);
      }
    }
    queue.close();
  })();
  let count = 0;
  for await (const frame of queue) if (isObject(frame)) count++;
  await feeding;
  return count;
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

async function throughput(name: string, size: number, total: number): Promise<Row[]> {
  const chunks = chunksOf(size, total);
  const [ours, theirs]: [number[], number[]] = [[], []];
  if ((await bare(chunks)) !== (await lane(chunks))) throw new Error('the lane lost a line');
  for (let round = 0; round < ROUNDS; round++) {
    theirs.push(await timed(() => bare(chunks)));
    ours.push(await timed(() => lane(chunks)));
  }
  const megabytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0) / 1e6;
  return [
    { name: `${name}: bare loop`, value: megabytes / (median(theirs) / 1000), unit: 'MB/s' },
    { name: `${name}: lane`, value: megabytes / (median(ours) / 1000), unit: 'MB/s' },
    { name: `${name}: lane / bare`, value: median(theirs) / median(ours), unit: 'x', floor: FLOOR },
  ];
}

const rssMb = (): number => process.memoryUsage.rss() / 1e6;

/** Feeds `total` bytes to a queue without a reader; then reads them all. */
async function sleeping(size: number, total: number): Promise<{ peakMb: number; stallMs: number }> {
  await using queue = new OverflowQueue<JsonObject>();
  const decoder = new LineDecoder();
  const chunk = Buffer.concat(
    Array.from({ length: Math.max(1, Math.floor(CHUNK / size)) }, (_, n) => line(n, size)),
  );
  let peakMb = rssMb();
  let stallMs = 0;
  let fed = 0;
  for (let bytes = 0; bytes < total; bytes += chunk.length) {
    const started = performance.now();
    for (const text of decoder.decode(chunk)) {
      if (!queue.offer(parseLine(text as string) as JsonObject, text as string)) {
        throw new Error('the queue ended early');
      }
      fed++;
    }
    stallMs = Math.max(stallMs, performance.now() - started);
    peakMb = Math.max(peakMb, rssMb());
    await turn();
  }
  queue.close();
  let read = 0;
  for await (const _ of queue) {
    if (++read % 1000 === 0) peakMb = Math.max(peakMb, rssMb());
  }
  if (read !== fed) throw new Error(`${fed} items went in and ${read} came out`);
  return { peakMb, stallMs };
}

async function memory(name: string, size: number): Promise<Row[]> {
  const before = rssMb();
  const started = performance.now();
  const { peakMb, stallMs } = await sleeping(size, PASSED_BYTES);
  const seconds = (performance.now() - started) / 1000;
  return [
    { name: `${name}: RSS growth`, value: peakMb - before, unit: 'MB', ceiling: GROWTH_MB },
    { name: `${name}: longest chunk`, value: stallMs, unit: 'ms' },
    { name: `${name}: in and out again`, value: PASSED_BYTES / 1e6 / seconds, unit: 'MB/s' },
  ];
}

report([
  // Memory comes first, while the heap is small: the code is optimized, and no queue has been full
  // yet.
  ...(await lane(chunksOf(200, 10_000_000)).then(() => memory('500 MB asleep, 200 B lines', 200))),
  ...(await memory('500 MB asleep, 100 KB lines', 100_000)),
  ...(await throughput('200 B lines', 200, 10_000_000)),
  ...(await throughput('100 KB lines', 100_000, 30_000_000)),
]);
