import { expect, test } from 'vitest';
import { Redactor } from './redact-secrets.ts';

const KEYS = [
  'sk-ant-abcdefghijkl',
  'ghp_abcdefghijklmnopqrst',
  'xoxb-abcdefghijklm',
  'Bearer abcdefghijklm',
  'Basic dXNlcjpwYXNzd29yZA==',
];

test.each(KEYS)('%s is redacted wherever a line or a field begins', (key) => {
  const redactor = new Redactor({});
  for (const before of ['', ' ', '\n', '\t', '\r\n', '"', '=', '\f', '\b']) {
    const text = `first${before}${before === '' ? ' ' : ''}${key}`;
    // Also as JSON inside of a text, as the input of a call comes.
    for (const value of [{ text }, { text: JSON.stringify({ text }) }])
      expect(redactor.json(value)).not.toContain(key.split(' ').at(-1));
  }
});

test('a word that only contains the start of a key stays', () => {
  const text = 'task-abcdefghijkl disk-abcdefghijkl';
  expect(new Redactor({}).json({ text })).toContain(text);
});
