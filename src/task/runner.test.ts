import { expect, test } from 'vitest';
import type { Agent, Turn } from '../event/types.ts';
import { memoryLog } from './memory.ts';
import { createRunner } from './runner.ts';
import type { TaskLog } from './types.ts';

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
