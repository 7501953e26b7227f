import fc from 'fast-check';
import { expect, test } from 'vitest';
import { advance, checkLaws, isFinal } from '../../src/event/index.ts';
import { DuolaneError } from '../../src/errors.ts';
import type { Entry, Logger, Snapshot, Turn } from '../../src/event/types.ts';
import { createRunner, type Runner, type TaskLog } from '../../src/task/index.ts';
import {
  memoryDatabase,
  STORE_METHODS,
  type Store,
  type StoreMethods,
} from '../../src/task/store/index.ts';
import { temporarySqlite } from './temporary-sqlite.ts';
import {
  claimed,
  collect,
  manyWords,
  shape,
  started,
  turn,
  until,
  words,
  World,
} from './replica-world.ts';
import { verifies } from '../verifies.ts';

/** What goes wrong with one task, and when: once the log has so many entries. */
const schedule = fc.record({
  words: fc.integer({ min: 0, max: 25 }),
  pauseMs: fc.integer({ min: 0, max: 2 }),
  resumable: fc.boolean(),
  notify: fc.boolean(),
  lost: fc.array(fc.constantFrom('answer', 'call', 'nothing'), { maxLength: 6 }),
  faults: fc.array(
    fc.record({
      at: fc.integer({ min: 1, max: 20 }),
      what: fc.constantFrom('kill', 'stop', 'cancel', 'message'),
    }),
    { maxLength: 4 },
  ),
  cuts: fc.array(fc.integer({ min: 1, max: 10 }), { maxLength: 5 }),
});
type Schedule = typeof schedule extends fc.Arbitrary<infer T> ? T : never;

let tasks = 0;

/** Runs one task through its faults and checks what every reader saw. */
async function live(world: World, plan: Schedule): Promise<void> {
  const task = `t${++tasks}`;
  const name = `agent-${task}`;
  const agent = words(plan.words, plan.pauseMs, { resumable: plan.resumable });
  const owner = world.replica({ heartbeatMs: 15, leaseMs: 60, notify: plan.notify });
  const survivor = world.replica({ notify: plan.notify, pollMs: 10 });
  let calls = 0;
  owner.faults.slow = true;
  const loses = (what: string) => (method: keyof StoreMethods) =>
    STORE_METHODS[method] === 'write' && plan.lost[calls++ % (plan.lost.length + 1)] === what;
  owner.faults.losesAnswer = loses('answer');
  owner.faults.failsBefore = loses('call');
  survivor.runner({ [name]: agent });
  // Full with its first task, so that the others are claimed, released and waited for.
  const runner = owner.runner({ [name]: agent }, { maxRuns: 1 });
  const others = [1, 2].map((number) => `${task}-${number}`);
  for (const each of [task, ...others]) await submitted(runner, turn(name, each));

  const resumed = readInPieces(world.replica({ notify: false, pollMs: 10 }).log, task, plan.cuts);
  const faults = plan.faults.toSorted((a, b) => b.at - a.at);
  const seen: Entry[] = [];
  for await (const entry of survivor.log.read(task, 0)) {
    seen.push(entry);
    while ((faults.at(-1)?.at ?? Infinity) <= entry.seq) {
      const what = faults.pop()?.what;
      if (what === 'kill') owner.kill();
      else if (what === 'stop') setTimeout(owner.faults.pause(), 100);
      // A task that ended a moment before refuses both, as it should.
      else if (what === 'cancel') await survivor.log.requestCancel(task).catch(() => {});
      else await survivor.log.submit(turn(name, task)).catch(() => {});
    }
  }

  expect(seen.map((entry) => entry.seq)).toEqual(seen.map((_, index) => index + 1));
  expect(checkLaws(seen)).toEqual([]);
  expect(await collect(survivor.log.read(task, 0))).toEqual(seen);
  expect(await resumed).toEqual(seen);
  const states = folded(seen).map((snapshot) => snapshot.state);
  expect(states.filter(isFinal)).toHaveLength(1);
  const end = await survivor.log.get(task);
  expect(end).toEqual(folded(seen).at(-1));
  const said = manyWords(plan.words);
  if (end?.state === 'completed') expect(end.text).toBe(said);
  else expect(said.startsWith(end?.text ?? '')).toBe(true);
  for (const each of others) {
    const entries = await collect(survivor.log.read(each, 0));
    expect(checkLaws(entries)).toEqual([]);
    expect(entries.at(-1)).toMatchObject({ type: 'run.finished' });
  }
}

/** A client that sends its message again until it is accepted. */
async function submitted(runner: Runner, given: Turn): Promise<void> {
  while (!(await runner.submit(given).then(Boolean, retryable))) continue;
}

const retryable = (error: unknown): boolean => {
  if (!DuolaneError.from(error).retryable) throw error;
  return false;
};

function folded(entries: readonly Entry[]): Snapshot[] {
  let snapshot: Snapshot | undefined;
  return entries.map((entry) => (snapshot = advance(snapshot, entry)));
}

