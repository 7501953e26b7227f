import { setImmediate as macrotask } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { turnOf } from '../../test/arbitraries.ts';
import { createRunner, memoryLog } from './index.ts';
import type { Agent, Turn } from '../event/types.ts';
import type { TaskLog } from './types.ts';

test('a runner is disposed of when the last task that was being submitted is handed back', async () => {
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
  // Another runner has it at once.
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

/** The log, whose claims come once `open` is settled: as if the store were slow to say who waits. */
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

test('who comes when a place is free again waits behind those who wait already', async () => {
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
