import { expect, test } from 'vitest';
import type { Agent } from '../../event/types.ts';
import { sleep } from '../../stream/abort.ts';
import { memoryLog } from '../memory/memory-log.ts';
import type { TaskLog } from '../types.ts';
import { createRunner } from './runner.ts';

test('what an agent has shown is durable before what it stores', async () => {
  await using log = memoryLog();
  const shown: (string | undefined)[] = [];
  // A store whose writes of events take their time.
  const slow = new Proxy(log, {
    get(target, name) {
      if (name === 'append')
        return async (...args: Parameters<TaskLog['append']>) => {
          await sleep(20);
          return target.append(...args);
        };
      if (name === 'setValues')
        return async (...args: Parameters<TaskLog['setValues']>) => {
          shown.push((await target.get('t'))?.text);
          return target.setValues(...args);
        };
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  const agent: Agent = async function* (_turn, { storage }) {
    yield { type: 'text.delta', id: 't', delta: 'one ' };
    await storage?.set({ at: 1 });
    yield { type: 'text.delta', id: 't', delta: 'two' };
    await storage?.set({ at: 2 });
  };
  await using runner = createRunner({ log: slow, agents: { a: agent } });
  await runner.submit({ agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [] });
  for await (const entry of log.read('t', 0)) if (entry.type === 'run.finished') break;
  expect(shown).toEqual(['one ', 'one two']);
});
