import { expect, test } from 'vitest';
import type { JsonObject } from '../json.ts';
import { countIncomplete, readProgress, withoutUnanswered } from './transcript-progress.ts';

const entry = (type: string, uuid: string, content: readonly JsonObject[]): JsonObject => ({
  type,
  uuid,
  message: { role: type, id: type === 'assistant' ? 'msg' : undefined, content },
});
const text = { type: 'text', text: 'Hi.' };
const call = { type: 'tool_use', id: 'c1', name: 'Bash', input: {} };
const result = { type: 'tool_result', tool_use_id: 'c1', content: 'ok' };
const prompt = entry('user', 'p', [{ type: 'text', text: 'go' }]);
const context = { type: 'attachment', uuid: 'x' };

test('a message is incomplete without its text and without a call', () => {
  const thinking = entry('assistant', 'a1', [{ type: 'thinking', thinking: '…' }]);
  expect(countIncomplete([prompt, thinking])).toBe(1);
  expect(countIncomplete([prompt, thinking, entry('assistant', 'a2', [text])])).toBe(0);
  expect(countIncomplete([prompt, thinking, entry('assistant', 'a2', [call])])).toBe(0);
  expect(countIncomplete([prompt, context])).toBe(0);
});

test('progress is what came after the prompt', () => {
  const answer = entry('assistant', 'a1', [text, call]);
  expect(readProgress([answer], 'p')).toBeUndefined();
  expect(readProgress([answer, prompt, answer], 'p')).toMatchObject({
    text: 'Hi.',
    open: [{ callId: 'c1', name: 'Bash' }],
    isEnded: false,
  });
  const closed = readProgress([prompt, answer, entry('user', 'u', [result])], 'p');
  expect(closed).toMatchObject({ open: [], isEnded: false });
  expect(closed?.results.get('c1')).toEqual(result);
  const ended = readProgress([prompt, entry('assistant', 'a1', [text]), context], 'p');
  expect(ended).toMatchObject({ isEnded: true, lastText: 'Hi.' });
});

test('a prompt without an answer is removed with its context', () => {
  const before = [entry('user', 'u0', [text]), entry('assistant', 'a0', [text])];
  expect(withoutUnanswered([...before, prompt, context], 'p')).toEqual(before);
  expect(withoutUnanswered([context, prompt, context], 'p')).toEqual([]);
  const answered = [prompt, entry('assistant', 'a1', [text])];
  expect(withoutUnanswered(answered, 'p')).toEqual(answered);
});
