import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Served } from '../../src/serve/index.ts';
import { sqliteLog } from '../../src/task/sqlite/sqlite-log.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { openChat, type UiMessage } from './chat.ts';
import { openKitchen } from './scripted-agent.ts';
import { eventually } from '../support/busy.ts';

const frontEnds = await peer('front-ends');

suite('front-ends', frontEnds.reason, () => {
  test('an approval that one process asked for is answered by the next process', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'duolane-front-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    const file = join(folder, 'tasks.sqlite');
    const during = async <T>(work: (served: Served) => Promise<T>): Promise<T> => {
      await using log = await sqliteLog({ file });
      await using served = await openKitchen({ log });
      return await work(served);
    };
    const api = (served: Served): string => `${served.url}/ui/cook`;
    const messages = await during(async (served): Promise<UiMessage[]> => {
      const chat = await openChat(frontEnds, api(served), { id: 'kept' });
      await chat.sendMessage({ text: 'approve' });
      return chat.messages;
    });
    await during(async (served) => {
      // A page without its messages gets them from the server, question and all.
      const fresh = await openChat(frontEnds, api(served), { id: 'kept' });
      await fresh.resumeStream();
      const shown = fresh.messages.at(-1)?.parts.map(({ state }) => state);
      expect(shown).toEqual(['approval-requested', 'approval-requested']);
      const chat = await openChat(frontEnds, api(served), { id: 'kept', messages });
      await chat.addToolApprovalResponse({ id: 'c/ok', approved: true });
      await chat.addToolApprovalResponse({ id: 'd/ok', approved: true });
      await eventually(() => {
        const { parts = [] } = chat.messages.at(-1) ?? {};
        expect(chat.status).toBe('ready');
        expect(parts.flatMap(({ type, state }) => (state ? [[type, state]] : []))).toEqual([
          ['tool-buy', 'output-available'],
          ['tool-boil', 'output-available'],
          ['text', 'done'],
        ]);
      });
    });
  });
});
