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
    // Also as JSON inside a string, which is how the input of a call arrives.
    for (const value of [{ text }, { text: JSON.stringify({ text }) }])
      expect(redactor.json(value)).not.toContain(key.split(' ').at(-1));
  }
});

test('a word that only contains the start of a key stays', () => {
  const text = 'task-abcdefghijkl disk-abcdefghijkl';
  expect(new Redactor({}).json({ text })).toContain(text);
});

test.each(['OPENAI_API_KEY_2', 'GITHUB_TOKEN2', 'AWS_ACCESS_KEY_ID', 'DB_PWD', 'TOKEN_OF_CI'])(
  'the value of %s is redacted wherever it stands',
  (name) => {
    const redactor = new Redactor({ [name]: 'canary-canary' });
    expect(redactor.json({ text: 'it is canary-canary' })).not.toContain('canary');
  },
);

test('a secret of many lines is redacted in JSON of any depth, and line by line', () => {
  const key = `-----BEGIN KEY-----\n${'canary'.repeat(10)}\n${'yranac'.repeat(10)}\n-----END KEY-----\n`;
  const redactor = new Redactor({ SIGNING_KEY: key });
  let value: unknown = { text: key };
  for (let depth = 0; depth < 4; depth++) {
    expect(redactor.json(value)).not.toMatch(/canary|yranac/);
    value = { text: JSON.stringify(value) };
  }
  expect(redactor.json({ lines: key.split('\n') })).not.toMatch(/canary|yranac/);
});

test('a value of any length is redacted', () => {
  const token = Array.from({ length: 100_000 }, (_, n) => `part${n}`).join('"+');
  const redactor = new Redactor({});
  expect(redactor.json({ structuredContent: { token } })).not.toContain('part1');
  expect(redactor.json({ text: `before ${token} after` })).toBe(
    '{"text":"before [redacted] after"}',
  );
});

test('many long values in one message are redacted', () => {
  const values = Array.from({ length: 200 }, (_, n) => `${n}-${'x'.repeat(1000)}`);
  const redactor = new Redactor({});
  redactor.json(values.map((token) => ({ token })));
  expect(redactor.text(values.join(' '))).not.toContain('xxx');
});
