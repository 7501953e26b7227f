import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Served } from '../../src/serve/index.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { type Chat, type ChatOptions, openChat, type UiPart } from './chat.ts';
import { openKitchen } from './scripted-agent.ts';
import { eventually } from '../support/busy.ts';

const frontEnds = await peer('front-ends');
let served: Served;
beforeAll(async () => {
  served = await openKitchen();
});
afterAll(() => served[Symbol.asyncDispose]());

const open = (options?: ChatOptions): Promise<Chat> =>
  openChat(frontEnds, `${served.url}/ui/cook`, options);

const parts = (chat: Chat): readonly UiPart[] => chat.messages.at(-1)?.parts ?? [];
const part = (chat: Chat, type: string): UiPart | undefined =>
  parts(chat).find((each) => each.type === type);
const text = (chat: Chat): string =>
  parts(chat)
    .map((each) => (each.type === 'text' ? each.text : ''))
    .join('');

/** The chat when it has nothing more to do by itself. */
const settled = (chat: Chat, enough: () => boolean): Promise<void> =>
  eventually(() => expect([chat.status, enough()]).toEqual(['ready', true]));

suite('front-ends', frontEnds.reason, () => {
  test('useChat shows reasoning, text, tools, files, data and the end of a run', async () => {
    const seen: UiPart[] = [];
    const chat = await open({ onData: (each) => seen.push(each) });
    await chat.sendMessage({ text: 'everything' });
    expect(chat.status).toBe('ready');
    expect(part(chat, 'reasoning')).toMatchObject({ text: 'Let me think.', state: 'done' });
    expect(text(chat)).toBe('I look it up.Three kinds of tea.');
    expect(part(chat, 'tool-search')).toMatchObject({
      state: 'output-available',
      input: { q: 'tea' },
      output: { hits: 3 },
    });
    expect(part(chat, 'tool-weigh')).toMatchObject({
      state: 'output-error',
      errorText: 'no scales',
    });
    expect(part(chat, 'file')?.url).toBe('data:image/png;base64,UE5H');
    expect(part(chat, 'data-artifact')?.data).toMatchObject({ name: 'leaf' });
    expect(part(chat, 'data-output')?.data).toEqual({ kinds: 3 });
    expect(seen.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['data-status', 'data-tool-progress']),
    );
    expect(chat.messages.at(-1)?.metadata).toMatchObject({
      outcome: 'completed',
      usage: { inputTokens: 14, outputTokens: 11 },
    });
    expect(parts(chat).filter(({ type }) => type === 'step-start')).toHaveLength(2);
  });

  test('each message of a chat is a task in the same context', async () => {
    const chat = await open();
    await chat.sendMessage({ text: 'one' });
    await chat.sendMessage({ text: 'two' });
    expect(text(chat)).toBe('two after one');
    expect(new Set(chat.messages.map(({ id }) => id)).size).toBe(4);
    await chat.regenerate();
    expect(text(chat)).toMatch(/^two after two after one \| one$/);
  });

  test('approvals of calls side by side come in one stream and are answered in one turn', async () => {
    const chat = await open();
    await chat.sendMessage({ text: 'approve' });
    const asked = parts(chat).filter(({ state }) => state === 'approval-requested');
    expect(asked.map(({ type }) => type)).toEqual(['tool-buy', 'tool-boil']);
    await chat.addToolApprovalResponse({ id: 'c/ok', approved: true });
    await chat.addToolApprovalResponse({ id: 'd/ok', approved: false });
    await settled(chat, () => text(chat) !== '');
    expect(part(chat, 'tool-buy')).toMatchObject({ state: 'output-available', output: 'done' });
    expect(part(chat, 'tool-boil')).toMatchObject({ state: 'output-denied' });
    expect(text(chat)).toBe('That is decided.');
    expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  });

  test('a question is a call of `ask`: its output is the answer, and so is a message', async () => {
    const chat = await open();
    await chat.sendMessage({ text: 'question' });
    const asked = part(chat, 'tool-ask');
    expect(asked).toMatchObject({ state: 'input-available', input: { message: 'Which?' } });
    await chat.addToolOutput({
      tool: 'ask',
      toolCallId: asked?.toolCallId ?? '',
      output: 'green',
    });
    await settled(chat, () => text(chat) !== '');
    expect(text(chat)).toBe('You said green');

    const other = await open();
    await other.sendMessage({ text: 'question' });
    await other.sendMessage({ text: 'black' });
    expect(text(other)).toBe('You said black');
    expect(new Set(other.messages.map(({ id }) => id)).size).toBe(4);
  });

  test('a call whose result is asked for is run by the front end', async () => {
    const chat = await open({
      onToolCall: ({ toolCall: { toolCallId, toolName } }) =>
        void chat.addToolOutput({ tool: toolName, toolCallId, output: 'Bern' }),
    });
    await chat.sendMessage({ text: 'your tool' });
    await settled(chat, () => text(chat) !== '');
    expect(text(chat)).toBe('You are in Bern');
  });

  test('a failure is an error of the chat, with its text', async () => {
    const chat = await open();
    await chat.sendMessage({ text: 'fail' });
    expect([chat.status, chat.error?.message]).toEqual(['error', 'the model is busy']);
    expect(text(chat)).toBe('I try');
  });

  test('a disconnect does not cancel, another page continues the stream, and stop cancels', async () => {
    const chat = await open({ id: 'shared' });
    const sent = chat.sendMessage({ text: 'long' });
    await eventually(() => expect(text(chat)).toBe('It takes a while'));
    await chat.stop();
    await sent;
    const page = await open({ id: 'shared', messages: chat.messages });
    const resumed = page.resumeStream();
    await eventually(() => expect(page.status).toBe('streaming'));
    expect(text(page)).toBe('It takes a while');
    const stopped = await fetch(`${served.url}/ui/cook/shared/stop`, { method: 'POST' });
    expect(stopped.status).toBe(200);
    await resumed;
    expect(page.status).toBe('ready');
    for await (const { state } of served.log.list({ context: 'shared' }))
      expect(state).toBe('canceled');
    // Nothing runs any more, so there is nothing to resume.
    const again = await fetch(`${served.url}/ui/cook/shared/stream`);
    expect(again.status).toBe(204);
  });
});
