import { expect, test } from 'vitest';
import { contextFor, newTask } from '../../test/contracts/agent.contract.ts';
import { FakeCli } from '../../test/support/fake-cli.ts';
import type { Ask } from '../ask.ts';
import { normalizeAgent } from '../event/index.ts';
import type { AgentEvent } from '../event/types.ts';
import { cli } from './cli-agent.ts';

test.each([
  [
    'throws synchronously',
    () => {
      throw new Error('the page is down');
    },
    'the page is down',
  ],
  ['gives no promise', () => undefined, 'could not be decided'],
])(
  'a permission that an ask which %s was to decide is denied, and the run goes on',
  async (_, ask, why) => {
    const peer = new FakeCli();
    const agent = cli({ transport: () => peer.transport, ask: ask as unknown as Ask });
    const { ctx } = contextFor(newTask());
    const events: AgentEvent[] = [];
    const run = (async () => {
      for await (const event of normalizeAgent(agent)({ ...newTask().turns[0]! }, ctx))
        events.push(event);
    })();
    await peer.initialize();
    await peer.until('user');
    const id = peer.request({
      subtype: 'can_use_tool',
      tool_name: 'Bash',
      tool_use_id: 'toolu_1',
      input: {},
    });
    const { response } = await peer.answerTo(id);
    expect(response).toMatchObject({ behavior: 'deny' });
    expect(JSON.stringify(response)).toContain(why);
    peer.say(peer.result({ result: 'done' }));
    await run;
    expect(events.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
  },
);
