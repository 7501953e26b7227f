import type { Agent } from 'duolane/event';
import { createRegistry, tool } from 'duolane/mcp';
import { sleep } from 'duolane/stream';
import { simulate } from 'duolane/testing';

const orders = new Set<string>();
const shop: Agent = async function* (turn, context) {
  const { action } = await context.ask({ id: `${turn.messageId}/buy`, kind: 'approval' });
  if (action !== 'accept') return;
  await context.step('order', async ({ key, signal }) => {
    await sleep(300, signal);
    orders.add(key); // the key is the same when the step is repeated
  });
  yield { type: 'text.delta', id: 'done', delta: 'Ordered.' };
};
const agent = await simulate(Object.assign(shop, { resumable: true }), {
  schedules: 50,
  reset: () => orders.clear(),
  laws: { 'one order': () => (orders.size > 1 ? `there are ${orders.size}` : undefined) },
});
console.log(`agent: ${agent.schedules} schedules, ${agent.faults['crash']} crashes`);

const search = tool('search', 'Searches', {}, async (_, { signal }) => {
  await sleep(500, signal);
  return 'a chair';
});
const source = createRegistry({ name: 'shop', tools: [search] });
const tools = await simulate(source, { schedules: 50, calls: [{ name: 'search' }] });
console.log(`tools: ${tools.schedules} schedules, ${tools.faults['abort']} aborts`);
