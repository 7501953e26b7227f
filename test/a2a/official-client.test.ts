import { afterAll, beforeAll, expect } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { serve, type Served } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory.ts';
import { sleep } from '../../src/stream/index.ts';
import { peer } from '../peers.ts';
import { suite, verifies } from '../verifies.ts';

const sdk = await peer('a2a-sdk');

const words: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const count = Number(part && 'text' in part ? part.text : 3) || 3;
  yield { type: 'status', message: 'Analysing your request...' };
  for (let n = 0; n < count; n++) {
    await sleep(2, ctx.signal);
    yield { type: 'text.delta', id: 't', delta: `w${n} ` };
  }
};

interface Client {
  sendMessageStream(params: unknown): AsyncIterable<unknown>;
}

suite('a2a-sdk', sdk.reason, () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(words, { log: memoryLog() });
  });
  afterAll(() => served[Symbol.asyncDispose]());

  verifies(
    ['S122', 'S124', 'S125', 'S126', 'S127', 'S132'],
    'the official 1.0 client reads a whole stream: task, working, artifact, completed',
    async () => {
      const { ClientFactory } = (await sdk.import('@a2a-js/sdk/client')) as {
        ClientFactory: new () => { createFromUrl(url: string): Promise<Client> };
      };
      const client = await new ClientFactory().createFromUrl(served.url);
      const events: { payload?: { $case?: string; value?: { status?: { state?: number } } } }[] =
        [];
      for await (const event of client.sendMessageStream({
        message: {
          messageId: 'm1',
          role: 1,
          parts: [{ content: { $case: 'text', value: '5' } }],
        },
      })) {
        events.push(event as (typeof events)[number]);
      }
      expect(events.length).toBeGreaterThan(3);
    },
  );
});
