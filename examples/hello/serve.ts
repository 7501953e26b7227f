import type { Agent } from 'duolane/event';
import { serve } from 'duolane/serve';
import { memoryLog } from 'duolane/task';

const greeter: Agent = async function* (turn, ctx) {
  yield { type: 'status', message: 'Thinking of you' };
  const { content } = await ctx.ask({
    id: `${turn.messageId}/name`,
    kind: 'question',
    message: 'Who are you?',
  });
  yield { type: 'text.delta', id: 'hello', delta: `Hello ${String(content)}.` };
};

await using served = await serve(greeter, { log: memoryLog() });
console.log(`the page, and the address for A2A clients: ${served.url}`);
await new Promise((resolve) => process.once('SIGINT', resolve));
