import { describe, expect, test } from 'vitest';
import { readAnswers } from './answers.ts';

const pending = [{ id: 'q', kind: 'approval', message: 'Create it?' }] as const;
const decided = (text: string): unknown =>
  readAnswers({ pending }, { parts: [{ text }], answers: [] }).answers;

describe('a decision in words', () => {
  test.each(['yes', 'OK', 'Approve.', 'approve it, please', 'yes, thanks!'])(
    '%s is a yes',
    (text) => {
      expect(decided(text)).toEqual([{ id: 'q', action: 'accept' }]);
    },
  );

  test.each([
    'ok but make it a feature',
    'yes if it is new',
    'approve the title only',
    'maybe',
    '',
  ])('%j is no yes: what is said beside it would be lost', (text) => {
    expect(() => decided(text)).toThrow('say "approve" or "reject"');
  });

  test.each(['reject', 'No, a duplicate of TKT-7.'])('%s is a no', (text) => {
    expect(decided(text)).toEqual([{ id: 'q', action: 'decline' }]);
  });
});
