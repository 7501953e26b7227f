/**
 * Measures durable steps: `npm run build && npx tsx bench/steps.ts [--quick]`. The same program, a
 * chain of steps that each return a small value, runs in our runner on SQLite and in Restate
 * (`peers/restate`: its server, and a handler in a process of its own), in turns, one chain at a
 * time and 16 at the same time. Both make each result durable before the next step begins. Compare
 * the ratio; absolute figures depend on the machine. Exits with 1 if a limit is missed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ensurePeer } from '../scripts/peers.mjs';
import type { Agent } from '../src/event/types.ts';
import type * as task from '../src/task/index.ts';
import { hermetic, median, report } from './support.ts';

// The built package, as users have it: the loader of TypeScript would be measured too.
const built = new URL('../dist/task/index.js', import.meta.url).href;
const { createRunner, sqliteLog } = (await import(built)) as typeof task;

const isQuick = process.argv.includes('--quick');
const ROUNDS = isQuick ? 3 : 5;
const STEPS = 50;
/** Chains at the same time, and chains of one measurement. */
const LOADS = [
  [1, isQuick ? 10 : 20],
  [16, isQuick ? 64 : 160],
] as const;

interface Engine extends AsyncDisposable {
  /** Runs one chain; resolves with the number of steps that it counted. */
  chain(): Promise<number>;
  /** CPU time of all its processes so far, in microseconds. */
  cpuUs(): Promise<number>;
}

async function ours(folder: string): Promise<Engine> {
  const agent: Agent = async function* (_turn, ctx) {
    let sum = 0;
    for (let index = 0; index < STEPS; index++)
      sum += (await ctx.step(`step ${index}`, () => ({ value: 1 }))).value;
    yield { type: 'text.delta', id: 't', delta: String(sum) };
  };
  const log = await sqliteLog({ file: join(folder, 'tasks.db') });
  const runner = createRunner({ log, agents: { chain: agent } });
  let count = 0;
  return {
    async chain() {
      const id = `t${++count}`;
      const turn = { agent: 'chain', task: id, context: id, messageId: id };
      await runner.submit({ ...turn, parts: [{ text: 'go' }] });
      for await (const entry of log.read(id, 0))
        if (entry.type === 'run.finished') return Number(entry.text);
      throw new Error('the run did not finish');
    },
    async cpuUs() {
      const { user, system } = process.cpuUsage();
      return user + system;
    },
    async [Symbol.asyncDispose]() {
      await runner[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
    },
  };
}

async function restate(folder: string): Promise<Engine> {
  const { available, path, reason } = await ensurePeer('restate');
  if (!available) throw new Error(reason);
  const [ingress, admin, node, handler] = (await Promise.all([1, 2, 3, 4].map(freePort))) as [
    number,
    number,
    number,
    number,
  ];
  const platform = `restate-server-${process.platform}-${process.arch}`;
  const program = join(path, 'node_modules/@restatedev', platform, 'bin/restate-server');
  const server = spawn(program, ['--base-dir', join(folder, 'restate'), '--no-logo'], {
    cwd: folder,
    stdio: 'ignore',
    env: {
      ...hermetic(folder),
      RESTATE_DISABLE_TELEMETRY: 'true',
      RESTATE_LISTEN_MODE: 'tcp',
      RESTATE_LOG_FILTER: 'warn',
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    },
  });
  const script = fileURLToPath(new URL('fixtures/restate-steps.mjs', import.meta.url));
  const service = spawn(process.execPath, [script, join(path, 'package.json'), String(handler)], {
    env: hermetic(folder),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(service.stdout, 'data');
  await until(`http://127.0.0.1:${admin}/health`);
  await until(`http://127.0.0.1:${ingress}/restate/health`);
  await post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${handler}` });
  return {
    async chain() {
      return Number(await post(`http://127.0.0.1:${ingress}/chain/run`, { steps: STEPS }));
    },
    async cpuUs() {
      const parts = await Promise.all([server, service].map(processCpuUs));
      return parts.reduce((sum, each) => sum + each, 0);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([server, service].map(end));
    },
  };
}

async function post(url: string, body: object): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
  return text;
}

async function until(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const isUp = await fetch(url).then(
      ({ ok }) => ok,
      () => false, // not listening yet
    );
    if (isUp) return;
    if (tries === 300) throw new Error(`${url} did not answer`);
    await sleep(100);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** The CPU time of a process from the kernel, whose ticks are 10 ms. */
async function processCpuUs({ pid }: ChildProcess): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

interface Cost {
  readonly wallUs: number;
  readonly cpuUs: number;
}

/** The cost per step of so many chains, with so many at the same time. */
async function measure(engine: Engine, parallel: number, chains: number): Promise<Cost> {
  const cpu = await engine.cpuUs();
  const start = performance.now();
  let left = chains;
  const work = async (): Promise<void> => {
    while (left-- > 0) {
      const counted = await engine.chain();
      if (counted !== STEPS) throw new Error(`a chain counted ${counted} steps, not ${STEPS}`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  const steps = chains * STEPS;
  const wallUs = ((performance.now() - start) * 1000) / steps;
  return { wallUs, cpuUs: ((await engine.cpuUs()) - cpu) / steps };
}

const folder = await mkdtemp(join(tmpdir(), 'duolane-steps-'));
try {
  await using mine = await ours(folder);
  await using theirs = await restate(folder);
  const rows = [];
  for (const [parallel, chains] of LOADS) {
    const costs: (readonly [Cost, Cost])[] = [];
    // The first round of each is cold: it is printed, and does not count.
    for (let round = 0; round <= ROUNDS; round++)
      costs.push([await measure(mine, parallel, chains), await measure(theirs, parallel, chains)]);
    const [cold, ...warm] = costs;
    const of = (which: 0 | 1, unit: keyof Cost): number => median(warm.map((c) => c[which][unit]));
    const name = parallel === 1 ? 'one chain' : `${parallel} chains`;
    const ratio = median(warm.map(([a, b]) => a.wallUs / b.wallUs));
    rows.push(
      { name: `${name}: µs per step`, value: of(0, 'wallUs'), unit: 'us' },
      { name: `${name}: µs per step, Restate`, value: of(1, 'wallUs'), unit: 'us' },
      { name: `${name}: / Restate`, value: ratio, unit: 'x', ceiling: 1 },
      {
        name: `${name}: cold, / Restate`,
        value: (cold?.[0].wallUs ?? 0) / (cold?.[1].wallUs ?? 1),
        unit: 'x',
      },
      { name: `${name}: CPU per step`, value: of(0, 'cpuUs'), unit: 'us' },
      { name: `${name}: CPU per step, Restate`, value: of(1, 'cpuUs'), unit: 'us' },
    );
  }
  report(rows);
} finally {
  await rm(folder, { recursive: true, force: true });
}
