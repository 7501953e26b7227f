import { connectAgent, type Answer } from 'duolane/client';
import type { Agent } from 'duolane/event';
import { serve } from 'duolane/serve';
import { memoryLog } from 'duolane/task';

const guide: Agent = async function* (turn, ctx) {
  const id = `${turn.messageId}/city`;
  const { content } = await ctx.ask({ id, kind: 'question', message: 'Which city?' });
  yield { type: 'text.delta', id: 'text', delta: `A day in ${String(content)}: start early.` };
};
await using served = await serve(guide, { log: memoryLog(), page: false });

// The rest also runs in a browser or a worker.
const client = await connectAgent(served.url);
let stream = client.stream('Plan a day.');
for await (const _event of stream) console.log(stream.status?.state, stream.text);

const answers = stream.questions.map(({ id, message }): Answer => {
  console.log(message); // the task waits for a person
  return { id, action: 'accept', content: 'Lyon' };
});
stream = client.answer(stream, answers);
for await (const _event of stream) console.log(stream.status?.state, stream.text);
