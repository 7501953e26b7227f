import { DuolaneError } from '../../errors.ts';
import type { Database } from './driver.ts';

/**
 * The migration steps. Each step brings a database from the version before it to its own; steps are
 * never changed, only added. The snapshot of a task is in its own table, so that a token rewrites a
 * few bytes: SQLite rewrites complete rows.
 */
const STEPS: readonly string[] = [
  `create table tasks(
     key integer primary key, id text not null unique, agent text not null, context text not null,
     owner text not null, state text not null, seq integer not null, epoch integer not null,
     worker text, lease_until integer not null, needs_run integer not null,
     changed_at integer not null, ended_at integer, compacted integer not null default 0);
   create index tasks_run on tasks(lease_until, key) where needs_run = 1;
   create index tasks_changed on tasks(changed_at, key);
   create index tasks_context on tasks(context, changed_at, key);
   create index tasks_owner on tasks(owner, changed_at, key);
   create index tasks_ended on tasks(ended_at) where ended_at is not null;
   create table snapshots(
     task integer primary key references tasks(key) on delete cascade,
     seq integer not null, line text not null);
   create table entries(
     task integer not null references tasks(key) on delete cascade, seq integer not null,
     note integer not null, line text not null,
     unique(task, seq));
   create table turns(
     owner text not null, agent text not null, message_id text not null,
     task integer not null references tasks(key) on delete cascade, seq integer not null,
     primary key(owner, agent, message_id)) without rowid;
   create index turns_task on turns(task);
   create table bookmarks(
     task text not null references tasks(id) on delete cascade, name text not null,
     after integer not null, data text not null, primary key(task, name)) without rowid;`,
  // Lists of one caller can be counted from the index alone.
  `alter table tasks add column tenant text not null default '';
   update tasks set tenant = coalesce(
     (select json_extract(line, '$.data.turns[0].tenant') from snapshots where task = key), '');
   drop index tasks_owner;
   create index tasks_owner on tasks(owner, changed_at, key, agent, tenant, state);`,
  // A token no longer touches the row of its task, and a task without a change has no snapshot.
  'alter table tasks rename column seq to changed_seq;',
  // A row of entries may have several lines. The turns of a task are found by its entries, so they
  // need no index.
  `create table new_turns(
     owner text not null, agent text not null, message_id text not null,
     task integer not null, seq integer not null,
     primary key(owner, agent, message_id)) without rowid;
   insert into new_turns select owner, agent, message_id, task, seq from turns;
   drop table turns;
   alter table new_turns rename to turns;`,
  // What lists show of a task, so that they need not read its text and artifacts. Older tasks get
  // it when they change.
  `create table outlines(
     task integer primary key references tasks(key) on delete cascade, line text not null);`,
  // What agents keep with their tasks, to continue on another machine.
  `create table task_values(
     task text not null references tasks(id) on delete cascade, key text not null,
     value text not null, primary key(task, key)) without rowid;`,
  // When a suspended task goes on, in Unix ms.
  `alter table tasks add column due_at integer;
   create index tasks_due on tasks(due_at) where due_at is not null;`,
  // Lists of a state that few of many tasks have, and of an agent: these need no row of another.
  `create index tasks_state on tasks(state, changed_at, key, owner, agent, tenant)
     where state <> 'completed';
   drop index tasks_changed;
   create index tasks_changed on tasks(changed_at, key, agent, tenant, state);`,
];

/**
 * Prepares the database. WAL with an fsync for each commit makes commits durable; the default of
 * WAL would lose the last commits on power loss.
 */
export function prepareDatabase(db: Database, file: string): void {
  db.exec('pragma busy_timeout = 5000; pragma journal_mode = wal; pragma synchronous = full');
  db.exec('pragma foreign_keys = on');
  // The defaults, 4 MB and 2 MB, are for phones. New tasks write the same few pages again and
  // again, and each checkpoint writes them back and waits for the disk twice.
  db.exec('pragma wal_autocheckpoint = 4000; pragma cache_size = -16384');
  migrate(db, file);
}

function migrate(db: Database, file: string): void {
  db.exec(
    'create table if not exists migrations(version integer primary key, at integer not null)',
  );
  const row = db.prepare('select max(version) as version from migrations').get();
  const version = Number(row?.['version'] ?? 0);
  if (version > STEPS.length)
    throw new DuolaneError(
      'unsupported',
      `${file} has schema ${version} of a newer Duolane: expected at most ${STEPS.length}; upgrade duolane, or use another file`,
    );
  for (const [index, step] of STEPS.entries()) {
    if (index < version) continue;
    db.exec('begin immediate');
    try {
      db.exec(step);
      db.prepare('insert into migrations values(?, ?)').run(index + 1, Date.now());
      db.exec('commit');
    } catch (error) {
      db.exec('rollback');
      throw error;
    }
  }
}
