import { expect, test, vi } from 'vitest';
import { contextFor } from '../../../test/contracts/agent.contract.ts';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { DuolaneError } from '../../errors.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { StepError } from '../step-error.ts';
import type { StepRecord } from '../step-types.ts';
import { checkLaws } from '../check-laws.ts';
import type { Agent, AgentContext, AgentEvent } from '../types.ts';
import { normalizeAgent } from './normalize-agent.ts';
import { type StepHost, StepRunner, stepKey } from './step-runner.ts';

/** A runner whose records are durable when `commit` says so; without it, immediately. */
function runnerOf(more: Partial<StepHost> = {}): {
  readonly steps: StepRunner;
  readonly records: StepRecord[];
  readonly stop: Cancellation;
} {
  const records: StepRecord[] = [];
  const stop = new Cancellation();
  const steps = new StepRunner({
    task: 't',
    turn: 'm',
    stored: new Map(),
    waits: [],
    stop,
    store: async (record) => void records.push(record),
    failureOf: (error) => DuolaneError.from(error).toJSON(),
    onWaiting: () => {},
    onWorking: () => {},
    ...more,
  });
  return { steps, records, stop };
}

const settled = (records: readonly StepRecord[]): StepRecord[] =>
  records.filter(({ status }) => status !== 'started');

test('a result is returned only after it is durable', async () => {
  let commit = (): void => {};
  const order: string[] = [];
  const { steps } = runnerOf({
    store: ({ status }) =>
      status === 'started'
        ? Promise.resolve()
        : new Promise((resolve) => {
            order.push('stored');
            commit = () => {
              order.push('durable');
              resolve();
            };
          }),
  });
  const result = steps.step('a', () => 1).then(() => order.push('returned'));
  await expect.poll(() => order).toEqual(['stored']);
  commit();
  await result;
  expect(order).toEqual(['stored', 'durable', 'returned']);
});

test('the same id at the same time, and later, is the same step', async () => {
  const { steps, records } = runnerOf();
  let runs = 0;
  const run = (): number => ++runs;
  expect(await Promise.all([steps.step('a', run), steps.step('a', run)])).toEqual([1, 1]);
  expect(await steps.step('a', run)).toBe(1);
  expect(settled(records)).toHaveLength(1);
});

test('one id for two different things is refused', async () => {
  const { steps } = runnerOf({
    stored: new Map([['old', { id: 'old', kind: 'sleep', status: 'completed' }]]),
  });
  await steps.step('a', () => 1);
  await expect(steps.step('a', () => 2)).rejects.toMatchObject({ code: 'invalid' });
  await expect(steps.sleep('a', 1)).rejects.toThrow('give each step its own id');
  await expect(steps.step('old', () => 1)).rejects.toThrow('stored as a sleep');
  await expect(steps.step('', () => 1)).rejects.toThrow('1 to 256 characters');
});

test.each([
  ['a Date', () => ({ at: [new Date(0)] }), 'an instance of Date at result.at[0]'],
  ['a Map', () => new Map(), 'an instance of Map at result'],
  ['NaN', () => ({ n: Number.NaN }), 'NaN at result.n'],
  ['a BigInt', () => 1n, 'a value of type bigint at result'],
  ['a function', () => ({ f() {} }), 'a value of type function at result.f'],
  [
    'a cycle',
    () => {
      const self: Record<string, unknown> = {};
      self['self'] = self;
      return self;
    },
    'an object that contains itself at result.self',
  ],
])('%s is not a result, and the failure is stored', async (_name, run, message) => {
  const { steps, records } = runnerOf();
  const failed = steps.step<unknown>('a', run, { retry: { attempts: 3 } });
  await expect(failed).rejects.toThrow(message);
  await expect(failed).rejects.toBeInstanceOf(StepError);
  expect(settled(records)).toMatchObject([{ status: 'failed', error: { code: 'invalid' } }]);
});

test('a result has a size limit, and is what JSON makes of it', async () => {
  const { steps } = runnerOf();
  await expect(steps.step('large', () => 'x'.repeat(1_000_001))).rejects.toMatchObject({
    code: 'too_large',
  });
  const deep = (): unknown => JSON.parse('['.repeat(600) + ']'.repeat(600));
  await expect(steps.step('deep', deep)).rejects.toMatchObject({ code: 'too_large' });
  expect(await steps.step('gaps', () => ({ a: 1, b: undefined }))).toStrictEqual({ a: 1 });
  expect(await steps.step('nothing', () => {})).toBeUndefined();
});

