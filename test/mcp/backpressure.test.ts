import { expect, test } from 'vitest';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import type { ToolEvent, ToolSource } from '../../src/mcp/types.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';

const EVENTS = 1_000;

/** A tool that reports faster than anybody reads, and how much of it was taken. */
function flood(): { source: ToolSource; taken: () => number } {
  let taken = 0;
  const source: ToolSource = {
    info: { name: 'flood', version: '1' },
    async *listTools() {},
    async *callTool({ name }) {
      if (name === 'flood')
        for (taken = 0; taken < EVENTS; taken += 1)
          yield { type: 'progress', progress: taken, message: 'x'.repeat(16 * 1024) };
      yield { type: 'result', result: { content: [] } };
    },
  };
  return { source, taken: () => taken };
}

test.each(['session', 'stateless'] as const)(
  'a slow reader over HTTP slows its server, loses nothing and delays no other call (%s)',
  async (protocol) => {
    const { source, taken } = flood();
    await using offered = await offerHttp(source);
    await using dialled = await dialHttp({ url: offered.url, protocol });
    const events = dialled.callTool(call('flood'))[Symbol.asyncIterator]();
    const first = (await events.next()).value as ToolEvent;
    let seen = -1;
    await expect
      .poll(
        () => {
          const before = seen;
          seen = taken();
          return before === seen;
        },
        { interval: 100, timeout: 120_000 },
      )
      .toBe(true);
    expect(seen).toBeLessThan(EVENTS);
    expect(await toArray(dialled.callTool(call('other')))).toHaveLength(1);
    const rest = await toArray({ [Symbol.asyncIterator]: () => events });
    const reported = [first, ...rest].filter((event) => event.type === 'progress');
    expect(reported.map(({ progress }) => progress)).toEqual([...Array(EVENTS).keys()]);
    expect(rest.at(-1)).toMatchObject({ type: 'result' });
  },
);

test('breaking out of a call whose stream waits for its reader cancels it', async () => {
  const { source } = flood();
  await using offered = await offerHttp(source);
  await using dialled = await dialHttp({ url: offered.url });
  for await (const event of dialled.callTool(call('flood'))) if (event.type === 'progress') break;
  expect(await toArray(dialled.callTool(call('other')))).toHaveLength(1);
});
