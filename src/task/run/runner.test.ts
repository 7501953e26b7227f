import { setImmediate as macrotask } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { growth } from '../../../test/support/busy.ts';
import { DuolaneError } from '../../errors.ts';
import { createRunner, memoryLog } from '../index.ts';
import type { Agent, Turn } from '../../event/types.ts';
import type { RunObserver, TaskLog } from '../types.ts';

test('disposing a runner waits until the last submitted task is released', async () => {
  await using log = memoryLog();
  const order: string[] = [];
  let goOn = (): void => {};
  const slow = new Promise<void>((resolve) => (goOn = resolve));
  const slowly: TaskLog = Object.assign(Object.create(log) as TaskLog, {
    claims: log.claims.bind(log),
    async submit(...args: Parameters<TaskLog['submit']>) {
      const submitted = await log.submit(...args);
      await slow;
      return submitted;
    },
    async release(claim: Parameters<TaskLog['release']>[0]) {
      await log.release(claim);
      order.push('handed back');
    },
  });
  const agent = async function* (): AsyncGenerator<never> {
    order.push('run');
    yield* [];
  };
  const runner = createRunner({ log: slowly, agents: { a: agent } });
  const submitting = runner.submit(turnOf('m', { agent: 'a', task: 't' }));
  const disposing = runner[Symbol.asyncDispose]().then(() => order.push('disposed'));
  await macrotask();
  goOn();
  await Promise.all([submitting, disposing]);
  await macrotask();
  expect(order).toEqual(['handed back', 'disposed']);
  // Another runner can claim it immediately.
  for await (const claim of log.claims('other', { agents: ['a'] })) {
    expect(claim.task).toBe('t');
    break;
  }
});

const turn = (task: string): Turn => ({
  agent: 'a',
  task,
  context: 'c',
  messageId: `${task}/message`,
  parts: [{ text: task }],
});

/**
 * The log, whose claims come once `open` is settled, as with a store that is slow to claim.
 */
const slowClaims = (log: TaskLog, open: Promise<void>): TaskLog =>
  new Proxy(log, {
    get(target, name): unknown {
      if (name === 'claims')
        return async function* (...args: Parameters<TaskLog['claims']>) {
          await open;
          yield* target.claims(...args);
        };
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });

test('a new task waits behind those that wait already, even if a slot is free', async () => {
  await using log = memoryLog();
  const started: string[] = [];
  const agent: Agent = async function* ({ task }) {
    started.push(task);
    if (task === 'first') await gone;
    yield { type: 'text.delta', id: 't', delta: task };
  };
  let go = (): void => {};
  const gone = new Promise<void>((resolve) => (go = resolve));
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  await using runner = createRunner({
    log: slowClaims(log, opened),
    agents: { a: agent },
    maxRuns: 1,
  });
  await runner.submit(turn('first'));
  await runner.submit(turn('one'));
  await expect.poll(() => started).toEqual(['first']);
  go();
  for await (const _ of log.read('first', 0));
  for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
  await runner.submit(turn('late'));
  open();
  for await (const _ of log.read('late', 0));
  for await (const _ of log.read('one', 0));
  expect(started).toEqual(['first', 'one', 'late']);
});

const talker = (chunks: number): Agent =>
  async function* () {
    for (let index = 0; index < chunks; index++)
      yield { type: 'text.delta', id: 't', delta: 'x'.repeat(100) };
  };

test('a run with too much text fails and names the limit', async () => {
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { a: talker(50) }, maxRunChars: 1000 });
  await runner.submit(turn('t'));
  for await (const _ of log.read('t', 0));
  const { state, error, text } = (await log.get('t')) ?? {};
  expect({ state, error }).toMatchObject({
    state: 'failed',
    error: { code: 'too_large', message: expect.stringContaining('maxRunChars (1000)') as string },
  });
  expect(text?.length).toBeLessThan(2000);
});

