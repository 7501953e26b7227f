/**
 * Our gRPC ends against a bare HTTP/2 server and client that move the same items in the same
 * batches as JSON, in turns, each end in a process of its own:
 * `npm run build && npx tsx bench/mcp-grpc.ts [--json]`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const [LIST, LONG, CALLS, ROUNDS] = [100_000, 1_000_000, 10_000, 3];
const fixture = (name: string): string =>
  fileURLToPath(new URL(`./fixtures/${name}.mjs`, import.meta.url));

type Who = 'ours' | 'bare';
type Figures = Partial<
  Record<'firstMs' | 'totalMs' | 'cpuMs' | 'perSecond' | 'progress' | 'ahead' | 'peakMb', number>
>;

async function measure(who: Who, what: string, count: number, served = LIST): Promise<Figures> {
  const args = [fixture('grpc-server'), who, String(served)];
  const child: ChildProcess = spawn(process.execPath, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const said = createInterface(child.stdout!)[Symbol.asyncIterator]();
  const ended = once(child, 'exit');
  const line = async (): Promise<string> => String((await said.next()).value);
  try {
    const client = [fixture('grpc-client'), who, await line(), what, String(count)];
    const { stdout } = await promisify(execFile)(process.execPath, client);
    const figures = JSON.parse(stdout) as Figures;
    child.stdin!.end();
    return { ...figures, cpuMs: (figures.cpuMs ?? 0) + Number(await line()) };
  } finally {
    child.stdin!.end();
    await ended;
  }
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

/**
 * Both, in turns. Ratios are of neighbours in time; that of the processor time of both ends together
 * is what a busy machine disturbs least.
 */
async function compare(
  what: string,
  count: number,
  key: 'totalMs' | 'perSecond',
): Promise<{ ours: Figures; bare: Figures; ratio: number; cpuRatio: number }> {
  const rounds: { ours: Figures; bare: Figures }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({
      ours: await measure('ours', what, count),
      bare: await measure('bare', what, count),
    });
  const fold = (who: Who): Figures =>
    Object.fromEntries(
      Object.keys(rounds[0]![who]).map((name) => [
        name,
        median(rounds.map((round) => round[who][name as keyof Figures] ?? Number.NaN)),
      ]),
    );
  const ratioOf = (of: 'totalMs' | 'perSecond' | 'cpuMs'): number =>
    median(rounds.map(({ ours, bare }) => ours[of]! / bare[of]!));
  return {
    ours: fold('ours'),
    bare: fold('bare'),
    ratio: ratioOf(key),
    cpuRatio: ratioOf('cpuMs'),
  };
}

const list = await compare('list', LIST, 'totalMs');
const calls = await compare('calls', CALLS, 'perSecond');
const long = await measure('ours', 'list', LONG, LONG);
const stop = await measure('ours', 'stop', 10);
const burst = await measure('ours', 'burst', 200);

if (process.argv.includes('--json'))
  console.log(JSON.stringify({ list, calls, long, stop, burst }));
else {
  const n = (value: number | undefined, digits = 0): string => (value ?? 0).toFixed(digits);
  const row = (...cells: string[]): void => console.log(`| ${cells.join(' | ')} |`);
  row('', 'gRPC', 'bare HTTP/2', 'ratio', 'wanted');
  row('---', '---', '---', '---', '---');
  row('first of 100k tools, ms', n(list.ours.firstMs, 1), n(list.bare.firstMs, 1), '', '< 15');
  row('100k tools, ms', n(list.ours.totalMs), n(list.bare.totalMs), n(list.ratio, 2), '<= 1.2');
  row('… processor, ms', n(list.ours.cpuMs), n(list.bare.cpuMs), n(list.cpuRatio, 2), '');
  row('client peak, MB', n(list.ours.peakMb), n(list.bare.peakMb), '', '< 80');
  row('client peak at 1M, MB', n(long.peakMb), '', '', 'flat');
  row(
    'calls/s, 64 in flight',
    n(calls.ours.perSecond),
    n(calls.bare.perSecond),
    n(calls.ratio, 2),
    '>= 0.35',
  );
  row(
    '10,000 calls, processor, ms',
    n(calls.ours.cpuMs),
    n(calls.bare.cpuMs),
    n(calls.cpuRatio, 2),
    '',
  );
  row('made ahead of a stopped consumer', n(stop.ahead), '', '', 'a batch, a window');
  row('progress of 2,000 in bursts', n(burst.progress), '', '', '2000');
}
