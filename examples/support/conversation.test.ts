import { expect, test } from 'vitest';
import { lastUserText, type Message, toolResults } from './conversation.ts';

const result = {
  type: 'tool_result',
  content: [{ type: 'text', text: 'TKT-42' }],
  is_error: false,
};
const note = { type: 'text', text: '[Request interrupted by user for tool use]' };
const request = (...messages: readonly Message[]): Parameters<typeof lastUserText>[0] => ({
  messages,
  tools: [],
});

test('results of calls are not what the user said', () => {
  const asked = request(
    { role: 'user', content: 'one' },
    { role: 'assistant', content: [{ type: 'tool_use' }] },
    { role: 'user', content: [result] },
  );
  expect(lastUserText(asked)).toBe('one');
  expect(toolResults(asked)).toEqual([{ text: 'TKT-42', isError: false }]);
});

test('words beside the results of a turn that was cut off are the new question', () => {
  const asked = request(
    { role: 'user', content: 'one' },
    { role: 'assistant', content: [{ type: 'tool_use' }] },
    { role: 'user', content: [result, note, { type: 'text', text: 'two' }] },
  );
  expect(lastUserText(asked)).toBe('two');
  expect(toolResults(asked)).toEqual([]);
});
