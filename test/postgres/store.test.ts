import { randomUUID } from 'node:crypto';
import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Turn } from '../../src/event/types.ts';
import { type Claim, createRunner, type TaskLog } from '../../src/task/index.ts';
import { filterCondition } from '../../src/task/store/filter-condition.ts';
import { openLog, type Store } from '../../src/task/store/index.ts';
import {
  type PgClient,
  type PgPool,
  postgresDatabase,
  postgresLog,
  type PostgresLogOptions,
} from '../../src/task/postgres/postgres-log.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import {
  claimed,
  collect,
  completed,
  longTask,
  manyWords,
  say,
  SILENT,
  started,
  textOf,
  turn,
  until,
  words,
} from '../task/replica-world.ts';
import { suite, verifies } from '../verifies.ts';

suite('postgres store', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres(['-c', 'fsync=off'])), 60_000);
  afterAll(() => server[Symbol.asyncDispose](), 60_000);

  const open = (schema: string, more: Partial<PostgresLogOptions> = {}): Promise<TaskLog> =>
    postgresLog({ connectionString: server.url, schema, ...more });

  /** Counts what it sends, by the name of the statement. */
  function counting(pool: Pool): { readonly pool: PgPool; readonly counts: Map<string, number> } {
    const counts = new Map<string, number>();
    const wrap = (client: PgClient): PgClient => ({
      query: (config) => {
        const name = config.name?.replace(/^duolane_.*_/, '') ?? config.text;
        counts.set(name, (counts.get(name) ?? 0) + 1);
        return client.query(config);
      },
      on: (event, listener) => client.on(event, listener),
      release: (destroy) => client.release(destroy),
    });
    return {
      counts,
      pool: {
        connect: async () => wrap(await pool.connect()),
        end: () => pool.end(),
        on: (event, listener) => pool.on(event, listener),
        off: (event, listener) => pool.off(event, listener),
      },
    };
  }

  describe('opening', () => {
    test('ten concurrent replicas create the tables once', async () => {
      const schema = server.schema();
      const logs = await Promise.all(Array.from({ length: 10 }, () => open(schema)));
      await logs[0]?.submit(turn('a', 't'));
      expect(await logs[9]?.get('t')).toMatchObject({ seq: 1 });
      await Promise.all(logs.map((log) => log[Symbol.asyncDispose]()));
    });

    test('a list by state reads the tasks of that state only', async () => {
      const schema = server.schema();
      await (await open(schema))[Symbol.asyncDispose]();
      const pool = new Pool({ connectionString: server.url });
      await pool.query(`insert into ${schema}.tasks(id, agent, context, owner, tenant, party, state,
          seq, rev, epoch, lease_until, needs_run, changed_at, ended_at)
        select 't' || n, 'a', 'c' || n, 'ann', '', '', state, 1, 1, 1, 0, false, n,
          case when state = 'working' then null else n end
        from (select n, case n % 1000 when 1 then 'failed' when 2 then 'working' else 'completed' end
          as state from generate_series(1, 5000) as n) as rows;
        analyze ${schema}.tasks`);
      for (const state of ['working', 'failed'] as const)
        for (const filter of [{}, { owner: 'ann' }, { owner: 'ann', agent: 'a' }]) {
          const { where, values } = filterCondition({ ...filter, state }, (n) => `$${n}`);
          const { rows } = await pool.query(
            `explain (format json) select id from ${schema}.tasks where ${where}
              order by changed_at desc, key desc limit 50`,
            values,
          );
          expect(JSON.stringify(rows)).toMatch(/"Index Name":"tasks_state"/);
        }
      await pool.end();
    });

    test('tables of a newer version are refused', async () => {
      const schema = server.schema();
      await (await open(schema))[Symbol.asyncDispose]();
      const pool = new Pool({ connectionString: server.url });
      await pool.query(`insert into ${schema}.migrations(version) values(99)`);
      await pool.end();
      await expect(open(schema)).rejects.toMatchObject({ code: 'unsupported' });
    });

    test('what cannot be reached or is not a name says so', async () => {
      const connectionString = 'postgres://postgres@127.0.0.1:1/postgres';
      await expect(postgresLog({ connectionString })).rejects.toMatchObject({ code: 'server' });
      await expect(open('no"thing')).rejects.toMatchObject({ code: 'invalid' });
      await expect(postgresLog({})).rejects.toMatchObject({ code: 'invalid' });
    });

    test('a pool with fewer than three connections is refused', async () => {
      const pool = new Pool({ connectionString: server.url, max: 2 });
      await expect(postgresLog({ pool })).rejects.toMatchObject({
        code: 'invalid',
        message: expect.stringContaining('at least 3') as string,
      });
      await pool.end();
    });

    test('logs that share a pool leave no listeners behind', async () => {
      const pool = new Pool({ connectionString: server.url, max: 4 });
      const clients = new Set<PoolClient>();
      pool.on('connect', (client) => void clients.add(client));
      const warnings: Error[] = [];
      const onWarning = (warning: Error): void => void warnings.push(warning);
      process.on('warning', onWarning);
      for (let count = 0; count < 15; count++) {
        const log = await postgresLog({ pool, schema: server.schema() });
        await log.submit(turn('a', 't'));
        await Promise.all([log.get('t'), log.get('t')]);
        await log[Symbol.asyncDispose]();
      }
      const most = Math.max(...[...clients].map((client) => client.listenerCount('error')));
      expect(most).toBeLessThanOrEqual(4);
      expect(pool.listenerCount('error')).toBe(0);
      await new Promise((resolve) => setImmediate(resolve));
      process.off('warning', onWarning);
      expect(warnings).toEqual([]);
      await pool.end();
    });

    test('one damaged task is left out of lists', async () => {
      const schema = server.schema();
      const pool = new Pool({ connectionString: server.url });
      const first = await open(schema);
      for (const task of ['good1', 'bad', 'good2']) await first.submit(turn('a', task));
      await first[Symbol.asyncDispose]();
      await pool.query(`update ${schema}.snapshots set line = 'x' where task =
        (select key from ${schema}.tasks where id = 'bad')`);
      await pool.end();
      const reports: unknown[] = [];
      const error = (...all: unknown[]): void => void reports.push(all);
      await using log = await open(schema, { logger: { ...SILENT, error } });
      expect((await collect(log.list({}))).map(({ task }) => task)).toEqual(['good2', 'good1']);
      expect(reports).toMatchObject([[expect.anything(), { task: 'bad' }]]);
      // What is written together with it is written all the same.
      const both = [log.submit(turn('a', 'bad')), log.submit(turn('a', 'good1'))];
      const all = await Promise.allSettled(both);
      expect(all.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
    });

    test.each([
      ['is not JSON', "update S set line = 'x'"],
      ['is not a snapshot', `update S set line = '{"type":"text.end","id":"t","seq":1,"at":1}'`],
      ['is gone', 'delete from S'],
    ])('a task whose snapshot %s is reported once, and hides no other', async (_, damage) => {
      const schema = server.schema();
      const pool = new Pool({ connectionString: server.url });
      const first = await open(schema);
      for (const task of ['bad', 'good1', 'good2']) await first.submit(turn('a', task));
      await first[Symbol.asyncDispose]();
      const statement = damage.replace('S', `${schema}.snapshots`);
      await pool.query(
        `${statement} where task = (select key from ${schema}.tasks where id = 'bad')`,
      );
      const reports: unknown[] = [];
      const error = (...all: unknown[]): void => void reports.push(all);
      const short = { heartbeatMs: 50, leaseMs: 200, pollMs: 50 };
      await using log = await open(schema, { ...short, logger: { ...SILENT, error } });
      await using runner = createRunner({ log, agents: { a: words(1, 0) }, logger: SILENT });
      for (const task of ['good1', 'good2']) await collect(log.read(task, 0));
      const free = async (): Promise<unknown> =>
        (
          await pool.query(
            `select lease_until + lease_ms < extract(epoch from clock_timestamp()) * 1000 as free
             from ${schema}.tasks where id = 'bad'`,
          )
        ).rows[0];
      // Its claim has run out, and others are claimed meanwhile; it is not claimed again.
      await expect.poll(free).toEqual({ free: true });
      await runner.submit(turn('a', 'good3'));
      await collect(log.read('good3', 0));
      expect(await free()).toEqual({ free: true });
      expect((await collect(log.list({}))).map(({ task }) => task)).toHaveLength(3);
      await expect(log.get('bad')).rejects.toMatchObject({ code: 'malformed' });
      expect(reports).toMatchObject([[expect.anything(), { task: 'bad' }]]);
      expect(await log.health()).toEqual({ ok: true });
      await pool.end();
    });

    test('after closing, a call says so; closing first does what was asked before', async () => {
      const log = await open(server.schema());
      const submitted = log.submit(turn('a', 't'));
      await log[Symbol.asyncDispose]();
      expect((await submitted).entry.seq).toBe(1);
      await expect(log.get('t')).rejects.toMatchObject({ code: 'closed' });
    });
  });

  describe('group commit', () => {
    test('concurrent writes are one statement, and a cached task needs no other', async () => {
      const pool = new Pool({ connectionString: server.url });
      const { pool: counted, counts } = counting(pool);
      await using log = await postgresLog({ pool: counted, schema: server.schema() });
      const claims = await Promise.all(
        Array.from({ length: 50 }, (_, index) => claimed(log, `t${index}`)),
      );
      counts.clear();
      await Promise.all(claims.map((claim) => log.append(claim, 1, [started])));
      await Promise.all(claims.map((claim) => log.append(claim, 2, [say('x'), completed])));
      expect([counts.get('write'), counts.get('load')]).toEqual([2, undefined]);
      await log[Symbol.asyncDispose]();
      await pool.end();
    });

    test('one that PostgreSQL cannot store does not take the others with it', async () => {
      await using log = await open(server.schema());
      const all = await Promise.allSettled(
        ['t1', 'bad\0name', 't2'].map((task) => log.submit(turn('a', task))),
      );
      expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      expect(all[1]).toMatchObject({ reason: { code: 'invalid' } });
      expect(await log.get('t2')).toMatchObject({ seq: 1 });
    });

    test('a read that PostgreSQL refuses does not take the others with it', async () => {
      await using log = await open(server.schema());
      for (const task of ['t1', 't2'])
        await log.append(await claimed(log, task), 1, [started, completed]);
      const all = await Promise.allSettled(
        ['t1', 'bad\0name', 't2'].map((task) => collect(log.read(task, 0))),
      );
      expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      expect(all[1]).toMatchObject({ reason: { code: 'invalid' } });
    });

    test('a refused statement keeps its connection', async () => {
      const pool = new Pool({ connectionString: server.url, idleTimeoutMillis: 0 });
      let closed = 0;
      pool.on('remove', () => closed++);
      await using log = await postgresLog({ pool, schema: server.schema() });
      await log.submit(turn('a', 't'));
      for (let round = 0; round < 5; round++) {
        await expect(log.submit(turn('a', 'bad\0name'))).rejects.toMatchObject({ code: 'invalid' });
        await expect(log.get('bad\0name')).rejects.toMatchObject({ code: 'invalid' });
      }
      expect(await log.get('t')).toMatchObject({ seq: 1 });
      expect(closed).toBe(0);
      await log[Symbol.asyncDispose]();
      await pool.end();
    });

    test('a long run is loaded from near its end, not from its beginning', async () => {
      const schema = server.schema();
      const pool = new Pool({ connectionString: server.url });
      await using log = await open(schema);
      const claim = await claimed(log, 't');
      let seq = await log.append(claim, 1, [started]);
      for (let index = 0; index < 60; index++)
        seq = await log.append(claim, seq, [say('x'.repeat(5000))]);
      await using other = await open(schema);
      expect((await other.get('t'))?.text).toHaveLength(300_000);
      const { rows } = await pool.query(`select max(seq)::int as seq from ${schema}.snapshots`);
      await pool.end();
      expect((rows as { seq: number }[])[0]?.seq).toBeGreaterThan(20);
    });
  });

  describe('two replicas', () => {
    async function pair(more: Partial<PostgresLogOptions> = {}): Promise<[TaskLog, TaskLog]> {
      const schema = server.schema();
      return [await open(schema, more), await open(schema, more)];
    }

    test('concurrent submits of one message are one task, on any replica', async () => {
      const [one, other] = await pair();
      for (let round = 0; round < 20; round++) {
        const first: Turn = turn('a', `t${round}`);
        const both = await Promise.all([
          one.submit(first),
          other.submit({ ...first, task: `u${round}` }),
        ]);
        expect(both[0].entry).toEqual(both[1].entry);
      }
      await Promise.all([one, other].map((log) => log[Symbol.asyncDispose]()));
    });

    test('claim different tasks, never the same', async () => {
      const [one, other] = await pair();
      const tasks = Array.from({ length: 40 }, (_, index) => `t${index}`);
      for (const task of tasks) await one.submit(turn('a', task));
      const both = await Promise.all(
        [one, other, one, other].map((log) => collect(log.claims('W', { agents: ['a'] }), 10)),
      );
      const found = both.flat().map((claim) => claim.task);
      expect(found.toSorted()).toEqual(tasks.toSorted());
      await Promise.all([one, other].map((log) => log[Symbol.asyncDispose]()));
    });

    verifies(
      'S190',
      'cancel and completion at the same moment cannot overwrite each other',
      async () => {
        const [one, other] = await pair();
        const ends = new Set<string>();
        for (let round = 0; round < 30; round++) {
          const task = `t${round}`;
          const claim = await claimed(one, task);
          await one.append(claim, 1, [started]);
          const finish = (): Promise<unknown> => one.append(claim, 2, [completed]);
          const cancel = (): Promise<unknown> => other.requestCancel(task);
          const both = await atOnce(finish, cancel, round);
          const states = await Promise.all([one, other].map((log) => log.get(task)));
          expect(states[0]).toEqual(states[1]);
          // The second of the two is refused: a note cannot follow an end, nor an end an unread note.
          const [finished, canceled] = both.map(({ status }) => status === 'fulfilled');
          expect(states[0]).toMatchObject(
            finished
              ? { state: 'completed', canceling: false }
              : { state: 'working', canceling: true },
          );
          expect(finished).toBe(!canceled);
          ends.add(String(finished));
        }
        expect(ends).toEqual(new Set(['true', 'false']));
        await Promise.all([one, other].map((log) => log[Symbol.asyncDispose]()));
      },
    );

    /** Both, the first two times for sure one before the other, then by chance. */
    async function atOnce(
      one: () => Promise<unknown>,
      other: () => Promise<unknown>,
      round: number,
    ): Promise<readonly PromiseSettledResult<unknown>[]> {
      const [first, second] = round % 2 === 0 ? [one, other] : [other, one];
      const begun = first();
      if (round < 2) await begun;
      const both = await Promise.allSettled([begun, second()]);
      return round % 2 === 0 ? both : both.toReversed();
    }

    test('a task whose name is too long to be announced is found all the same', async () => {
      const [one, other] = await pair({ pollMs: 60_000 });
      const task = `t${'x'.repeat(3000)}`;
      const claim = await claimed(one, task);
      await one.append(claim, 1, [started]);
      const read = collect(other.read(task, 0));
      await until(other, task, ({ running }) => running);
      await one.append(claim, 2, [completed]);
      expect(await read).toHaveLength(3);
      await Promise.all([one, other].map((log) => log[Symbol.asyncDispose]()));
    });
  });

  describe('a step of the clock of the database', () => {
    /** The step as the claims see it: relative to the clock, every lease moves the other way. */
    async function step(schema: string, ms: number): Promise<void> {
      const pool = new Pool({ connectionString: server.url });
      await pool.query(`update ${schema}.tasks set lease_until = lease_until - ${ms}, rev = rev + 1
        where lease_until > 0`);
      await pool.end();
    }

    test('forward, a living owner keeps its claims', async () => {
      const schema = server.schema();
      const leases = { heartbeatMs: 200, leaseMs: 60_000, pollMs: 100 };
      await using owner = await open(schema, leases);
      await using other = await open(schema, leases);
      const claim = await claimed(owner, 't');
      await owner.append(claim, 1, [started]);
      await step(schema, 600_000);
      const stop = new AbortController();
      const taken = collect(other.claims('B', { agents: ['a'], signal: stop.signal }), 1);
      const replicas = async () => (await owner.replicas?.())?.[0]?.tasks[0]?.leaseMs ?? 0;
      // Until the owner has renewed it.
      while ((await replicas()) < 30_000) await new Promise((resolve) => setTimeout(resolve, 50));
      stop.abort(new Error('nothing to take'));
      await expect(taken).rejects.toThrow('nothing to take');
      expect(claim.signal.aborted).toBe(false);
      expect(await owner.append(claim, 2, [completed])).toBe(3);
    });

    test('back, the claims of an owner that is gone are taken', async () => {
      const schema = server.schema();
      const leases = { heartbeatMs: 100, leaseMs: 400, pollMs: 100 };
      const owner = await open(schema, leases);
      await claimed(owner, 't');
      await owner[Symbol.asyncDispose]();
      await step(schema, -3_600_000);
      await using other = await open(schema, leases);
      const taken = await collect(other.claims('B', { agents: ['a'] }), 1);
      expect(taken).toMatchObject([{ task: 't', epoch: 2 }]);
    });
  });

  describe('queue', () => {
    test('a front accepts, workers with room run, and everything is done once', async () => {
      const schema = server.schema();
      const logs = await Promise.all([open(schema), open(schema), open(schema)]);
      const [front, ...workers] = logs as [TaskLog, TaskLog, TaskLog];
      let now = 0;
      let most = 0;
      const agent = words(5, 5);
      const counted: typeof agent = async function* (given, ctx) {
        most = Math.max(most, ++now);
        yield* agent(given, ctx);
        now--;
      };
      await using accepting = createRunner({ log: front, agents: { w: agent }, maxRuns: 0 });
      const runners = workers.map((log) =>
        createRunner({ log, agents: { w: counted }, maxRuns: 2, queue: true }),
      );
      const tasks = Array.from({ length: 12 }, (_, index) => `t${index}`);
      for (const task of tasks) await accepting.submit(turn('w', task));
      for (const task of tasks)
        expect(textOf(await collect(front.read(task, 0)))).toBe(manyWords(5));
      expect(most).toBeLessThanOrEqual(4);
      expect(most).toBeGreaterThan(1);
      await Promise.all(runners.map((runner) => runner[Symbol.asyncDispose]()));
      await Promise.all(logs.map((log) => log[Symbol.asyncDispose]()));
    });

    test('a tenant with few tasks does not wait behind one with many', async () => {
      await using log = await open(server.schema());
      for (let index = 0; index < 30; index++)
        await log.submit(turn('a', `many${index}`, { tenant: 'many' }));
      for (let index = 0; index < 3; index++)
        await log.submit(turn('a', `few${index}`, { tenant: 'few' }));
      const order = (await collect(log.claims('W', { agents: ['a'] }), 8)).map(({ task }) => task);
      expect(order.filter((task) => task.startsWith('few'))).toEqual(['few0', 'few1', 'few2']);
      expect(order.indexOf('few2')).toBeLessThan(7);
    });

    test('a limit per tenant holds over all replicas, and a run that ends makes room', async () => {
      const schema = server.schema();
      const options = { maxRunsPerParty: 2, pollMs: 60_000 };
      const logs = [await open(schema, options), await open(schema, options)] as const;
      for (let index = 0; index < 6; index++)
        await logs[0].submit(turn('a', `t${index}`, { owner: 'ann' }));
      const stop = new AbortController();
      const { signal } = stop;
      const held: { readonly log: TaskLog; readonly claim: Claim }[] = [];
      let wake = (): void => {};
      const pulling = logs.map(async (log) => {
        for await (const claim of log.claims('W', { agents: ['a'], signal })) {
          held.push({ log, claim });
          wake();
        }
      });
      const count = async (wanted: number): Promise<void> => {
        while (held.length < wanted) await new Promise<void>((resolve) => (wake = resolve));
      };
      await count(2);
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(held).toHaveLength(2);
      for (let done = 0; done < 4; done++) {
        const { log, claim } = held[done] as (typeof held)[number];
        await log.append(claim, 1, [started, completed]);
        await count(done + 3);
        expect(held).toHaveLength(done + 3);
      }
      stop.abort();
      await Promise.allSettled(pulling);
      expect(new Set(held.map(({ claim }) => claim.task)).size).toBe(6);
      await Promise.all(logs.map((log) => log[Symbol.asyncDispose]()));
    });
  });

  test('a list of outlines reads nothing of what tasks have said, nor an outline that is old', async () => {
    const pool = new Pool({ connectionString: server.url });
    await using log = await open('outlines');
    for (const task of ['t0', 't1']) await longTask(log, task, 1000);
    await pool.query(`set search_path to outlines; delete from entries;
      update snapshots set line = 'x'; reset search_path`);
    await using other = await open('outlines');
    const outlines = (await collect(other.list({ outline: true }))).map(({ task }) => task);
    expect(outlines.toSorted()).toEqual(['t0', 't1']);
    // As a replica of the version before leaves it.
    await pool.query('update outlines.snapshots set outline_seq = outline_seq - 1');
    await pool.end();
    expect(await collect(other.list({ outline: true }))).toEqual([]);
  });

  test('a page of long tasks ends early, so that a list holds a few of them at a time', async () => {
    const store = await postgresDatabase({ connectionString: server.url, schema: 'long' });
    await using log = openLog(store);
    for (let i = 0; i < 8; i++) await longTask(log, `t${i}`, 300_000);
    const { snapshots, endsEarly } = await store.page({ limit: 50, maxChars: 1 << 20 });
    expect({ tasks: snapshots.length, endsEarly }).toEqual({ tasks: 4, endsEarly: true });
    expect(await collect(log.list({}))).toHaveLength(8);
  });

  test('a name that no index can have is refused for good, and does not count as a failure', async () => {
    const warned: string[] = [];
    const logger = { ...SILENT, warn: (text: string) => void warned.push(text) };
    await using log = await open('long_names', { logger });
    await log.submit(turn('a', 't'));
    const name = Array.from({ length: 500 }, () => randomUUID()).join('');
    await expect(log.bookmark({ task: 't', name, after: 1, data: {} })).rejects.toMatchObject({
      code: 'too_large',
      retryable: false,
    });
    expect(warned).toEqual([]);
  });

  test('a store that is closed while the database is away does not hang', async () => {
    await using database = await startPostgres();
    const store: Store = await postgresDatabase({
      connectionString: database.url,
      answerMs: 500,
      pollMs: 200,
    });
    const log = openLog(store);
    await claimed(log, 't');
    await database.crash();
    await expect(log.get('t')).rejects.toMatchObject({ code: 'server' });
    await log[Symbol.asyncDispose]();
  });
});
