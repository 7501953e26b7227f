import { expect, test } from 'vitest';
import { parseDecision } from './parse-decision.ts';

test.each([
  'yes',
  'Y',
  ' ok. ',
  'Approve!',
  'approve it, please',
  'Yes, please.',
  'yes, thanks!',
  'Yes, confirmed.',
  'allow',
  'true',
])('"%s" is a yes', (words) => expect(parseDecision(words)).toBe('accept'));

test.each(['no', 'reject', 'No, a duplicate of TKT-7.', 'denied', 'No, denied.', 'false'])(
  '"%s" is a no',
  (words) => expect(parseDecision(words)).toBe('decline'),
);

test.each([
  'ok wait, do not do that',
  'ok but make it a feature',
  'yes if it is new',
  'allow me to think',
  'approve the title only',
  'nothing',
  'absolutely not',
  'stop',
  'cancel',
  'wat',
  'not yet',
  `yes${' please'.repeat(100)}`,
  'maybe',
  '',
])('"%s" is neither', (words) => expect(parseDecision(words)).toBeUndefined());
