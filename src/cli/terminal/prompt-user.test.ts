import { expect, test } from 'vitest';
import { askUser } from './prompt-user.ts';
import type { TextOutput, Terminal } from './terminal.ts';

test('a question cannot steer the terminal and hide what is approved', async () => {
  const lines: string[] = [];
  const channel: TextOutput = {
    line: (text = '') => lines.push(text),
    write: (text) => lines.push(text),
    style: (_, text) => text,
    live: false,
    width: 80,
  };
  const terminal: Terminal = {
    out: channel,
    err: channel,
    interactive: false,
    flush: async () => {},
  };
  const request = {
    id: 'q',
    kind: 'approval',
    message: 'Delete everything?\u001b[2K\rShow the weather?\u202e',
    data: { command: '\u009b2Krm' },
  } as const;
  const { signal } = new AbortController();
  await askUser(request, terminal, { signal, otherwise: 'decline' });
  expect(lines.join('\n')).toContain('Delete everything?');
  // oxlint-disable-next-line no-control-regex -- these are what it is about
  expect(lines.join('\n')).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
});
