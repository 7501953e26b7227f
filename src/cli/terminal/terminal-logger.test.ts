import { expect, test } from 'vitest';
import { channelLogger } from './terminal-logger.ts';
import type { TextOutput } from './terminal.ts';

const heard = (): { readonly lines: string[]; readonly channel: TextOutput } => {
  const lines: string[] = [];
  const line = (text = ''): void => void lines.push(text);
  return {
    lines,
    channel: { line, write: line, style: (_, text) => text, live: false, width: 80 },
  };
};

test('an error is one line with its facts and the place where it was thrown', () => {
  const { lines, channel } = heard();
  const stack = 'Error: no\n    at run (file:///srv/agents/agent.js:7:9)\n    at node:internal:1:2';
  channelLogger(channel).error('agent a failed: no', { task: 't1', stack });
  channelLogger(channel).warn('a request failed', { error: 'Error: \u001b[2J' });
  expect(lines).toEqual([
    'agent a failed: no (/srv/agents/agent.js:7)',
    'a request failed {"error":"Error: \\u001b[2J"}',
  ]);
});

test('what repeats does not flood the terminal', () => {
  const { lines, channel } = heard();
  const { error, info } = channelLogger(channel);
  for (let n = 0; n < 100; n++) error('the tool is gone');
  error('something else');
  info('not printed');
  expect(lines).toEqual(['the tool is gone', 'something else']);
});
