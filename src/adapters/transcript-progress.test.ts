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
const isNotBegun = (): boolean => false;
const FREE = { needsOutput: false, isNotBegun };
const STRUCTURED = { needsOutput: true, isNotBegun };

test('a message is incomplete without its text and without a call', () => {
  const thinking = entry('assistant', 'a1', [{ type: 'thinking', thinking: '…' }]);
  expect(countIncomplete([prompt, thinking], FREE)).toBe(1);
  expect(countIncomplete([prompt, thinking, entry('assistant', 'a2', [text])], FREE)).toBe(0);
  expect(countIncomplete([prompt, thinking, entry('assistant', 'a2', [call])], FREE)).toBe(0);
  expect(countIncomplete([prompt, context], FREE)).toBe(0);
});

test('progress is what came after the prompt', () => {
  const answer = entry('assistant', 'a1', [text, call]);
  expect(readProgress([answer], 'p', FREE)).toBeUndefined();
  expect(readProgress([answer, prompt, answer], 'p', FREE)).toMatchObject({
    text: 'Hi.',
    open: [{ callId: 'c1', name: 'Bash' }],
    isEnded: false,
  });
  const closed = readProgress([prompt, answer, entry('user', 'u', [result])], 'p', FREE);
  expect(closed).toMatchObject({ open: [], isEnded: false });
  expect(closed?.results.get('c1')).toEqual(result);
  const ended = readProgress([prompt, entry('assistant', 'a1', [text]), context], 'p', FREE);
  expect(ended).toMatchObject({ isEnded: true, lastText: 'Hi.' });
});

test('a prompt without an answer is removed with its context', () => {
  const before = [entry('user', 'u0', [text]), entry('assistant', 'a0', [text])];
  expect(withoutUnanswered([...before, prompt, context], 'p')).toEqual(before);
  expect(withoutUnanswered([context, prompt, context], 'p')).toEqual([]);
  const answered = [prompt, entry('assistant', 'a1', [text])];
  expect(withoutUnanswered(answered, 'p')).toEqual(answered);
});

const given = { type: 'tool_use', id: 'c2', name: 'StructuredOutput', input: { a: 1 } };
const accepted = { type: 'tool_result', tool_use_id: 'c2', content: 'accepted' };

test('an accepted structured output ends the turn, and a text alone does not', () => {
  const message = entry('assistant', 'a1', [text, given]);
  const done = entry('user', 'u', [accepted]);
  const reminder = entry('user', 'm', [{ type: 'text', text: '<system-reminder>' }]);
  for (const end of [[done], [done, reminder]])
    expect(readProgress([prompt, message, ...end], 'p', STRUCTURED)).toMatchObject({
      isEnded: true,
      output: { value: { a: 1 } },
    });
  const changed = { ...done, structured_output: 'by a hook' };
  const { output, outputs } = readProgress([prompt, message, changed], 'p', STRUCTURED) ?? {};
  expect(output).toEqual({ value: 'by a hook' });
  expect(outputs?.get('c2')).toBe('by a hook');
  const refused = entry('user', 'u', [{ ...accepted, is_error: true }]);
  const failed = readProgress([prompt, message, refused], 'p', STRUCTURED);
  expect(failed).toMatchObject({ isEnded: false });
  expect(failed).not.toHaveProperty('output');
  const both = entry('assistant', 'a1', [given, call]);
  expect(readProgress([prompt, both, done], 'p', STRUCTURED)).toMatchObject({
    isEnded: false,
    open: [{ callId: 'c1' }],
  });
  const words = entry('assistant', 'a1', [text]);
  expect(readProgress([prompt, words], 'p', STRUCTURED)).toMatchObject({ isEnded: false });
});

test('a CLI that needs a structured output writes a message again that has not given it', () => {
  expect(countIncomplete([prompt, entry('assistant', 'a1', [text])], STRUCTURED)).toBe(1);
  expect(countIncomplete([prompt, entry('assistant', 'a1', [text, given])], STRUCTURED)).toBe(1);
  expect(countIncomplete([prompt, entry('assistant', 'a1', [given, call])], STRUCTURED)).toBe(0);
});

test('a message whose calls were not made may be written again', () => {
  const message = entry('assistant', 'a1', [text, call, { ...call, id: 'c2' }]);
  const not = (...begun: readonly string[]): number =>
    countIncomplete([prompt, message], {
      needsOutput: false,
      isNotBegun: ({ callId }) => !begun.includes(callId),
    });
  expect(not()).toBe(1);
  expect(not('c2')).toBe(0);
});
