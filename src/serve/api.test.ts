import { expect, test } from 'vitest';
import type { Agent } from '../event/types.ts';
import { memoryLog } from '../task/index.ts';
import { serve } from './index.ts';

test('a message that is sent again answers with the task that it made, and makes no other', async () => {
  let runs = 0;
  const agent: Agent = async function* () {
    runs++;
    yield { type: 'text.delta', id: 't', delta: 'done' };
  };
  await using served = await serve(agent, { log: memoryLog(), page: false });
  const send = async (): Promise<object> => {
    const response = await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text: 'hi', messageId: 'm1' }),
    });
    expect(response.status).toBe(201);
    return (await response.json()) as object;
  };
  const first = await send();
  expect(await send()).toEqual(first);
  const { task } = first as { readonly task: string };
  const stream = await fetch(`${served.url}/api/tasks/${task}/entries`);
  expect(await stream.text()).toContain('"run.finished"');
  expect(runs).toBe(1);
});