/** A client whose connection is cut again and again, and that comes back with its last id. */
async function readInPieces(log: TaskLog, task: string, cuts: readonly number[]): Promise<Entry[]> {
  const seen: Entry[] = [];
  for (const cut of [...cuts, Infinity])
    seen.push(...(await collect(log.read(task, seen.at(-1)?.seq ?? 0), cut)));
  return seen;
}

function checkSchedules(open: () => Promise<Store>, rounds: number): () => Promise<void> {
  const together = fc.array(schedule, { minLength: 25, maxLength: 25 });
  return () =>
    fc.assert(
      fc.asyncProperty(together, async (plans) => {
        await using world = new World(await open());
        await Promise.all(plans.map((plan) => live(world, plan)));
      }),
      { numRuns: rounds, endOnFailure: true, timeout: 60_000 },
    );
}

const rows = ['S132', 'S190', 'S197'] as const;
verifies(
  rows,
  '800 random fault schedules in memory: nothing lost, doubled or reordered, one final',
  checkSchedules(async () => memoryDatabase(), 32),
  180_000,
);
verifies(
  rows,
  '200 random fault schedules in SQLite: nothing lost, doubled or reordered, one final',
  checkSchedules(temporarySqlite, 8),
  180_000,
);

/** What was logged, as `level message`. */
function recorder(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const at = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  return {
    lines,
    logger: { debug() {}, info: at('info'), warn: at('warn'), error: at('error') },
  };
}

