import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Answer, InputRequest } from '../ask.ts';
import { advance } from '../event/fold/advance.ts';
import type { AgentEvent, Entry, Note, Part, Snapshot, Turn } from '../event/types.ts';
import type { TaskLog } from './types.ts';
import { matchAnswers } from './match-answers.ts';

const asked = (id: string, kind: InputRequest['kind']): AgentEvent => ({
  type: 'input.required',
  request: { id, kind, message: `${id}?` },
});

/** The answers that a message gives to a task with these events. */
async function answersOf(
  events: readonly (AgentEvent | Note)[],
  parts: readonly Part[],
  more: { readonly answers?: readonly Answer[]; readonly lastEventId?: string } = {},
): Promise<readonly Answer[]> {
  const all = [{ type: 'turn.submitted', turn: turn('m') }, { type: 'run.started' }, ...events];
  const entries = all.map((event, index) => ({ ...event, seq: index + 1, at: index }) as Entry);
  const snapshot = entries.reduce<Snapshot | undefined>(advance, undefined) as Snapshot;
  const log = {
    read: (_task: string, after: number) => Readable.from(entries.slice(after)),
  } as unknown as TaskLog;
  const { answers = [], lastEventId } = more;
  return (await matchAnswers(log, snapshot, { parts, answers }, lastEventId)).answers;
}

const turn = (messageId: string, answers: readonly Answer[] = []): Turn => ({
  agent: 'a',
  task: 't',
  context: 'c',
  messageId,
  owner: 'ada',
  parts: answers.length > 0 ? [] : [{ text: 'go' }],
  answers,
});

const answered = (id: string): Note => ({
  type: 'turn.submitted',
  turn: turn(`answer to ${id}`, [{ id, action: 'accept' }]),
});

const read = async (kind: InputRequest['kind'], ...parts: Part[]): Promise<unknown> =>
  (await answersOf([asked('q', kind)], parts))[0];
const text = (content: string): Part => ({ text: content });
const invalid = expect.objectContaining({ code: 'invalid' }) as Error;

test('a decision may be text; any other text is refused', async () => {
  expect(await read('approval', text('Yes, please.'))).toEqual({ id: 'q', action: 'accept' });
  expect(await read('approval', text('No, not that one.'))).toEqual({ id: 'q', action: 'decline' });
  await expect(read('approval', text('yes but with another title'))).rejects.toThrow(invalid);
  await expect(read('approval')).rejects.toThrow(invalid);
});

describe('an approval as text that may be meant for another question', () => {
  const folder = asked('folder', 'question');
  const wipe = asked('wipe', 'approval');
  const accepted = [{ id: 'wipe', action: 'accept' }];

  test('must carry the code of the open one', async () => {
    const events = [folder, answered('folder'), wipe];
    const message = await answersOf(events, [text('ok')]).catch(String);
    expect(message).toContain('"wipe?" is not the first question');
    const [, code = ''] = /send "approve (\w+)"/.exec(String(message)) ?? [];
    expect(await answersOf(events, [text(`approve ${code}`)])).toEqual(accepted);
    expect(await answersOf(events, [text(`OK ${code.toUpperCase()}`)])).toEqual(accepted);
    await expect(answersOf(events, [text('approve 0000')])).rejects.toThrow(invalid);
    await expect(answersOf(events, [text(`never ${code}`)])).rejects.toThrow(invalid);
  });

  test('must carry the code also if the other was withdrawn', async () => {
    const call = { callId: 'c', name: 'tool' };
    const withdrawn: AgentEvent[] = [
      { type: 'tool.called', ...call, args: {} },
      { type: 'input.required', request: { id: 'c/ok', kind: 'approval' } },
      { type: 'tool.completed', ...call, result: { content: [] } } as unknown as AgentEvent,
    ];
    await expect(answersOf([...withdrawn, wipe], [text('ok')])).rejects.toThrow(invalid);
  });

  test('is accepted from a caller whose last event shows the question, and only then', async () => {
    const events = [folder, answered('folder'), wipe];
    expect(await answersOf(events, [text('ok')], { lastEventId: '5' })).toEqual(accepted);
    for (const lastEventId of ['3', '4', '6', '99'])
      await expect(answersOf(events, [text('ok')], { lastEventId })).rejects.toThrow(invalid);
  });

  test('is not needed for a rejection, which is safe', async () => {
    const events = [folder, answered('folder'), wipe];
    expect(await answersOf(events, [text('no')])).toEqual([{ id: 'wipe', action: 'decline' }]);
  });
});

test('text for a question that is newer than the last event of the caller is refused', async () => {
  const events = [asked('name', 'question'), answered('name'), asked('amount', 'question')];
  await expect(answersOf(events, [text('Ada')], { lastEventId: '3' })).rejects.toThrow('amount?');
  expect(await answersOf(events, [text('7')], { lastEventId: '5' })).toMatchObject([
    { id: 'amount', content: '7' },
  ]);
});

test('a second answer to a question is refused with owner and time of the first', async () => {
  const events = [asked('q', 'approval'), answered('q')];
  const answers: Answer[] = [{ id: 'q', action: 'decline' }];
  await expect(answersOf(events, [], { answers })).rejects.toMatchObject({
    code: 'conflict',
    retryable: false,
    details: { answeredBy: 'ada', action: 'accept', answeredAt: '1970-01-01T00:00:00.003Z' },
  });
});

describe('an answer to a question', () => {
  test('is its text, or its data', async () => {
    const content = { name: 'Ada' };
    expect(await read('question', text('Ada'))).toMatchObject({ content: 'Ada' });
    expect(await read('question', text('Ada'), text('Lovelace'))).toMatchObject({
      content: 'Ada\nLovelace',
    });
    expect(await read('question', { data: content })).toMatchObject({ content });
  });

  test.each<[string, Part[]]>([
    ['a file', [{ bytes: new Uint8Array(1), mediaType: 'text/csv' }]],
    ['a link', [{ url: 'https://example.com/' }]],
    ['text and data', [text('Ada'), { data: {} }]],
    ['two pieces of data', [{ data: 1 }, { data: 2 }]],
  ])('is refused if a part would be lost: %s', async (_what, parts) => {
    await expect(read('question', ...parts)).rejects.toThrow(invalid);
  });
});
