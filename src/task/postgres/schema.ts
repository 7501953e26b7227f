import { DuolaneError } from '../../errors.ts';
import { sleep } from '../../stream/index.ts';
import { type PgConnections, sqlState } from './connections.ts';

/**
 * The migration steps. Each step brings a database from the version before it to its own; steps are
 * never changed, only added. After each step the version before can still use the schema, since
 * replicas are updated one by one.
 *
 * `rev` counts every change of a task's row, and writers compare it. The snapshot of a task is in
 * its own table, and no index has a column that an append changes, so that a token rewrites a few
 * bytes in place. There are no foreign keys: each would cost a read and a lock for each event, and
 * one statement writes and deletes everything that belongs together.
 */
const STEPS: readonly string[] = [
  `create table tasks(
     key bigint generated always as identity primary key, id text not null unique,
     agent text not null, context text not null, owner text not null, tenant text not null,
     party text not null, state text not null, seq bigint not null, rev bigint not null,
     epoch bigint not null, worker text, lease_until bigint not null, needs_run boolean not null,
     changed_at bigint not null, ended_at bigint, compacted boolean not null default false)
     with (fillfactor = 70);
   create index tasks_run on tasks(party, lease_until, key) where needs_run;
   create index tasks_changed on tasks(changed_at, key);
   create index tasks_context on tasks(context, changed_at, key);
   create index tasks_owner on tasks(owner, changed_at, key);
   create index tasks_ended on tasks(ended_at) where ended_at is not null;
   create index tasks_worker on tasks(worker) where worker is not null;
   create table snapshots(task bigint primary key, seq bigint not null, line text not null);
   create table entries(
     task bigint not null, seq bigint not null, note boolean not null, line text not null,
     primary key(task, seq));
   create table turns(
     owner text not null, agent text not null, message_id text not null, task text not null,
     seq bigint not null, primary key(owner, agent, message_id));
   create index turns_task on turns(task);
   create table bookmarks(
     task text not null, name text not null, after bigint not null, data text not null,
     primary key(task, name));
   create table replicas(
     worker text primary key, host text not null, pid integer not null, since bigint not null,
     beat_at bigint not null);`,
  // How long each claim lives, and the tasks that wait for a runner in the order of each party.
  `alter table tasks add column lease_ms bigint not null default 0;
   create index tasks_wait on tasks(party, changed_at, key) where needs_run and worker is null;`,
  // What lists show of a task, and the last entry that it includes: a replica of the version before
  // writes snapshots without it.
  `alter table snapshots add column outline text, add column outline_seq bigint;`,
  // What agents keep with their tasks, to continue on another machine. Keys are compared by code
  // point, as a list by prefix needs it.
  `create table task_values(
     task text not null, key text collate "C" not null, bytes integer not null,
     value text not null, primary key(task, key));
   create table session_entries(
     seq bigint generated always as identity primary key, project text not null,
     session text not null, subpath text not null, at timestamptz not null default now(),
     entries text not null);
   create index session_entries_key on session_entries(project, session, subpath, seq);`,
  // When a suspended task goes on, in Unix ms. A replica of the version before ignores it.
  `alter table tasks add column due_at bigint;
   create index tasks_due on tasks(due_at) where due_at is not null and ended_at is null;`,
  // Blobs (task/blobs/postgres-blobs.ts). Their bytes are not compressed: most are already. `at` is
  // when bytes last arrived, and no index has it.
  `create table blobs(
     key bigint generated always as identity primary key, id text not null unique,
     folder text not null, state text not null, at bigint not null, info text not null);
   create index blobs_folder on blobs(folder);
   create index blobs_unfinished on blobs(key) where state <> 'stored';
   create table blob_chunks(
     blob bigint not null, n integer not null, bytes bytea not null, primary key(blob, n));
   alter table blob_chunks alter column bytes set storage external;`,
  // Lists of a state that few of many tasks have.
  `create index tasks_state on tasks(state, changed_at, key) where state <> 'completed';`,
];

/** Migrating long tables takes long, and so does waiting for statements that use them. */
const MIGRATION_MS = 600_000;

/**
 * SQLSTATEs of two replicas that create the same thing at the same time; the second finds it done.
 */
const MADE_BY_ANOTHER = new Set(['23505', '42710', '42P06', '42P07', '40P01']);

/**
 * Creates or updates the tables. Any number of replicas may call it at the same time: the one with
 * the lock on `migrations` works, the others wait and find it done. The lock belongs to the
 * transaction, so it is released when a replica crashes. An up-to-date database is only read.
 */
export async function migrate(connections: PgConnections, schema: string): Promise<void> {
  const version = await versionOf(connections, schema);
  if (version > STEPS.length)
    throw new DuolaneError(
      'unsupported',
      `schema ${schema} has version ${version} of a newer Duolane: expected at most ${STEPS.length}; upgrade this replica`,
    );
  if (version === STEPS.length) return;
  if (version < 0) await create(connections, schema);
  const steps = STEPS.map(
    (step, index) => `if version < ${index + 1} then
        ${step}
        insert into migrations(version) values(${index + 1});
      end if;`,
  ).join('\n');
  // One block is one transaction, even if the connection breaks.
  const text = `do $migrate$ declare version integer; begin
      set local search_path to ${schema};
      lock table migrations in access exclusive mode;
      select coalesce(max(m.version), 0) into version from migrations m;
      ${steps}
    end $migrate$`;
  await connections.write({ text }, [], MIGRATION_MS);
}

/** Returns the version of the tables; -1 without tables. */
async function versionOf(connections: PgConnections, schema: string): Promise<number> {
  const [found] = await connections.write({ text: 'select to_regclass($1) is not null as there' }, [
    `${schema}.migrations`,
  ]);
  if (found?.['there'] !== true) return -1;
  const [row] = await connections.write({
    text: `select coalesce(max(version), 0) as version from ${schema}.migrations`,
  });
  return Number(row?.['version']);
}

async function create(connections: PgConnections, schema: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await connections.write({ text: `create schema if not exists ${schema}` });
      await connections.write({
        text: `create table if not exists ${schema}.migrations(
          version integer primary key, at timestamptz not null default now())`,
      });
      return;
    } catch (error) {
      if (tries === 5 || !MADE_BY_ANOTHER.has(sqlState(error) ?? '')) throw error;
      await sleep(Math.random() * 20 * tries);
    }
  }
}