/** The same log; its claims come once `open` is settled. */
const slowClaims = (log: TaskLog, open: Promise<void>): TaskLog =>
  new Proxy(log, {
    get(target, name): unknown {
      if (name === 'claims')
        return async function* (...args: Parameters<TaskLog['claims']>) {
          await open;
          yield* target.claims(...args);
        };
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });

test('a claim that cannot be released does not end the claims of a runner', async () => {
  await using world = new World(memoryDatabase());
  const { log, faults } = world.replica({ heartbeatMs: 20, leaseMs: 80 });
  await log.submit(turn('a', 'elsewhere'));
  let goOn = (): void => {};
  let finish = (): void => {};
  const open = new Promise<void>((resolve) => (goOn = resolve));
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const agent = async function* (given: Turn): AsyncGenerator<never> {
    if (given.task === 'here') await finished;
    yield* [];
  };
  const { logger, lines } = recorder();
  const options = { log: slowClaims(log, open), agents: { a: agent }, maxRuns: 1, logger };
  await using runner = createRunner(options);
  await runner.submit(turn('a', 'here'));
  const failed = new Promise<void>((resolve) => {
    faults.failsBefore = (method) => {
      if (method !== 'release') return false;
      faults.failsBefore = () => false;
      resolve();
      return true;
    };
  });
  goOn();
  await failed;
  finish();
  for (const task of ['here', 'elsewhere'])
    expect(shape(await collect(log.read(task, 0))).at(-1)).toBe('run.finished:completed');
  expect(lines).toContain('warn a claim could not be released');
});

test('a store that refuses claims is reported once, and when it recovers', async () => {
  await using world = new World(memoryDatabase());
  const { logger, lines } = recorder();
  const replica = world.replica({ pollMs: 5, logger });
  const { log, faults } = replica;
  let refuses = true;
  faults.failsBefore = (method) => method === 'claim' && refuses;
  let idle = 0;
  await log.submit(turn('a', 't'));
  const stop = new AbortController();
  const onIdle = (): void => void (idle += 1);
  const claims = log.claims('w', { agents: ['a'], signal: stop.signal, onIdle });
  const claim = collect(claims, 1);
  while (lines.length === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(await log.health()).toMatchObject({ ok: false, failure: { code: 'network' } });
  refuses = false;
  expect(await claim).toMatchObject([{ task: 't' }]);
  expect(idle).toBe(0);
  expect(lines).toEqual([
    'error the task store does not accept claims',
    'info the task store accepts claims again',
  ]);
  expect(await log.health()).toEqual({ ok: true });
});

test('a check of the health ends with the log, also if the store never replies', async () => {
  await using world = new World(memoryDatabase());
  const { log, faults } = world.replica();
  const resume = faults.pause();
  const health = log.health({ timeoutMs: 86_400_000 });
  const closed = log[Symbol.asyncDispose]();
  expect(await health).toMatchObject({ ok: false, failure: { code: 'closed' } });
  resume();
  await closed;
  expect(await log.health()).toMatchObject({ ok: false, failure: { code: 'closed' } });
});

test('health says since when writes fail, and probes until they do not', async () => {
  await using world = new World(memoryDatabase());
  const { logger, lines } = recorder();
  const { log, faults } = world.replica({ logger });
  expect(await log.health()).toEqual({ ok: true });
  faults.failsBefore = () => new DuolaneError('server', 'disk full');
  const before = Date.now();
  await expect(log.submit(turn('a', 't'))).rejects.toMatchObject({ code: 'server' });
  const health = await log.health();
  expect(health).toMatchObject({ ok: false, failure: { message: 'disk full' } });
  expect(health.failingSince).toBeGreaterThanOrEqual(before);
  faults.failsBefore = () => false;
  expect(await log.health()).toEqual({ ok: true });
  const resume = faults.pause();
  faults.failsBefore = (method) => method === 'submit';
  await Promise.resolve();
  const late = log.submit(turn('a', 't')).catch(() => {});
  resume();
  await late;
  faults.failsBefore = () => false;
  const hanging = faults.pause();
  expect(await log.health({ timeoutMs: 5 })).toMatchObject({
    ok: false,
    failure: { code: 'timeout' },
  });
  hanging();
  expect(lines.filter((line) => line.startsWith('error'))).toHaveLength(2);
});

test('a takeover that the store does not take is tried again', async () => {
  await using world = new World(memoryDatabase());
  const owner = world.replica();
  const claim = await claimed(owner.log, 't');
  await owner.log.append(claim, 1, [started]);
  const other = world.replica({ cancelTimeoutMs: 5 });
  await other.log.requestCancel('t');
  let failures = 2;
  other.faults.failsBefore = (method) => method === 'cancel' && failures-- > 0;
  const entries = await collect(other.log.read('t', 0));
  expect(shape(entries).at(-1)).toBe('run.finished:canceled');
  expect(failures).toBeLessThan(0);
});

test('a listener of commits that throws does not make a commit fail', async () => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  for (const store of [memoryDatabase(), await temporarySqlite()]) {
    await using world = new World(store);
    store.onCommit(() => {
      throw new Error('broken observer');
    });
    const { log } = world.replica();
    expect((await log.submit(turn('a', 't'))).entry).toMatchObject({ seq: 1 });
    expect(await until(log, 't', ({ seq }) => seq === 1)).toMatchObject({ state: 'submitted' });
  }
  expect((await warned).message).toContain('broken observer');
});

test('a run goes on when the log cannot be read behind a lost answer', async () => {
  await using world = new World(memoryDatabase());
  // As with PostgreSQL, where commits of others are looked for.
  const { faults, runner } = pollingReplica(world);
  let lost = 0;
  let unread = 0;
  faults.losesAnswer = (method) => method === 'append' && lost++ === 1;
  faults.failsBefore = (method) => method === 'read' && lost === 2 && unread++ < 3;
  await runner.submit(turn('a', 't'));
  const done = await until(world.replica().log, 't', ({ state }) => isFinal(state));
  expect([lost > 1, unread > 1]).toEqual([true, true]);
  expect(done).toMatchObject({ state: 'completed', text: 'one two three ' });
});

function pollingReplica(world: World): {
  readonly faults: ReturnType<World['replica']>['faults'];
  readonly runner: Runner;
} {
  const replica = world.replica({ notify: false });
  const runner = replica.runner({
    async *a() {
      for (const word of ['one ', 'two ', 'three ']) {
        yield { type: 'text.delta', id: 'b', delta: word };
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
  });
  return { faults: replica.faults, runner };
}

test('a runner is drained though the store of its run takes no writes, and the run is not lost', async () => {
  await using world = new World(memoryDatabase());
  const { log, faults } = world.replica({ heartbeatMs: 20, leaseMs: 60_000 });
  let isDown = false;
  faults.failsBefore = (method) => isDown && STORE_METHODS[method] === 'write';
  const { logger, lines } = recorder();
  const agents = {
    async *a() {
      yield { type: 'text.delta', id: 'b', delta: 'one ' } as const;
      await until(log, 't', ({ text }) => text !== '');
      isDown = true;
      yield { type: 'text.delta', id: 'b', delta: 'two ' } as const;
    },
  };
  const runner = createRunner({ log, agents, graceMs: 20, logger });
  await runner.submit(turn('a', 't'));
  await expect.poll(() => isDown).toBe(true);
  await runner[Symbol.asyncDispose]();
  expect(lines).toContain('error gave up a task');
  isDown = false;
  expect(await log.get('t')).toMatchObject({ state: 'working', text: 'one ' });
});

test('a store that takes a few bytes, and no entries, is not healthy', async () => {
  await using world = new World(memoryDatabase());
  const { log, faults } = world.replica({ heartbeatMs: 10 });
  const claim = await claimed(log, 't');
  // As SQLite on a full disk: what is small still finds room in its log.
  faults.failsBefore = (method, args) =>
    (method === 'append' || (method === 'probe' && args[0] === true)) &&
    new DuolaneError('server', 'disk full');
  await expect(log.append(claim, 1, [started])).rejects.toMatchObject({ code: 'server' });
  const beats = faults.calls['beat'] ?? 0;
  await expect.poll(() => faults.calls['beat']).toBeGreaterThan(beats + 1);
  expect(await log.health()).toMatchObject({ ok: false, failure: { message: 'disk full' } });
  expect(await log.health()).toMatchObject({ ok: false });
  faults.failsBefore = () => false;
  expect(await log.health()).toEqual({ ok: true });
});
