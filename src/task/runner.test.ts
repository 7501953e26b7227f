import { setImmediate as macrotask } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { turnOf } from '../../test/arbitraries.ts';
import { createRunner, memoryLog } from './index.ts';
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