test('a run with many artifacts takes time linear in their number', async () => {
  const run = async (count: number): Promise<void> => {
    const agent: Agent = async function* () {
      for (let index = 0; index < count; index++)
        yield { type: 'artifact', artifactId: `a${index}`, parts: [] };
    };
    await using log = memoryLog();
    await using runner = createRunner({ log, agents: { a: agent } });
    await runner.submit(turn('t'));
    for await (const _ of log.read('t', 0));
    expect((await log.get('t'))?.artifacts).toHaveLength(count);
  };
  expect(await growth(2500, run)).toBeLessThan(10);
});

test('when all runs have too much text, one fails as overloaded, and new ones wait for room', async () => {
  await using log = memoryLog();
  let goOn = (): void => {};
  const open = new Promise<void>((resolve) => (goOn = resolve));
  const holder: Agent = async function* (given, ctx) {
    yield* talker(6)(given, ctx);
    await open;
  };
  const agents = { a: holder, b: talker(6) };
  await using runner = createRunner({ log, agents, maxTotalChars: 1000 });
  await runner.submit(turn('t1'));
  for await (const entry of log.read('t1', 0)) if (entry.type === 'text.delta') break;
  await runner.submit({ ...turn('t2'), agent: 'b' });
  await macrotask();
  expect(await log.get('t2')).toMatchObject({ state: 'submitted', running: false });
  goOn();
  for await (const _ of log.read('t2', 0));
  expect(await log.get('t2')).toMatchObject({ state: 'completed' });
  await using small = createRunner({ log, agents: { c: talker(20) }, maxTotalChars: 500 });
  await small.submit({ ...turn('t3'), agent: 'c' });
  for await (const _ of log.read('t3', 0));
  expect(await log.get('t3')).toMatchObject({ state: 'failed', error: { code: 'overloaded' } });
});

test('one owner leaves room for others, and its further tasks run when it has room', async () => {
  await using log = memoryLog();
  let goOn = (): void => {};
  const open = new Promise<void>((resolve) => (goOn = resolve));
  const started: string[] = [];
  const agent: Agent = async function* (given) {
    started.push(given.task);
    if (given.owner === 'ann') await open;
    yield* [];
  };
  await using runner = createRunner({ log, agents: { a: agent }, maxRuns: 4 });
  for (let index = 0; index < 6; index++)
    await runner.submit({ ...turn(`ann${index}`), owner: 'ann' });
  await runner.submit({ ...turn('bob'), owner: 'bob' });
  for await (const _ of log.read('bob', 0));
  expect(started.toSorted()).toEqual(['ann0', 'ann1', 'bob']);
  goOn();
  for (let index = 0; index < 6; index++) for await (const _ of log.read(`ann${index}`, 0));
  expect(started).toHaveLength(7);
});

test.each([
  ['its owner', { owner: 'ann' }],
  ['a caller without a name, as at a signed event address', {}],
])('answers of %s start no more runs than one owner may have', async (_, caller) => {
  // Polling would find the task of bob too late, so that a commit has to wake the runner.
  await using log = memoryLog({ pollMs: 600_000 });
  let goOn = (): void => {};
  const open = new Promise<void>((resolve) => (goOn = resolve));
  let bothRun = (): void => {};
  const twoRuns = new Promise<void>((resolve) => (bothRun = resolve));
  let running = 0;
  let most = 0;
  const agent: Agent = async function* (given, ctx) {
    if (given.owner === 'bob') return;
    await ctx.ask({ id: 'q', kind: 'question' });
    most = Math.max(most, ++running);
    if (most === 2) bothRun();
    if (most > 2) goOn();
    await open;
    running--;
    yield* [];
  };
  await using runner = createRunner({ log, agents: { a: agent }, maxRuns: 4 });
  const tasks = Array.from({ length: 8 }, (_each, index) => `ann${index}`);
  for (const task of tasks) {
    await runner.submit({ ...turn(task), owner: 'ann' });
    for await (const entry of log.read(task, 0)) if (entry.type === 'input.required') break;
  }
  const answers = [{ id: 'q', action: 'accept' }] as const;
  const answer = (task: string): Promise<unknown> =>
    runner.submit({ ...turn(task), ...caller, messageId: `${task}/answer`, parts: [], answers });
  await Promise.all(tasks.map(answer));
  await twoRuns;
  await runner.submit({ ...turn('bob'), owner: 'bob' });
  for await (const _entry of log.read('bob', 0));
  goOn();
  for (const task of tasks) for await (const _entry of log.read(task, 0));
  expect(most).toBe(2);
});

