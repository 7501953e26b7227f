import { describe, expect, test } from 'vitest';
import type { InputRequest } from '../ask.ts';
import type { Part } from '../event/types.ts';
import { readAnswers } from './answers.ts';

const read = (kind: InputRequest['kind'], ...parts: Part[]): unknown =>
  readAnswers({ pending: [{ id: 'q', kind }] }, { parts, answers: [] }).answers[0];
const text = (words: string): Part => ({ text: words });
const refusal = expect.objectContaining({ reason: 'INVALID_PARAMS' }) as Error;

describe('a decision in words', () => {
  test.each(['yes', 'Y', ' ok. ', 'Approve!', 'Yes, please.', 'allow'])('"%s" allows', (words) => {
    expect(read('approval', text(words))).toEqual({ id: 'q', action: 'accept' });
  });

  test.each(['no', 'reject', 'No, not that one.', 'denied'])('"%s" declines', (words) => {
    expect(read('approval', text(words))).toEqual({ id: 'q', action: 'decline' });
  });

  test.each([
    'ok wait, do not do that',
    'allow me to think',
    'yes but with another title',
    'maybe',
    '',
  ])('"%s" is none, and nothing is done', (words) =>
    expect(() => read('approval', text(words))).toThrow(refusal),
  );
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
