import assert from 'node:assert/strict';
import { serve } from 'duolane/serve';
import { memoryLog } from 'duolane/task';
import { shopper } from './shopper.ts';
import { Chat } from './client.ts';

await using served = await serve({ shopper: { default: shopper } }, { log: memoryLog() });
const chat = new Chat(`${served.url}/ui/shopper`);

await chat.send('tea');
console.log(chat.text);
assert.equal(chat.approvals.length, 1);

// The page is reloaded while the question is open: the message is restored, with its question.
assert.equal(await chat.resume(), true);
await chat.decide(chat.approvals[0] as string, true);
console.log(chat.text);
assert.equal(chat.text, 'I would like to buy tea. There is your tea.');

await chat.send('a castle');
await chat.decide(chat.approvals[0] as string, false);
console.log(chat.text);
assert.match(chat.text, /Then not\.$/);
assert.equal(await chat.resume(), false); // the run has ended