test('a run that waits for a person longer than suspendAfterMs is suspended', async () => {
  await using log = memoryLog();
  let calls = 0;
  const letGo: unknown[] = [];
  const agent: Agent = async function* (_turn, ctx) {
    calls++;
    try {
      await ctx.ask({ id: 'q', kind: 'question' });
      yield* [];
    } finally {
      letGo.push(ctx.signal.aborted && (ctx.signal.reason as { readonly code: string }).code);
    }
  };
  await using runner = createRunner({ log, agents: { a: agent }, suspendAfterMs: 1 });
  await runner.submit(turn('t'));
  for await (const entry of log.read('t', 0)) if (entry.type === 'run.finished') break;
  expect(letGo).toEqual(['suspended']);
  const answers = [{ id: 'q', action: 'accept' }] as const;
  await runner.submit({ ...turn('t'), messageId: 'answer', parts: [], answers });
  for await (const _ of log.read('t', 0));
  expect(calls).toBe(2);
});

test('blobs of tasks that memory evicts are deleted', async () => {
  const removed: string[] = [];
  const blobs = { removeTask: async (task: string) => void removed.push(task) };
  await using log = memoryLog({ keepEnded: 2, blobs });
  await using runner = createRunner({ log, agents: { a: talker(1) } });
  for (const task of ['t1', 't2', 't3', 't4']) {
    await runner.submit(turn(task));
    for await (const _ of log.read(task, 0));
  }
  expect(removed).toEqual(['t1', 't2']);
});

test('when runs have too much text together, only as many fail as necessary', async () => {
  await using log = memoryLog();
  const names = Array.from({ length: 10 }, (_, index) => `t${index}`);
  let waiting = 0;
  let goOn = (): void => {};
  const all = new Promise<void>((resolve) => (goOn = resolve));
  const agent: Agent = async function* (given, ctx) {
    if (++waiting === names.length) goOn();
    await all;
    yield* talker(10)(given, ctx);
  };
  await using runner = createRunner({ log, agents: { a: agent }, maxTotalChars: 8000 });
  for (const name of names) await runner.submit(turn(name));
  const states: (string | undefined)[] = [];
  for (const name of names) {
    for await (const _ of log.read(name, 0));
    states.push((await log.get(name))?.state);
  }
  expect(states.filter((state) => state === 'completed').length).toBeGreaterThanOrEqual(5);
});

test('a task that fails before its agent is called is tried again after a pause that grows', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  await using log = memoryLog();
  let failures = 0;
  const error = (): void => void failures++;
  const logger = { debug() {}, info() {}, warn() {}, error };
  const run = (): never => {
    throw new Error('a broken observer');
  };
  const agents = { a: async function* (): AsyncGenerator<never> {} };
  await using runner = createRunner({ log, agents, logger, observer: { run } });
  await runner.submit(turnOf('m', { agent: 'a', task: 't' }));
  const settled = async (): Promise<number> => {
    for (let turns = 0; turns < 50; turns++) await macrotask();
    return failures;
  };
  expect(await settled()).toBe(1);
  await vi.advanceTimersByTimeAsync(100);
  expect(await settled()).toBe(2);
  await vi.advanceTimersByTimeAsync(199);
  expect(await settled()).toBe(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(await settled()).toBe(3);
});

