import type { PgStatement } from './connections.ts';

export type Sql = Readonly<
  Record<
    | 'write'
    | 'load'
    | 'turns'
    | 'read'
    | 'heads'
    | 'beat'
    | 'claim'
    | 'suspects'
    | 'due'
    | 'queued'
    | 'bookmark'
    | 'unbookmark'
    | 'setValues'
    | 'values'
    | 'ended'
    | 'uncompacted'
    | 'compact'
    | 'remove'
    | 'present'
    | 'absent'
    | 'replicas',
    PgStatement
  >
>;

/**
 * The clock of the database, which all replicas share, in Unix ms. It may be set while claims live,
 * so it measures only the first half of a lease (`lease_until`). For the second half (of
 * `lease_ms`) a replica that would take the claim must see it unchanged, by its own steady clock: a
 * live claim holder renews it meanwhile.
 */
const NOW = `(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/**
 * Every statement locks rows of tasks in this order, so that no two commits wait for each other.
 */
const IN_ORDER = 'order by t.key for update of t';

/** The notice about a task for other replicas: id, epoch, claimed, head, ended, claimable. */
const NEWS = `case when octet_length(t.id) > 500 then '"*"' else
  json_build_array(t.id, t.epoch, t.worker is not null, t.seq, t.ended_at is not null,
    t.needs_run and t.worker is null)::text end`;

export function statements(schema: string): Sql {
  const sql: Record<keyof Sql, string> = {
    // Writes a group in one statement: one round trip, one commit, one wake-up. A task whose row is
    // not at the `rev` that its writer knew is omitted, and only that task.
    write: `
      with want as (
        select * from unnest($3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
          $8::text[], $9::bigint[], $10::boolean[], $11::bigint[], $12::bigint[], $13::text[],
          $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $28::text[],
          $29::bigint[]) with ordinality
        as w(id, rev, seq, state, epoch, worker, lease_ms, needs_run, changed_at, ended_at, agent,
          context, owner, tenant, party, snapshot, outline, due_at, n)
      ), held as (
        select t.key, w.n from want w join ${schema}.tasks t on t.id = w.id
        where t.rev = w.rev ${IN_ORDER}
      ), changed as (
        update ${schema}.tasks t set rev = t.rev + 1, seq = w.seq, state = w.state,
          epoch = w.epoch, worker = w.worker, needs_run = w.needs_run, ended_at = w.ended_at, due_at = w.due_at,
          changed_at = coalesce(w.changed_at, t.changed_at),
          lease_until = case when w.lease_ms is null then t.lease_until
            when w.lease_ms = 0 then 0 else ${NOW} + w.lease_ms / 2 end,
          lease_ms = coalesce(w.lease_ms, t.lease_ms)
        from held h join want w on w.n = h.n where t.key = h.key
        returning w.n, t.key, ${NEWS} as news
      ), made as (
        insert into ${schema}.tasks as t(id, rev, seq, state, epoch, worker, lease_until, lease_ms,
          needs_run, changed_at, ended_at, agent, context, owner, tenant, party)
        select id, 1, seq, state, epoch, worker,
          case when lease_ms > 0 then ${NOW} + lease_ms / 2 else 0 end, coalesce(lease_ms, 0),
          needs_run, changed_at, ended_at, agent, context, owner, tenant, party from want where rev = 0 order by id
        returning t.id, t.key, ${NEWS} as news
      ), done as (
        select n, key, news from changed
        union all select w.n, m.key, m.news from made m join want w on w.id = m.id
      ), logged as (
        insert into ${schema}.entries(task, seq, note, line)
        select d.key, e.seq, e.note, e.line
        from unnest($19::int[], $20::bigint[], $21::boolean[], $22::text[]) as e(n, seq, note, line)
        join done d on d.n = e.n
      ), folded as (
        insert into ${schema}.snapshots as s(task, seq, line, outline_seq, outline)
        select d.key, w.seq, w.snapshot, w.seq, w.outline from done d join want w on w.n = d.n
        where w.snapshot is not null
        on conflict (task) do update
          set seq = excluded.seq, line = excluded.line,
            outline_seq = excluded.outline_seq, outline = excluded.outline
      ), remembered as (
        insert into ${schema}.turns(owner, agent, message_id, task, seq)
        select u.owner, u.agent, u.message_id, w.id, u.seq
        from unnest($23::int[], $24::text[], $25::text[], $26::text[], $27::bigint[])
          as u(n, owner, agent, message_id, seq)
        join done d on d.n = u.n join want w on w.n = u.n
        order by u.owner, u.agent, u.message_id
      ), parcels as (
        select string_agg(news, E'\\n') as text from (
          select news, sum(octet_length(news) + 1) over (order by n) / 6000 as parcel from done
        ) as listed group by parcel
      )
      select coalesce((select array_agg(n) from done), '{}')::int[] as done,
        (select array_agg(text) from parcels) as news,
        (select count(pg_notify($1::text, $2::text || text)) from parcels where $1::text <> '')`,
    load: `
      select t.id, t.rev, t.epoch, t.worker, 
        greatest(t.lease_until + t.lease_ms / 2 - ${NOW}, 0) as lease_ms, s.line,
        case when s.task is not null then array(
          select e.line from ${schema}.entries e where e.task = t.key and e.seq > s.seq order by e.seq
        ) end as rest
      from unnest($1::text[], $2::bigint[]) as k(id, rev)
      join ${schema}.tasks t on t.id = k.id
      left join ${schema}.snapshots s on s.task = t.key and t.rev <> k.rev`,
    turns: `
      select k.n, u.task, u.seq, e.note, e.line
      from unnest($1::text[], $2::text[], $3::text[]) with ordinality as k(owner, agent, message_id, n)
      join ${schema}.turns u using (owner, agent, message_id)
      join ${schema}.tasks t on t.id = u.task
      join ${schema}.entries e on e.task = t.key and e.seq = u.seq`,
    read: `
      select k.n, t.seq as head, t.ended_at is not null as ended, r.seq, r.note, r.line
      from unnest($1::text[], $2::bigint[]) with ordinality as k(id, after, n)
      join ${schema}.tasks t on t.id = k.id
      left join lateral (
        select seq, note, line from (
          select e.seq, e.note, e.line, sum(octet_length(e.line)) over (order by e.seq) as bytes
          from (select seq, note, line from ${schema}.entries where task = t.key and seq > k.after
            order by seq limit $3) as e
        ) as sized where bytes - octet_length(line) < $4
      ) as r on true order by k.n, r.seq`,
    heads: `
      select id, seq, ended_at is not null as ended from ${schema}.tasks where id = any($1::text[])`,
    beat: `
      with seen as (
        select t.key, t.id, t.seq, t.epoch = w.epoch as same, t.worker is not null as held
        from unnest($1::text[], $2::bigint[]) as w(id, epoch)
        join ${schema}.tasks t on t.id = w.id ${IN_ORDER}
      ), kept as (
        update ${schema}.tasks t set rev = t.rev + 1, lease_until = ${NOW} + $3::bigint / 2,
          lease_ms = $3::bigint from seen s
        where t.key = s.key and s.same and s.held returning t.key, t.rev
      )
      select s.id, s.seq, s.same, s.held, k.rev from seen s left join kept k on k.key = s.key`,
    // Takes a claim whose holder is gone. Otherwise takes of each party the task that waits
    // longest, then the party with the fewest runs, then the one that this replica served longest
    // ago. It walks the index from party to party, so a party with a long queue costs no more than
    // another.
    claim: `
      with recursive clock as materialized (select ${NOW} as now), parties(name) as (
        (select party from ${schema}.tasks where needs_run and worker is null order by party limit 1)
        union all
        select (select t.party from ${schema}.tasks t
          where t.needs_run and t.worker is null and t.party > p.name order by t.party limit 1)
        from parties p where p.name is not null
      ), free as (
        select p.name, f.key, f.changed_at,
          (select count(*) from ${schema}.tasks r
            where r.needs_run and r.party = p.name and r.lease_until > 0 and r.worker is not null
              and r.state not in ('input-required', 'auth-required')) as runs
        from parties p, lateral (
          select t.key, t.changed_at from ${schema}.tasks t
          where t.needs_run and t.worker is null and t.party = p.name and t.agent = any($2::text[])
          order by t.changed_at, t.key limit 1) as f
        where p.name <> all($8::text[])
      ), dead as (
        select t.key, t.worker as before
        from unnest($9::text[], $10::bigint[], $11::bigint[]) as d(id, epoch, lease_until)
        join ${schema}.tasks t on t.id = d.id
        where t.needs_run and t.worker is not null and t.epoch = d.epoch
          and t.lease_until = d.lease_until and t.agent = any($2::text[])
        order by t.key limit 1 for update of t skip locked
      ), waiting as (
        select t.key, t.worker as before from free f join ${schema}.tasks t on t.key = f.key
        where t.needs_run and t.worker is null and f.runs < $4::bigint
          and not exists (select 1 from dead)
        order by f.runs, array_position($7::text[], f.name) nulls first, f.changed_at, f.key
        limit 1 for update of t skip locked
      ), chosen as (
        select * from dead union all select * from waiting
      ), claimed as (
        update ${schema}.tasks t set rev = t.rev + 1, epoch = t.epoch + 1, worker = $1,
          lease_until = clock.now + $3::bigint / 2, lease_ms = $3::bigint
        from chosen, clock where t.key = chosen.key
        returning t.key, t.id, t.rev, t.epoch, t.party, chosen.before, ${NEWS} as news
      )
      select c.id, c.rev, c.epoch, c.party, s.line, c.before is not null as taken, c.news,
        array(select e.line from ${schema}.entries e where e.task = c.key and e.seq > s.seq
          order by e.seq) as rest,
        (select count(*) from free where runs < $4::bigint) as free,
        (select count(pg_notify($5::text, $6::text || news)) from claimed
          where $5::text <> '' and before is not null)
      from (select 1) as always left join claimed c on true
      left join ${schema}.snapshots s on s.task = c.key`,
    // Returns the claims whose holder may be gone: the lease has ended, or ends later than it can,
    // since the clock of the database was set back. Also returns when the next lease ends.
    suspects: `
      with clock as materialized (select ${NOW} as now), held as (
        select t.id, t.epoch, t.lease_until, t.lease_ms from ${schema}.tasks t
        where t.worker is not null and t.needs_run and t.agent = any($1::text[]))
      select (select min(h.lease_until - c.now) from held h, clock c where h.lease_until > c.now)
          as next_ms,
        (select min(t.due_at) - (select now from clock) from ${schema}.tasks t
          where t.due_at is not null and t.ended_at is null and not t.needs_run
            and t.agent = any($1::text[])) as due_ms,
        array(select json_build_array(h.id, h.epoch, h.lease_until, h.lease_ms)::text
          from held h, clock c where h.lease_until <= c.now
            or (h.lease_ms > 0 and h.lease_until > c.now + h.lease_ms) limit 1000) as suspects`,
    // Puts suspended tasks whose time has come into the queue, where any replica claims them.
    due: `
      update ${schema}.tasks t set rev = t.rev + 1, needs_run = true from (
        select d.key from ${schema}.tasks d where d.due_at <= ${NOW} and d.ended_at is null
          and not d.needs_run and d.worker is null and d.agent = any($1::text[])
        order by d.due_at, d.key limit 100 for update skip locked) as due
      where t.key = due.key`,
    queued: `
      select p.name, (select count(*) from (select 1 from ${schema}.tasks t
        where t.needs_run and t.worker is null and t.party = p.name limit $2::bigint) as q) as queued
      from unnest($1::text[]) as p(name)`,
    bookmark: `
      insert into ${schema}.bookmarks(task, name, after, data)
      select id, $2, $3::bigint, $4 from ${schema}.tasks where id = $1
      on conflict (task, name) do update set after = excluded.after, data = excluded.data
      returning task`,
    unbookmark: `
      with gone as (delete from ${schema}.bookmarks where task = $1 and name = $2)
      select id from ${schema}.tasks where id = $1`,
    // The lock keeps another replica from claiming the task before these values are committed.
    setValues: `
      with held as (
        select id from ${schema}.tasks
        where id = $1 and epoch = $2::bigint and worker is not null for share
      ), gone as (
        delete from ${schema}.task_values v using held where v.task = held.id and v.key = any($5::text[])
      ), changed as (
        insert into ${schema}.task_values(task, key, bytes, value)
        select held.id, u.key, octet_length(u.value), u.value
        from held, unnest($3::text[], $4::text[]) as u(key, value)
        on conflict (task, key) do update set bytes = excluded.bytes, value = excluded.value)
      select id from held`,
    values: `
      select key, value from (
        select key, value, bytes, sum(bytes) over (order by key) as total
        from (select key, value, bytes from ${schema}.task_values
          where task = $1 and key > $2 and key >= $3 and key < $4 order by key limit $6::bigint) as next
      ) as page where total - bytes < $5::bigint order by key`,
    ended: `
      select id from ${schema}.tasks where ended_at < $1::bigint order by ended_at limit $2`,
    uncompacted: `
      select id from ${schema}.tasks where ended_at < $1::bigint and not compacted limit $2`,
    compact: `
      with done as (
        update ${schema}.tasks set compacted = true, rev = rev + 1 where id = $1 returning key)
      delete from ${schema}.entries e using done where e.task = done.key and e.seq = any($2::bigint[])`,
    remove: `
      with gone as (
        delete from ${schema}.tasks where id = any($1::text[]) and ended_at is not null
        returning key, id
      ), entries as (delete from ${schema}.entries e using gone where e.task = gone.key
      ), snapshots as (delete from ${schema}.snapshots s using gone where s.task = gone.key
      ), turns as (delete from ${schema}.turns u using gone where u.task = gone.id
      ), stored as (delete from ${schema}.task_values v using gone where v.task = gone.id)
      delete from ${schema}.bookmarks b using gone where b.task = gone.id`,
    present: `
      with gone as (delete from ${schema}.replicas where beat_at < ${NOW} - 3600000)
      insert into ${schema}.replicas(worker, host, pid, since, beat_at)
      select w, $2, $3::int, ${NOW}, ${NOW} from unnest($1::text[]) as w order by w
      on conflict (worker) do update set beat_at = excluded.beat_at`,
    absent: `delete from ${schema}.replicas where worker = any($1::text[])`,
    replicas: `
      select r.worker, r.host, r.pid, r.since, ${NOW} - r.beat_at as beat_age_ms,
        (select count(*) from ${schema}.tasks t where t.worker = r.worker) as claims,
        array(select json_build_object('task', t.id, 'agent', t.agent, 'owner', t.owner,
          'state', t.state, 'leaseMs', t.lease_until + t.lease_ms / 2 - ${NOW})::text
          from ${schema}.tasks t where t.worker = r.worker order by t.key desc limit $1) as tasks
      from ${schema}.replicas r order by r.since, r.worker`,
  };
  return Object.fromEntries(
    Object.entries(sql).map(([name, text]) => [name, { name: `duolane_${schema}_${name}`, text }]),
  ) as unknown as Sql;
}
