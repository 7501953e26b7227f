import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uiMessageEncoder } from '../../src/outputs/index.ts';
import type { Served } from '../../src/serve/index.ts';
import { lawfulLog } from '../support/arbitraries.ts';
import { type Chat, openChat } from '../outputs/chat.ts';
import { openKitchen } from '../outputs/scripted-agent.ts';
import { readUi } from '../outputs/readers.ts';
import { peer } from '../peers.ts';
import { suite, testIf } from '../verifies.ts';
import { eventually } from '../support/busy.ts';

const older = await peer('ai-sdk-older');
let served: Served;
beforeAll(async () => {
  served = await openKitchen();
});
afterAll(() => served[Symbol.asyncDispose]());

const text = (chat: Chat): string =>
  (chat.messages.at(-1)?.parts ?? [])
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('');

suite('ai-sdk-older', older.reason, () => {
  describe.each(['ai5', 'ai6'])('%s', (sdk) => {
    const open = (): Promise<Chat> => openChat(older, `${served.url}/ui/cook`, { sdk });

    test('reads any valid log, apart from approvals that it does not know', async () => {
      const read = await readUi(older, sdk);
      const knows = (type: string): boolean =>
        sdk !== 'ai5' || !['tool-approval-request', 'tool-output-denied'].includes(type);
      await fc.assert(
        fc.asyncProperty(lawfulLog, async (entries) => {
          const { encode, pause } = uiMessageEncoder();
          const chunks = [...entries.flatMap((entry) => [...encode(entry)]), ...pause()];
          await read(chunks.filter(({ type }) => knows(type)));
        }),
        { numRuns: 300 },
      );
    });

    test('chats: text, tools, a question that a tool output answers, a failure', async () => {
      const chat = await open();
      await chat.sendMessage({ text: 'everything' });
      expect(text(chat)).toBe('I look it up.Three kinds of tea.');
      const other = await open();
      await other.sendMessage({ text: 'question' });
      const asked = other.messages.at(-1)?.parts.find(({ type }) => type === 'tool-ask');
      const toolCallId = asked?.toolCallId ?? '';
      await other.addToolOutput({ tool: 'ask', toolCallId, output: 'green' });
      await eventually(() =>
        expect([other.status, text(other)]).toEqual(['ready', 'You said green']),
      );
      const failing = await open();
      await failing.sendMessage({ text: 'fail' });
      expect(failing.error?.message).toBe('the model is busy');
    });

    testIf(sdk === 'ai5' ? 'AI SDK 5 knows no approvals' : undefined, 'approves', async () => {
      const chat = await open();
      await chat.sendMessage({ text: 'approve' });
      await chat.addToolApprovalResponse({ id: 'c/ok', approved: true });
      await chat.addToolApprovalResponse({ id: 'd/ok', approved: false });
      await eventually(() =>
        expect([chat.status, text(chat)]).toEqual(['ready', 'That is decided.']),
      );
    });
  });
});
