/**
 * Compares our gRPC client and server with a bare HTTP/2 client and server that transfer the same
 * items in the same batches as JSON. They alternate, each side in a separate process: `npm run
 * build && npx tsx bench/mcp-grpc.ts [--json]`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const [LIST, LONG, CALLS, ROUNDS] = [100_000, 1_000_000, 10_000, 3];
const fixture = (name: string): string =>
  fileURLToPath(new URL(`./fixtures/${name}.mjs`, import.meta.url));

/** `wide`: bare, with the flow-control window of our client. */
type Who = 'ours' | 'bare' | 'wide';
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
 * Runs all of them alternately. A ratio compares two consecutive runs; the ratio of the CPU time of
 * both sides together depends least on the load of the machine.
 */
async function compare(
  what: string,
  count: number,
  bares: readonly Who[],
): Promise<{
  readonly figures: Readonly<Record<string, Figures>>;
  readonly ratio: (to: Who, of: keyof Figures) => number;
}> {
  const rounds: Record<string, Figures>[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    const round: Record<string, Figures> = {};
    for (const who of ['ours', ...bares] as const) round[who] = await measure(who, what, count);
    rounds.push(round);
  }
  const fold = (who: Who): Figures =>
    Object.fromEntries(
      Object.keys(rounds[0]![who]!).map((name) => [
        name,
        median(rounds.map((round) => round[who]![name as keyof Figures] ?? Number.NaN)),
      ]),
    );
  return {
    figures: Object.fromEntries((['ours', ...bares] as const).map((who) => [who, fold(who)])),
    ratio: (to, of) => median(rounds.map((round) => round['ours']![of]! / round[to]![of]!)),
  };
}

const list = await compare('list', LIST, ['bare', 'wide']);
const calls = await compare('calls', CALLS, ['bare']);
const long = await measure('ours', 'list', LONG, LONG);
const stop = await measure('ours', 'stop', 10);
const burst = await measure('ours', 'burst', 200);

if (process.argv.includes('--json'))
  console.log(
    JSON.stringify({ list: list.figures, calls: calls.figures, long, stop, burst }, undefined, 2),
  );
else {
  const n = (value: number | undefined, digits = 0): string => (value ?? 0).toFixed(digits);
  const row = (...cells: string[]): void => console.log(`| ${cells.join(' | ')} |`);
  const { ours, bare, wide } = list.figures;
  const ratios = (of: keyof Figures): string =>
    `${n(list.ratio('bare', of), 2)}, ${n(list.ratio('wide', of), 2)}`;
  row('', 'gRPC', 'bare HTTP/2', 'bare, same window', 'ratios', 'limit');
  row('---', '---', '---', '---', '---', '---');
  row('first of 100k tools, ms', n(ours?.firstMs, 1), n(bare?.firstMs, 1), '', '', '< 15');
  row(
    '100k tools, ms',
    n(ours?.totalMs),
    n(bare?.totalMs),
    n(wide?.totalMs),
    ratios('totalMs'),
    '<= 1.2',
  );
  row('… processor, ms', n(ours?.cpuMs), n(bare?.cpuMs), n(wide?.cpuMs), ratios('cpuMs'), '');
  row('client peak, MB', n(ours?.peakMb), n(bare?.peakMb), '', '', '< 80');
  row('client peak at 1M, MB', n(long.peakMb), '', '', '', 'flat');
  const called = calls.figures;
  row(
    'calls/s, 64 in flight',
    n(called['ours']?.perSecond),
    n(called['bare']?.perSecond),
    '',
    n(calls.ratio('bare', 'perSecond'), 2),
    '>= 0.35',
  );
  row(
    '10,000 calls, processor, ms',
    n(called['ours']?.cpuMs),
    n(called['bare']?.cpuMs),
    '',
    n(calls.ratio('bare', 'cpuMs'), 2),
    '',
  );
  row('produced ahead of a stopped consumer', n(stop.ahead), '', '', '', 'a batch, a window');
  row('progress of 2,000 in bursts', n(burst.progress), '', '', '', '2000');
}
