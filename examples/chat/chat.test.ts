import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Served, serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { shopper } from './shopper.ts';
import { Chat } from './client.ts';

let served: Served;
beforeAll(async () => {
  served = await serve({ shopper: { default: shopper } }, { log: memoryLog(), page: false });
});
afterAll(() => served[Symbol.asyncDispose]());

test('the chat example buys after a reload and an approval, and does not buy after a rejection', async () => {
  const chat = new Chat(`${served.url}/ui/shopper`);
  await chat.send('tea');
  expect(chat.approvals).toHaveLength(1);
  expect(await chat.resume()).toBe(true);
  await chat.decide(chat.approvals[0] ?? '', true);
  expect(chat.text).toBe('I would like to buy tea. There is your tea.');
  expect(chat.messages).toHaveLength(2);
  await chat.send('a castle');
  await chat.decide(chat.approvals[0] ?? '', false);
  expect(chat.text).toBe('I would like to buy a castle. Then not.');
  expect(chat.messages.at(-1)?.parts.find(({ type }) => type === 'tool-buy')?.state).toBe(
    'output-denied',
  );
  expect(await chat.resume()).toBe(false);
});