test('claims of a failing log are retried, and the failure is logged', async () => {
  await using log = memoryLog();
  const errors: unknown[][] = [];
  let asked = 0;
  const claims: TaskLog['claims'] = (...args) => {
    if (++asked === 1) throw new DuolaneError('server', 'permission denied');
    return log.claims(...args);
  };
  const failing = new Proxy(log, {
    get(target, name) {
      if (name === 'claims') return claims;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
  await log.submit(turnOf('m', { agent: 'a', task: 't' }));
  const logger = {
    debug() {},
    info() {},
    warn() {},
    error: (...args: unknown[]) => errors.push(args),
  };
  const agent: Agent = async function* () {};
  await using _ = createRunner({ log: failing, agents: { a: agent }, logger });
  for await (const _entry of log.read('t', 0));
  expect((await log.get('t'))?.state).toBe('completed');
  expect(errors).toMatchObject([['tasks could not be claimed', { code: 'server' }]]);
});

test('an agent that is not a function is refused by its name', async () => {
  await using log = memoryLog();
  const agents = { a: {} } as unknown as Record<string, Agent>;
  expect(() => createRunner({ log, agents })).toThrow(/invalid agent "a": expected a function/);
});

test('the answer about a call does not decide a later question under the same id', async () => {
  await using log = memoryLog();
  const decided: string[] = [];
  /** A framework whose model gives two calls of one answer the same id. */
  const agent: Agent = async function* (_, ctx) {
    yield { type: 'tool.called', callId: 'call_0', name: 'act', args: { what: 'list' } };
    for (const what of ['list', 'delete']) {
      const { id, action } = await ctx.ask({
        id: 'call_0/approval',
        kind: 'approval',
        callId: 'call_0',
        data: { what },
      });
      decided.push(`${id} ${what}: ${action}`);
      yield { type: 'tool.completed', callId: 'call_0', name: 'act', output: what };
    }
  };
  await using runner = createRunner({ log, agents: { a: agent } });
  await runner.submit(turn('t'));
  const answered = new Set<string>();
  for await (const entry of log.read('t', 0)) {
    if (entry.type === 'run.finished') break;
    if (entry.type !== 'input.required' || answered.has(entry.request.id)) continue;
    const { id, data } = entry.request;
    answered.add(id);
    const action = (data as { what: string }).what === 'list' ? 'accept' : 'decline';
    await runner.submit({
      ...turn('t'),
      messageId: `${id}/answer`,
      parts: [],
      answers: [{ id, action }],
    });
  }
  // The asker gets its answers under the id that it uses.
  expect(decided).toEqual(['call_0/approval list: accept', 'call_0/approval delete: decline']);
});

test('an observer that throws at a submit does not keep a slot', async () => {
  await using log = memoryLog();
  const agents = { a: async function* (): AsyncGenerator<never> {} };
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const submitted = (): never => {
    throw new Error('a broken observer');
  };
  const observer: RunObserver = { submitted, run: () => ({ onEvent() {}, onEnd() {} }) };
  const runner = createRunner({ log, agents, logger, observer, maxRuns: 1 });
  const turn = turnOf('m', { agent: 'a', task: 't' });
  await expect(runner.submit(turn)).rejects.toThrow('a broken observer');
  // Would wait for ever for a place that is never left.
  await runner[Symbol.asyncDispose]();
});

test('a drain that starts while an ended task is released leaves no timer behind', async () => {
  const graceMs = 54_321;
  const started: unknown[] = [];
  const { setTimeout: start } = globalThis;
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((...args: Parameters<typeof start>) => {
    const timer = start(...args);
    if ((args[1] ?? 0) >= graceMs) started.push(timer);
    return timer;
  }) as typeof start);
  const clears = vi.spyOn(globalThis, 'clearTimeout');
  onTestFinished(() => void vi.restoreAllMocks());
  await using log = memoryLog();
  const { promise: releasing, resolve: onRelease } = promiseWithResolver();
  const { promise: released, resolve: release } = promiseWithResolver();
  const slowRelease: TaskLog = new Proxy(log, {
    get(target, name): unknown {
      const member: unknown = Reflect.get(target, name);
      if (name !== 'release') return typeof member === 'function' ? member.bind(target) : member;
      return async (...args: Parameters<TaskLog['release']>) => {
        onRelease();
        await released;
        await target.release(...args);
      };
    },
  });
  const agent = async function* (): AsyncGenerator<never> {
    yield* [];
  };
  const runner = createRunner({ log: slowRelease, agents: { a: agent }, graceMs });
  await runner.submit(turn('t'));
  await releasing;
  const disposing = runner[Symbol.asyncDispose]();
  release();
  await disposing;
  expect(started).not.toHaveLength(0);
  for (const timer of started) {
    expect(clears).toHaveBeenCalledWith(timer);
    clearTimeout(timer as NodeJS.Timeout);
  }
});

function promiseWithResolver(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
