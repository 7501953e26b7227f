import { expect, test } from 'vitest';
import { answerEach } from '../../../test/adapters/answer-each.ts';
import type { Agent } from '../../event/types.ts';
import { durableCall } from './durable-call.ts';

test.each([
  ['a small result', 10],
  ['a result that is too large for an entry', 2_000_000],
])('%s is there when the agent is called again', async (_name, chars) => {
  let calls = 0;
  const sizes: number[] = [];
  const agent: Agent = async function* (_turn, ctx) {
    const { value } = yield* durableCall(ctx, 'large', async function* () {
      yield { type: 'text.delta', id: 't', delta: `call ${++calls}` };
      return 'x'.repeat(chars);
    });
    sizes.push(value.length);
    await ctx.ask({ id: 'sure', kind: 'approval', message: 'Sure?' });
  };
  expect(await answerEach(agent, ['accept'])).toEqual(['Sure?']);
  expect(calls).toBe(1);
  expect(sizes).toEqual([chars, chars]);
});
