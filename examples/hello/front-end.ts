import type { Agent } from 'duolane/event';
import { serve } from 'duolane/serve';
import { memoryLog } from 'duolane/task';

const greeter: Agent = async function* () {
  yield { type: 'text.delta', id: 'hello', delta: 'Hello.' };
};
await using served = await serve({ greeter: { default: greeter } }, { log: memoryLog() });

// The request that `useChat` of the AI SDK posts for `sendMessage({ text: 'Hi' })`.
const response = await fetch(`${served.url}/ui/greeter`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    id: 'chat-1',
    messages: [{ id: 'message-1', role: 'user', parts: [{ type: 'text', text: 'Hi' }] }],
  }),
});
console.log(await response.text()); // a UI message stream: start, text-delta, finish
