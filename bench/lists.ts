/**
 * Measures lists of runs in a log of a million tasks, as the page and A2A clients ask for them:
 * `npm run build && npx tsx bench/lists.ts [--tasks=1000000]`, on SQLite and on PostgreSQL
 * (`peers/postgres`). Each list is one page of 50 runs through the public API. Exits with 1 if the
 * p95 of a list is above its limit.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { Pool } from 'pg';
import type * as task from '../src/task/index.ts';
import type * as postgres from '../src/task/postgres/index.ts';
import { openDatabase } from '../src/task/sqlite/driver.ts';
import { startPostgres } from '../test/support/task/postgres.ts';
import { report, type Row } from './support.ts';

const dist = new URL('../dist/task/', import.meta.url).href;
const { sqliteLog } = (await import(`${dist}index.js`)) as typeof task;
const { postgresLog } = (await import(`${dist}postgres/index.js`)) as typeof postgres;

const TASKS = Number(/--tasks=(\d+)/.exec(process.argv.join(' '))?.[1] ?? 1_000_000);
const ROUNDS = 40;
const PAGE = 50;
const LIMIT_MS = 200;
/** One of so many tasks has each of the rare states. */
const RARE = TASKS / 10;

const QUERIES: Readonly<Record<string, task.TaskQuery>> = {
  newest: {},
  'of one owner': { owner: 'owner 7' },
  'of one agent': { agent: 'agent 1' },
  'of an agent without runs': { agent: 'agent 9' },
  'of one conversation': { context: 'context 77' },
  completed: { state: 'completed' },
  'failed, of all owners (10)': { state: 'failed' },
  'failed, of one owner (10)': { state: 'failed', owner: 'owner 7' },
  'waiting (10)': { state: 'input-required' },
  'canceled of an agent (none)': { state: 'canceled', agent: 'agent 1' },
};

/** The template is a real task, and its rows are copied; SQL has the same form in both databases. */
const stateOf = (n: string): string => `case ${n} % ${RARE}
  when 7 then 'failed' when 17 then 'input-required' else 'completed' end`;

async function fill(log: task.TaskLog): Promise<void> {
  await log.submit({
    agent: 'agent 1',
    task: 'template',
    context: 'context 0',
    messageId: 'm',
    parts: [{ text: 'A question of usual length about something' }],
  });
  await log.requestCancel('template');
}

async function measure(store: string, log: task.TaskLog): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [name, query] of Object.entries(QUERIES)) {
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      let count = 0;
      for await (const _ of log.list({ ...query, outline: true })) if (++count === PAGE) break;
      times.push(performance.now() - start);
    }
    times.sort((a, b) => a - b);
    const p95 = times[Math.floor(ROUNDS * 0.95) - 1] as number;
    rows.push({ name: `${store}: ${name}, p95`, value: p95, unit: 'ms', ceiling: LIMIT_MS });
  }
  return rows;
}

const copyOf = (prefix: string, series: string, own: string, ended: string): string => `
  insert into ${prefix}tasks(id, agent, context, owner, tenant, state, ${own}, epoch, lease_until,
      needs_run, changed_at, ended_at)
    select 'task ' || n, 'agent ' || (n % 3), 'context ' || (n / 2),
      case when n % ${RARE} = 7 then 'owner 7' else 'owner ' || (n % 100) end, '', ${stateOf('n')},
      ${ended}, t.epoch, 0, t.needs_run, t.changed_at + n,
      case when ${stateOf('n')} = 'input-required' then null else t.ended_at end
    from ${series}, ${prefix}tasks t where t.id = 'template';
  insert into ${prefix}entries(task, seq, note, line)
    select t.key, e.seq, e.note, replace(e.line, 'template', t.id)
    from ${prefix}tasks t, ${prefix}entries e, ${prefix}tasks one
    where one.id = 'template' and e.task = one.key and t.id <> 'template';`;

const rows: Row[] = [];
const folder = await mkdtemp(join(tmpdir(), 'duolane-lists-'));
try {
  const file = join(folder, 'tasks.db');
  const first = await sqliteLog({ file });
  await fill(first);
  await first[Symbol.asyncDispose]();
  const db = openDatabase(file);
  db.exec('pragma synchronous = off; pragma foreign_keys = off');
  db.exec(
    copyOf(
      '',
      `(with recursive s(n) as (select 1 union all select n + 1 from s where n < ${TASKS})
        select n from s)`,
      'changed_seq',
      't.changed_seq',
    ),
  );
  db.close();
  await using log = await sqliteLog({ file });
  rows.push(...(await measure('SQLite', log)));
} finally {
  await rm(folder, { recursive: true });
}

await using server = await startPostgres(['-c', 'fsync=off', '-c', 'max_wal_size=4GB']);
const schema = server.schema();
await using log = await postgresLog({ connectionString: server.url, schema });
await fill(log);
const pool = new Pool({ connectionString: server.url });
await pool.query(
  copyOf(
    `${schema}.`,
    `generate_series(1, ${TASKS}) as s(n)`,
    'party, seq, rev',
    "'', t.seq, t.rev",
  ),
);
await pool.query(
  `insert into ${schema}.snapshots(task, seq, line, outline, outline_seq)
    select t.key, s.seq, replace(s.line, 'template', t.id), replace(s.outline, 'template', t.id),
      s.outline_seq
    from ${schema}.tasks t, ${schema}.snapshots s, ${schema}.tasks one
    where one.id = 'template' and s.task = one.key and t.id <> 'template'`,
);
await pool.query('analyze');
await pool.end();
rows.push(...(await measure('PostgreSQL', log)));
report(rows);
