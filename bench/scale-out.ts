// Measures the throughput of replicas on one PostgreSQL: `npx tsx bench/scale-out.ts [seconds]`.
// Needs `npm run build`.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { postgresMissing, startPostgres } from '../test/support/task/postgres.ts';

const seconds = Number(process.argv[2] ?? 3);
const program = fileURLToPath(new URL('./fixtures/scale-replica.mjs', import.meta.url));
const STREAMS = 64;

interface Ran {
  readonly count: number;
  readonly delays: readonly number[];
  readonly cpuMs: number;
}

class Replica {
  readonly #child: ChildProcess;
  #ids = 0;

  constructor(url: string, schema: string) {
    this.#child = fork(program, [url, schema]);
    this.#child.on('exit', (code) => {
      if (code !== 0) process.exit(1);
    });
  }

  async ready(): Promise<this> {
    await once(this.#child, 'message');
    return this;
  }

  async do<T>(command: string, args: object = {}): Promise<T> {
    const id = ++this.#ids;
    this.#child.send({ id, command, args });
    for (;;) {
      const [answer] = (await once(this.#child, 'message')) as [{ id: number; result: T }];
      if (answer.id === id) return answer.result;
    }
  }

  async end(): Promise<void> {
    await this.do('end');
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}

const at = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN;

const line = (what: string, ...figures: string[]): void =>
  console.log(`${what.padEnd(34)}${figures.map((figure) => figure.padStart(16)).join('')}`);

if (postgresMissing !== undefined) throw new Error(postgresMissing);
await using server = await startPostgres(['-c', 'shared_buffers=256MB', '-c', 'max_wal_size=4GB']);
await using pool = Object.assign(new Pool({ connectionString: server.url }), {
  [Symbol.asyncDispose]: () => pool.end(),
});
pool.on('error', () => {});

/** Counters of the database: transactions, each with one statement here, and bytes of its WAL. */
async function work(): Promise<{ readonly statements: number; readonly bytes: number }> {
  const { rows } = await pool.query<{ commits: string; bytes: string }>(
    `select (select sum(xact_commit) from pg_stat_database) as commits,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as bytes`,
  );
  return { statements: Number(rows[0]?.commits), bytes: Number(rows[0]?.bytes) };
}

/** Lets `replicas` write `streams` tasks; each replica follows eight tasks of another one. */
async function measure(replicas: number, streams: number): Promise<string[]> {
  const schema = server.schema();
  const all = await Promise.all(
    Array.from({ length: replicas }, () => new Replica(server.url, schema).ready()),
  );
  const tasks = all.map((_, replica) =>
    Array.from({ length: streams / replicas }, (_, index) => `r${replica}-${index}`),
  );
  await Promise.all(all.map((replica, index) => replica.do('open', { tasks: tasks[index] })));
  const follows = all.map((_, index) => tasks[(index + 1) % replicas]?.slice(0, 8) ?? []);
  const run = (ms: number): Promise<Ran[]> =>
    Promise.all(
      all.map((replica, index) => replica.do<Ran>('run', { ms, follows: follows[index] })),
    );
  await run(1000);
  await new Promise((resolve) => setTimeout(resolve, 1100));
  const before = await work();
  const ran = await run(seconds * 1000);
  // PostgreSQL publishes the statistics of a session up to a second later.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const after = await work();
  await Promise.all(all.map((replica) => replica.end()));
  const events = ran.reduce((sum, { count }) => sum + count, 0);
  const delays = ran.flatMap((each) => each.delays);
  const cpuMs = ran.reduce((sum, each) => sum + each.cpuMs, 0);
  return [
    `${Math.round(events / seconds)}`,
    at(delays, 0.5).toFixed(1),
    at(delays, 0.99).toFixed(1),
    ((after.statements - before.statements) / events).toFixed(3),
    `${Math.round((after.bytes - before.bytes) / events)}`,
    ((cpuMs * 1000) / events).toFixed(0),
  ];
}

const heads = ['events/s', 'p50 ms', 'p99 ms', 'statements', 'WAL bytes', 'client CPU us'];
line(`${STREAMS} streams on`, ...heads);
for (const replicas of [1, 2, 4])
  line(`  ${replicas} replicas`, ...(await measure(replicas, STREAMS)));
line('1 replica with', ...heads);
for (const streams of [10, 100, 1000]) line(`  ${streams} streams`, ...(await measure(1, streams)));

line('a log of', 'appends/s', 'last 100, ms');
const single = await new Replica(server.url, server.schema()).ready();
await single.do('open', { tasks: ['long'] });
let length = 2;
for (const entries of [100, 10_000, 100_000]) {
  await single.do('grow', { entries: entries - length });
  length = entries;
  const { count } = await single.do<Ran>('run', { ms: seconds * 1000, follows: [] });
  length += count;
  const tailMs = await single.do<number>('tail', { times: 50 });
  line(`  ${entries} entries`, `${Math.round(count / seconds)}`, tailMs.toFixed(2));
}
await single.end();
