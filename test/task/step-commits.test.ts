import { expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { memoryDatabase } from '../../src/task/memory/memory-log.ts';
import { collect, turn, World } from './replica-world.ts';

const STEPS = 20;

const chain: Agent = async function* (_turn, ctx) {
  let sum = 0;
  for (let index = 1; index <= STEPS; index++) sum += await ctx.step(`add ${index}`, () => index);
  yield { type: 'text.delta', id: 't', delta: String(sum) };
};

test('a durable step costs at most two commits', async () => {
  const database = memoryDatabase();
  let commits = 0;
  database.onCommit(() => void (commits += 1));
  await using world = new World(database);
  const replica = world.replica();
  await replica.runner({ chain }).submit(turn('chain', 't'));
  const entries = await collect(replica.log.read('t', 0));
  expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: '210' });
  // Besides the steps: the turn, its claim, the start, and the end of the run.
  expect(commits).toBeGreaterThanOrEqual(STEPS);
  expect(commits).toBeLessThanOrEqual(2 * STEPS + 4);
});
