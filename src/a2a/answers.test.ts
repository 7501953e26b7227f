import { describe, expect, test } from 'vitest';
import type { InputRequest } from '../ask.ts';
import type { Part } from '../event/types.ts';
import { readAnswers } from './answers.ts';

const read = (kind: InputRequest['kind'], ...parts: Part[]): unknown =>
  readAnswers({ pending: [{ id: 'q', kind }] }, { parts, answers: [] }).answers[0];
const text = (words: string): Part => ({ text: words });
const refusal = expect.objectContaining({ reason: 'INVALID_PARAMS' }) as Error;

test('a decision may be said in words; words that are none do nothing', () => {
  expect(read('approval', text('Yes, please.'))).toEqual({ id: 'q', action: 'accept' });
  expect(read('approval', text('No, not that one.'))).toEqual({ id: 'q', action: 'decline' });
  expect(() => read('approval', text('yes but with another title'))).toThrow(refusal);
  expect(() => read('approval')).toThrow(refusal);
});

describe('an answer to a question', () => {
  test('is its words, or its data', () => {
    const content = { name: 'Ada' };
    expect(read('question', text('Ada'))).toMatchObject({ content: 'Ada' });
    expect(read('question', text('Ada'), text('Lovelace'))).toMatchObject({
      content: 'Ada\nLovelace',
    });
    expect(read('question', { data: content })).toMatchObject({ content });
  });

  test.each<[string, Part[]]>([
    ['a file', [{ bytes: new Uint8Array(1), mediaType: 'text/csv' }]],
    ['a link', [{ url: 'https://example.com/' }]],
    ['words and data', [text('Ada'), { data: {} }]],
    ['two pieces of data', [{ data: 1 }, { data: 2 }]],
  ])('that would lose a part is refused: %s', (_what, parts) => {
    expect(() => read('question', ...parts)).toThrow(refusal);
  });
});
