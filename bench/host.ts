/**
 * Compares the host with a bare pipe loop and the official SDK, on one stub CLI that sends the same
 * bytes to all: `npx tsx bench/host.ts [part…] [--json] [--quick] [--rounds=9]`, after
 * `npm run build`; the parts are small, large, call, calls, asleep and import. Each host runs in a
 * separate process, and they alternate, so that load of the machine affects all; ratios are medians
 * over the rounds. All parts with nine rounds take several minutes, so each part prints its time
 * when it ends; `--quick` has three rounds. Exits with 1 if a limit is missed.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensurePeer } from '../scripts/peers.mjs';
import { hermetic, median, report, type Row } from './support.ts';

const quick = process.argv.includes('--quick');
const ROUNDS = Number(/^--rounds=(\d+)$/m.exec(process.argv.join('\n'))?.[1] ?? (quick ? 3 : 9));

/** Rounds until V8 has optimized the code, which counts as CPU time of the host. */
const WARM_ROUNDS = 3;

/** The number of processes in which a consumer sleeps. */
const SLEEPS = quick ? 1 : 3;

type Kind = 'bare' | 'session' | 'query' | 'official';

interface Plan {
  readonly messages?: number;
  readonly bytes?: number;
  readonly calls?: number;
  readonly inFlight?: number;
  readonly sleepMs?: number;
}

interface Figures {
  /** From the first message to the result. */
  readonly ms: number;
  /** User and system time of the host in that time. */
  readonly cpuMs: number;
  readonly growthMb: number;
}

/** A host in a separate process, which runs one plan after the other. */
class Host implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #gone: Promise<unknown[]>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#gone = once(child, 'exit');
  }

  static async start(kind: Kind): Promise<Host> {
    const script = fileURLToPath(new URL('fixtures/host-run.mjs', import.meta.url));
    const child = fork(script, kind === 'official' ? [kind, officialDoor] : [kind], {
      env,
      execArgv: [],
    });
    const host = new Host(child);
    await host.#told();
    return host;
  }

  async run(plan: Plan): Promise<Figures> {
    this.#child.send(plan);
    const { figures, error } = await this.#told();
    if (!figures) throw new Error(error);
    return figures;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#gone;
  }

  async #told(): Promise<{ readonly figures?: Figures; readonly error?: string }> {
    const [message] = (await Promise.race([
      once(this.#child, 'message'),
      this.#gone.then(([code]) => [{ error: `the host exited with ${String(code)}` }]),
    ])) as [{ readonly figures?: Figures; readonly error?: string }];
    return message;
  }
}

type Samples = Readonly<Record<Kind, readonly Figures[]>>;

/** Runs all hosts alternately; the first rounds warm up and are not counted. */
async function race(plan: Plan): Promise<Samples> {
  const hosts = new Map<Kind, Host>();
  const samples: Record<Kind, Figures[]> = { bare: [], session: [], query: [], official: [] };
  try {
    for (const kind of kinds) hosts.set(kind, await Host.start(kind));
    for (let round = -WARM_ROUNDS; round < ROUNDS; round++)
      for (const [kind, host] of hosts) {
        const figures = await host.run(plan);
        if (round >= 0) samples[kind].push(figures);
      }
  } finally {
    for (const host of hosts.values()) await host[Symbol.asyncDispose]();
  }
  return samples;
}

/** The median over the rounds of the ratio of one host's figure to that of the bare loop. */
function against(
  samples: Samples,
  kind: Kind,
  ratio: (ours: Figures, bare: Figures) => number,
): number {
  return median(samples[kind].map((ours, round) => ratio(ours, samples.bare[round] as Figures)));
}

const cost = (ours: Figures, bare: Figures): number => ours.cpuMs / bare.cpuMs;
const speed = (ours: Figures, bare: Figures): number => bare.ms / ours.ms;

async function compare(
  name: string,
  plan: Plan,
  limit: { readonly cost?: number; readonly speed?: number },
): Promise<Row[]> {
  const samples = await race(plan);
  const units = (plan.messages ?? 0) + (plan.calls ?? 0);
  const micros = (median(samples.bare.map(({ cpuMs }) => cpuMs)) * 1000) / units;
  const rate = (units * 1000) / median(samples.bare.map(({ ms }) => ms));
  const rows: Row[] = [
    { name: `${name}: bare, CPU`, value: micros, unit: 'us' },
    { name: `${name}: bare, rate`, value: rate, unit: '/s' },
  ];
  for (const kind of kinds.filter((each) => each !== 'bare')) {
    const ours = kind !== 'official';
    rows.push({
      name: `${name}: ${kind}, CPU / bare`,
      value: against(samples, kind, cost),
      unit: 'x',
      ...(ours && limit.cost !== undefined && { ceiling: limit.cost }),
    });
    rows.push({
      name: `${name}: ${kind}, speed / bare`,
      value: against(samples, kind, speed),
      unit: 'x',
      ...(ours && limit.speed !== undefined && { floor: limit.speed }),
    });
  }
  return rows;
}

