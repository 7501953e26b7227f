import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkLaws, isFinal } from '../../src/event/index.ts';
import type { Entry } from '../../src/event/types.ts';
import { Caller } from '../a2a/support.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { collect, follow, Replica, type ReplicaOptions } from '../support/task/replicas.ts';
import { tcpProxy } from '../support/tcp-proxy.ts';
import { shape, textOf, manyWords } from '../task/replica-world.ts';
import { suite, verifies } from '../verifies.ts';
import { slowness } from '../support/busy.ts';

type Two = [Replica, Replica];
type Three = [Replica, Replica, Replica];

suite('replicas on postgres', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres()), 60_000);
  afterAll(() => server[Symbol.asyncDispose](), 60_000);

  /**
   * Times that a test can wait for; the claim lives for three heartbeats, as it does by default.
   */
  const QUICK = { heartbeatMs: 500, pollMs: 500, answerMs: 1000 };

  const options = (schema: string, port = server.port): ReplicaOptions => ({
    log: {
      ...QUICK,
      connectionString: server.url.replace(`:${server.port}`, `:${port}`),
      schema,
    },
  });

  async function start<N extends 2 | 3>(
    count: N,
    given: ReplicaOptions,
  ): Promise<(N extends 2 ? Two : Three) & AsyncDisposable> {
    const replicas = await Promise.all(Array.from({ length: count }, () => Replica.start(given)));
    const end = async (): Promise<void> => {
      await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
    };
    return Object.assign(replicas as N extends 2 ? Two : Three, { [Symbol.asyncDispose]: end });
  }

  /** Resolves when the task has said something, so that it runs. */
  async function running(replica: Replica, task: string): Promise<void> {
    for await (const entry of replica.read(task)) if (entry.type === 'text.delta') return;
  }

  /** Reads the task on all of them to its end; resolves when each has shown some of it. */
  async function watch(
    replicas: readonly Replica[],
    task: string,
  ): Promise<{ readonly ends: Promise<Entry[][]> }> {
    const streams = replicas.map((replica) => {
      const seen: Entry[] = [];
      let begun = (): void => {};
      const began = new Promise<void>((resolve) => (begun = resolve));
      const end = (async () => {
        for await (const entry of replica.read(task))
          if (seen.push(entry) && entry.type === 'text.delta') begun();
        return seen;
      })();
      return { began: Promise.race([began, end]), end };
    });
    const ends = Promise.all(streams.map(({ end }) => end));
    ends.catch(() => {});
    await Promise.all(streams.map(({ began }) => began));
    return { ends };
  }

  /** Nothing lost, repeated or reordered; valid, one final entry, and the same for every reader. */
  async function expectWhole(seen: readonly Entry[], elsewhere: readonly Replica[]): Promise<void> {
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, index) => index + 1));
    expect(checkLaws(seen)).toEqual([]);
    expect(seen.filter(({ type }) => type === 'run.finished')).toHaveLength(1);
    const task = seen[0]?.type === 'turn.submitted' ? seen[0].turn.task : '';
    for (const replica of elsewhere) {
      expect(await collect(replica.read(task))).toEqual(seen);
      expect(isFinal((await replica.get(task)).state)).toBe(true);
    }
  }

  verifies(
    ['S183', 'S190'],
    'a cancel on another replica ends the stream of the running one within 250 ms',
    async () => {
      const { connectionString = '', schema = '' } = options(server.schema()).log;
      // Polling would find it far too late, so the notification has to arrive.
      const rare = { heartbeatMs: 600_000, pollMs: 600_000 };
      await using replicas = await start(2, { log: { ...rare, connectionString, schema } });
      const [owner, other] = replicas;
      const times: number[] = [];
      // The first tries of a fresh process compile; the limit is for one that runs.
      for (let tries = 0; tries < 10 && Math.min(...times) > 250; tries++) {
        const task = await owner.submit('count', '3 words of 5 ms, then 60000 ms');
        const stream = collect(owner.read(task));
        await running(other, task);
        const asked = performance.now();
        await other.cancel(task);
        const seen = await stream;
        times.push(performance.now() - asked);
        expect(shape(seen)).toEqual([
          'turn.submitted',
          'run.started',
          'cancel.requested',
          'run.finished:canceled',
        ]);
        await expectWhole(seen, replicas);
        expect(await owner.stopOf(task)).toMatchObject({ code: 'canceled' });
      }
      expect(Math.min(...times)).toBeLessThan(250 * (await slowness()));
    },
  );

  verifies(
    ['S183', 'S184', 'S190'],
    'without notifications a cancel is found by looking, at the default interval within 6 s',
    async () => {
      const { connectionString = '', schema = '' } = options(server.schema()).log;
      // Nothing set: heartbeats and polls are as they are by default, every 5 s.
      await using replicas = await start(2, { log: { connectionString, schema }, deaf: true });
      const [owner, other] = replicas;
      // It says nothing more, so no conflict of an append gives the cancel away.
      const task = await owner.submit('count', '3 words of 5 ms, then 60000 ms');
      const stream = collect(owner.read(task));
      await running(owner, task);
      const asked = performance.now();
      await other.cancel(task);
      const seen = await stream;
      expect(performance.now() - asked).toBeLessThan(6000 * (await slowness()));
      expect(shape(seen).at(-1)).toBe('run.finished:canceled');
      await expectWhole(seen, replicas);
    },
  );

  verifies(
    'S188',
    'a canceled task is canceled in the table, and as each version of A2A says it on every replica',
    async () => {
      const schema = server.schema();
      await using replicas = await start(2, options(schema));
      const [owner, other] = replicas;
      const task = await owner.submit('count', '3 words of 5 ms, then 60000 ms');
      await running(other, task);
      await other.cancel(task);
      await collect(owner.read(task));
      const pool = new Pool({ connectionString: server.url });
      const { rows } = await pool.query(`select state from ${schema}.tasks where id = $1`, [task]);
      await pool.end();
      expect(rows).toEqual([{ state: 'canceled' }]);
      for (const { url } of replicas) {
        const [old, current] = [new Caller(url, '0.3'), new Caller(url, '1.0')];
        expect(await old.call('tasks/get', { id: task })).toMatchObject({
          result: { status: { state: 'canceled' } },
        });
        expect(await current.call('GetTask', { id: task })).toMatchObject({
          result: { status: { state: 'TASK_STATE_CANCELED' } },
        });
      }
    },
  );

  test('every replica subscribes, resumes behind any entry and lists what another one runs', async () => {
    await using replicas = await start(3, options(server.schema()));
    const [owner, ...others] = replicas;
    const task = await owner.submit('count', '200 words of 2 ms');
    const live = replicas.map((replica) => collect(replica.read(task)));
    const [seen, ...same] = (await Promise.all(live)) as [Entry[], ...Entry[][]];
    for (const entries of same) expect(entries).toEqual(seen);
    await expectWhole(seen, replicas);
    expect(textOf(seen)).toBe(manyWords(200));
    for (const replica of others)
      for (const after of [1, 2, Math.floor(seen.length / 2), seen.length - 1])
        expect(await collect(replica.read(task, after))).toEqual(seen.slice(after));
    const listed = await fetch(`${others[0]?.url}/api/tasks`);
    expect(await listed.json()).toMatchObject({ tasks: [{ task, state: 'completed' }] });
  });

  test('replicas that pull from one queue share it, and no task is run twice', async () => {
    const { log } = options(server.schema());
    await using replicas = await start(3, {
      // On a busy machine a short lease would end, and the task would rightly be run again; and a
      // short wait for the database would fail a request.
      log: { ...log, heartbeatMs: 10_000, answerMs: 60_000 },
      queue: true,
      maxRuns: 4,
    });
    const [front] = replicas;
    const submitted = Array.from({ length: 36 }, () => front.submit('count', '10 words of 50 ms'));
    const streams = submitted.map(async (task) => collect(front.read(await task)));
    const busy = async (): Promise<number> =>
      (await front.replicas()).filter(({ claims }) => claims > 0).length;
    await expect.poll(busy, { timeout: 30_000 }).toBeGreaterThan(1);
    for (const seen of await Promise.all(streams)) {
      await expectWhole(seen, []);
      expect(shape(seen)).toEqual(['turn.submitted', 'run.started', 'run.finished:completed']);
      expect(textOf(seen)).toBe(manyWords(10));
    }
    // Nor was one begun by two of them and then stopped in one: who claims, has it alone.
    const fenced = replicas.flatMap(({ stops }) => stops.filter(({ code }) => code === 'fenced'));
    expect(fenced).toEqual([]);
  });

  test('every replica lists who runs what, and a crashed one has a growing age', async () => {
    await using replicas = await start(2, options(server.schema()));
    const [owner, other] = replicas;
    const task = await owner.submit('count', '100000 words of 20 ms');
    await running(other, task);
    const told = await other.replicas();
    expect(told.filter(({ here }) => here)).toHaveLength(1);
    expect(told).toHaveLength(2);
    expect(told.find(({ pid }) => pid === owner.process.pid)).toMatchObject({
      here: false,
      claims: 1,
      tasks: [{ task, agent: 'count', state: 'working' }],
    });
    owner.signal('SIGKILL');
    await owner.exited;
    let age = 0;
    while (age < 1500)
      age = (await other.replicas()).find(({ pid }) => pid === owner.process.pid)?.beatAgeMs ?? 0;
    expect((await other.replicas()).find(({ here }) => here)?.beatAgeMs).toBeLessThan(1500);
  });

  for (const agent of ['count', 'again'] as const)
    test(`an owner that is killed is replaced within the claim's life and a heartbeat (${agent})`, async () => {
      await using replicas = await start(3, options(server.schema()));
      const [owner, second, third] = replicas;
      const task = await owner.submit(agent, '80 words of 10 ms');
      const stream = collect(follow(() => [owner, second, third], task));
      await running(second, task);
      owner.signal('SIGKILL');
      const killed = performance.now();
      for await (const entry of second.read(task)) {
        const isNews =
          entry.type === 'run.finished' || (entry.type === 'run.started' && entry.discard);
        if (isNews) break;
      }
      const life = 3 * QUICK.heartbeatMs + QUICK.heartbeatMs;
      // The claim was renewed at the latest when it died; the rest is for a busy machine.
      expect(performance.now() - killed).toBeLessThan(life + 5000 * (await slowness()));
      const seen = await stream;
      await expectWhole(seen, [second, third]);
      // Both saw the claim end, and one of them took it.
      const runs = shape(seen).filter((what) => what.startsWith('run.'));
      if (agent === 'again') {
        expect(runs).toEqual(['run.started', 'run.started', 'run.finished:completed']);
        expect(textOf(seen)).toBe(manyWords(80));
      } else {
        expect(runs).toEqual(['run.started', 'run.finished:failed']);
        expect(seen.at(-1)).toMatchObject({ error: { code: 'interrupted' } });
      }
    });

  test('an owner that was stopped past its claim is fenced when it comes back, and its agent ends', async () => {
    await using replicas = await start(2, options(server.schema()));
    const [owner, other] = replicas;
    const task = await owner.submit('again', '100 words of 20 ms');
    await running(other, task);
    owner.signal('SIGSTOP');
    for await (const entry of other.read(task))
      if (entry.type === 'run.started' && entry.discard) break;
    owner.signal('SIGCONT');
    expect(await owner.stopOf(task)).toMatchObject({ code: 'fenced' });
    const seen = await collect(other.read(task));
    expect(textOf(seen)).toBe(manyWords(100));
    expect(shape(seen).filter((what) => what.startsWith('run.'))).toEqual([
      'run.started',
      'run.started',
      'run.finished:completed',
    ]);
    await expectWhole(seen, replicas);
  });

  test('a database that crashes and comes back loses nothing, and runs go on', async () => {
    await using database = await startPostgres();
    const log = { ...QUICK, leaseMs: 20_000, connectionString: database.url };
    await using replicas = await start(2, { log });
    const [owner, other] = replicas;
    const task = await owner.submit('count', '150 words of 20 ms');
    const { ends } = await watch(replicas, task);
    await database.crash();
    await database.start();
    const [seen, same] = (await ends) as [Entry[], Entry[]];
    expect(same).toEqual(seen);
    expect(textOf(seen)).toBe(manyWords(150));
    await expectWhole(seen, [other]);
  });

  for (const [how, ms, what] of [
    ['cut', 10_000, 'cannot reach the database'],
    ['stall', 3000, 'gets no answer from the database'],
  ] as const)
    test(`a replica that ${what} for ${ms / 1000} s catches up`, async () => {
      const schema = server.schema();
      await using proxy = await tcpProxy(server.port);
      // Of the default times, only the timeout of a silent connection is shorter.
      const { connectionString = '' } = options(schema, proxy.port).log;
      await using owner = await Replica.start({
        log: { connectionString, schema, answerMs: 1000 },
      });
      await using other = await Replica.start(options(schema));
      const task = await owner.submit('count', `${ms / 20} words of 20 ms`);
      const { ends } = await watch([owner, other], task);
      proxy[how]();
      await new Promise((resolve) => setTimeout(resolve, ms));
      const during = await other.get(task);
      proxy.mend();
      const [seen, same] = (await ends) as [Entry[], Entry[]];
      expect(same).toEqual(seen);
      expect(during.state).toBe('working');
      expect(textOf(seen)).toBe(manyWords(ms / 20));
      await expectWhole(seen, [other]);
    });

  test('a replica that is cut off for longer stops its agents; another one takes over', async () => {
    const schema = server.schema();
    await using proxy = await tcpProxy(server.port);
    await using owner = await Replica.start(options(schema, proxy.port));
    await using other = await Replica.start(options(schema));
    const task = await owner.submit('again', '200 words of 20 ms');
    await running(other, task);
    const shown: Entry[] = [];
    const watching = (async () => {
      for await (const entry of owner.read(task)) shown.push(entry);
    })().catch(() => {});
    proxy.stall();
    expect(await owner.stopOf(task)).toMatchObject({ code: 'fenced' });
    const seen = await collect(other.read(task));
    expect(textOf(seen)).toBe(manyWords(200));
    proxy.mend();
    await watching;
    await expectWhole(seen, [owner, other]);
    // What the lonely replica showed is the beginning of what was stored, never more.
    expect(shown).toEqual(seen.slice(0, shown.length));
  });

  test('notifications that do not come are made up for by looking', async () => {
    const given = { ...options(server.schema()), deaf: true };
    await using replicas = await start(2, given);
    const [owner, other] = replicas;
    const task = await owner.submit('count', '100 words of 10 ms');
    const seen = await collect(other.read(task));
    await expectWhole(seen, replicas);
    expect(textOf(seen)).toBe(manyWords(100));
  });
});