test('an error that says no is not retried, and others wait longer each time', async () => {
  const { steps, records } = runnerOf();
  const retry = { attempts: 5, backoff: { firstMs: 1, factor: 3, maxMs: 5 } };
  const no = (): never => {
    throw new DuolaneError('unauthorized', 'no');
  };
  await expect(steps.step('no', no, { retry })).rejects.toMatchObject({ attempts: 1 });
  let tries = 0;
  const flaky = (): number => {
    if (++tries < 4) throw new Error('later');
    return tries;
  };
  expect(await steps.step('flaky', flaky, { retry })).toBe(4);
  const retried = records.filter(({ status }) => status === 'retrying');
  expect(retried.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
});

test('a failure that is not stored is thrown as it is, and the step may run again', async () => {
  const { steps, records } = runnerOf();
  const failure = new Error('busy');
  let tries = 0;
  const run = (): number => {
    if (++tries === 1) throw failure;
    return tries;
  };
  await expect(steps.step('a', run, { storeFailure: false })).rejects.toBe(failure);
  expect(settled(records)).toEqual([]);
  expect(await steps.step('a', run, { storeFailure: false })).toBe(2);
  expect(settled(records)).toMatchObject([{ status: 'completed', output: 2 }]);
});

test('a run that is stopped is not a failure of its step', async () => {
  const { steps, records, stop } = runnerOf();
  const reason = new DuolaneError('canceled', 'stop');
  const running = steps.step('a', () => new Promise(() => {}));
  stop.abort(reason);
  await expect(running).rejects.toBe(reason);
  expect(settled(records)).toEqual([]);
});

test('a suspended run still stores a result that comes in time', async () => {
  const { steps, records, stop } = runnerOf();
  let finish = (_value: number): void => {};
  const running = steps.step('a', () => new Promise<number>((resolve) => (finish = resolve)));
  stop.abort(new DuolaneError('suspended', 'later'));
  finish(7);
  expect(await running).toBe(7);
  expect(settled(records)).toMatchObject([{ status: 'completed', output: 7 }]);
});

test('a wait that its caller gives up does not suspend the run', async () => {
  const { steps, stop } = runnerOf();
  const abort = new AbortController();
  const waiting = steps.waitFor('paid', { signal: abort.signal });
  await expect.poll(() => steps.isWaiting).toBe(true);
  abort.abort(new DuolaneError('canceled', 'not needed'));
  await expect(waiting).rejects.toMatchObject({ code: 'canceled' });
  expect(steps.isWaiting).toBe(false);
  stop.abort(new DuolaneError('suspended', 'later'));
});

test('a wait that its caller gives up leaves no timer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const { steps } = runnerOf();
    const abort = new AbortController();
    const waiting = steps.waitFor('paid', { timeoutMs: 60_000, signal: abort.signal });
    await new Promise((resolve) => setImmediate(resolve));
    expect(vi.getTimerCount()).toBe(1);
    abort.abort(new DuolaneError('canceled', 'not needed'));
    await expect(waiting).rejects.toMatchObject({ code: 'canceled' });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test('keys are different whatever characters the ids have', () => {
  expect(stepKey('a/b', 'c', 'd')).not.toBe(stepKey('a', 'b/c', 'd'));
  expect(stepKey('a', 'b', '\ud800')).toBe('a/b/%EF%BF%BD');
});

test('steps of a decorated agent are those of its context, or its own without any', async () => {
  const agent: Agent = async function* (_turn, inner) {
    yield { type: 'status', message: await inner.step('a', ({ key }) => key) };
  };
  const { ctx } = contextFor();
  const given: AgentEvent[] = [];
  for await (const event of normalizeAgent(agent)(turnOf('m1'), ctx)) given.push(event);
  expect(given.map(({ type }) => type)).toEqual(['run.started', 'status', 'run.finished']);
  const older: Partial<AgentContext> = { ...ctx };
  delete (older as { step?: unknown }).step;
  const own: AgentEvent[] = [];
  const run = normalizeAgent(agent)(turnOf('m1'), older as AgentContext);
  for await (const event of run) own.push(event);
  expect(own.filter(({ type }) => type === 'step.stored')).toMatchObject([
    { status: 'started' },
    { status: 'completed' },
  ]);
  expect(checkLaws(own)).toEqual([]);
});