/**
 * A consumer that sleeps for 3 s after its first message, while the CLI sends 200 MB: first in a
 * fresh process that has read only ten messages, then after it has read the same 200 MB without
 * sleeping, so that its heap has its working size.
 */
async function asleep(): Promise<Row[]> {
  const flood = { messages: 200_000, bytes: 1000 };
  const rows: Row[] = [];
  for (const kind of kinds.filter((each) => each !== 'bare')) {
    const name = `asleep, 200k x 1 KB: ${kind}`;
    const limit = kind === 'official' ? {} : { ceiling: 15 };
    const fresh: number[] = [];
    const used: number[] = [];
    for (let round = 0; round < SLEEPS; round++) {
      await using host = await Host.start(kind);
      await host.run({ messages: 10, bytes: 1000 });
      fresh.push((await host.run({ ...flood, sleepMs: 3000 })).growthMb);
      await host.run(flood);
      used.push((await host.run({ ...flood, sleepMs: 3000 })).growthMb);
    }
    rows.push({ name: `${name}, RSS growth`, value: median(fresh), unit: 'MB', ...limit });
    rows.push({ name: `${name}, in a used heap`, value: median(used), unit: 'MB', ...limit });
  }
  return rows;
}

interface Import {
  readonly ms: number;
  readonly cpuMs: number;
}

/** Measures the import of a door in a fresh process. */
function imported(url: string): Import {
  const code = `
    const cpu = process.cpuUsage();
    const at = performance.now();
    await import(${JSON.stringify(url)});
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ ms: performance.now() - at, cpuMs: (user + system) / 1000 }));`;
  const node = ['--input-type=module', '-e', code];
  return JSON.parse(execFileSync(process.execPath, node, { env, encoding: 'utf8' })) as Import;
}

function imports(): Row[] {
  const door = (path: string): string => new URL(`../dist/${path}`, import.meta.url).href;
  const ours: Import[] = [];
  const roots: Import[] = [];
  const theirs: Import[] = [];
  for (let round = 0; round < 2 * ROUNDS; round++) {
    ours.push(imported(door('host/index.js')));
    roots.push(imported(door('index.js')));
    if (sdk.available) theirs.push(imported(officialDoor));
  }
  const ms = (all: readonly Import[]): number => median(all.map((each) => each.ms));
  const rows: Row[] = [{ name: 'import of duolane/host', value: ms(ours), unit: 'ms' }];
  if (!sdk.available) return rows;
  const ratio = (all: readonly Import[], of: keyof Import): number =>
    median(all.map((each, round) => each[of] / (theirs[round] as Import)[of]));
  return [
    ...rows,
    { name: 'import of the official SDK', value: ms(theirs), unit: 'ms' },
    { name: 'import: ours / official', value: ratio(ours, 'ms'), unit: 'x', ceiling: 0.35 },
    { name: 'import: root door / official', value: ratio(roots, 'ms'), unit: 'x', ceiling: 0.35 },
    { name: 'import: ours / official, CPU', value: ratio(ours, 'cpuMs'), unit: 'x' },
  ];
}

const sdk = await ensurePeer('agent-sdk');
if (!sdk.available) console.error(`without the official SDK: ${sdk.reason}`);
const officialDoor = sdk.available ? sdk.resolve('@anthropic-ai/claude-agent-sdk') : '';
const kinds: readonly Kind[] = [
  'bare',
  'session',
  'query',
  ...(sdk.available ? ['official' as const] : []),
];

const home = await mkdtemp(join(tmpdir(), 'duolane-bench-'));
const env = hermetic(home);

const parts: Readonly<Record<string, () => Promise<Row[]>>> = {
  small: () => compare('200 B messages', { messages: 100_000, bytes: 200 }, { cost: 1.5 }),
  large: () => compare('100 KB messages', { messages: 600, bytes: 100_000 }, { speed: 0.6 }),
  call: () => compare('calls, 1 in flight', { calls: 5000, inFlight: 1 }, { speed: 0.7 }),
  calls: () => compare('calls, 32 in flight', { calls: 10_000, inFlight: 32 }, { speed: 0.5 }),
  asleep,
  import: async () => imports(),
};

try {
  const asked = process.argv.slice(2).filter((word) => word in parts);
  const rows: Row[] = [];
  for (const [name, run] of Object.entries(parts))
    if (asked.length === 0 || asked.includes(name)) {
      const startedAt = performance.now();
      rows.push(...(await run()));
      console.error(`${name}: ${((performance.now() - startedAt) / 1000).toFixed(0)} s`);
    }
  report(rows);
} finally {
  await rm(home, { recursive: true, force: true });
}
