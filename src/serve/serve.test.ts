import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import type { Agent } from '../event/types.ts';
import { memoryLog } from '../task/memory.ts';
import { serve } from './serve.ts';

test('a server that cannot listen leaves no runner behind that would take tasks', async () => {
  const ran: string[] = [];
  const agent = (name: string): Agent =>
    async function* () {
      ran.push(name);
      yield { type: 'text.delta', id: 't', delta: name };
    };
  await using log = memoryLog();
  const busy = createServer().listen(0, '127.0.0.1');
  await once(busy, 'listening');
  const { port } = busy.address() as AddressInfo;
  const first = serve(agent('first'), { log, port, queue: true, page: false });
  await expect(first).rejects.toThrow(`port ${port} on 127.0.0.1 is in use`);
  busy.close();
  await using served = await serve(agent('second'), { log, queue: true });
  for (let n = 0; n < 5; n++)
    await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"text":"go"}',
    });
  await expect.poll(() => ran.length).toBe(5);
  expect(new Set(ran)).toEqual(new Set(['second']));
});
