import { expect, test } from 'vitest';
import { serve } from '../../src/serve/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { memoryDatabase, openLog } from '../../src/task/index.ts';
import { httpServer } from './support.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const agent = async function* (): AsyncGenerator<never> {};

test('a serve() that rejects tells no receiver of the log that it was given', async () => {
  const got: string[] = [];
  await using hook = await httpServer((_request, response, body) => {
    got.push(body);
    response.end();
  });
  const log = openLog(memoryDatabase());
  const turn = { agent: 'one', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] };
  await log.submit(turn);
  const config = { id: 'mine', taskId: 't', url: `${hook.url}/hook` };
  const data = { agent: 'one', version: '1.0', config, rev: 'r' };
  await log.bookmark({ task: 't', name: 'push/mine', after: 0, data });
  // A front: the task waits, and ends when it is canceled.
  const options = { page: false, log, logger: quiet, maxRuns: 0 } as const;
  const a2a = { push: { allowPrivateAddresses: true, retryMs: 1 } };
  const cardKey = { key: 'no key', kid: 'k' } as never;
  for (const modules of [
    // The first agent itself, and one behind it.
    { one: { default: agent, options: { a2a: { ...a2a, cardKey } } } },
    {
      one: { default: agent, options: { a2a } },
      two: { default: agent, options: { a2a: { ...a2a, cardKey } } },
    },
  ])
    await expect(serve(modules, options)).rejects.toThrow();
  await log.requestCancel('t');
  await sleep(200);
  const ends = (): number => got.filter((body) => body.includes('CANCELED')).length;
  expect(ends()).toBe(0);
  // The one that works tells the end once.
  await using _served = await serve({ one: { default: agent, options: { a2a } } }, options);
  await expect.poll(ends).toBe(1);
});
