import { expect, test } from 'vitest';
import { askUser } from './prompt-user.ts';
import type { TextOutput, Terminal } from './terminal.ts';

/** No terminal: what is printed is in `lines`. */
function unattended(lines: string[]): Terminal {
  const channel: TextOutput = {
    line: (text = '') => lines.push(text),
    write: (text) => lines.push(text),
    style: (_, text) => text,
    live: false,
    width: 80,
  };
  return { out: channel, err: channel, interactive: false, flush: async () => {} };
}

test('without a terminal, an agent that repeats its question is not answered forever', async () => {
  const { signal } = new AbortController();
  const ask = askUser(unattended([]), { signal, otherwise: 'decline' });
  const request = { id: 'q', kind: 'question', message: 'Which day?' } as const;
  for (let asked = 0; asked < 20; asked += 1)
    expect(await ask(request)).toEqual({ id: 'q', action: 'decline' });
  await expect(ask(request)).rejects.toMatchObject({ code: 'unsupported' });
});

test('a question cannot steer the terminal and hide what is approved', async () => {
  const lines: string[] = [];
  const terminal = unattended(lines);
  const request = {
    id: 'q',
    kind: 'approval',
    message: 'Delete everything?\u001b[2K\rShow the weather?\u202e',
    data: { command: '\u009b2Krm' },
  } as const;
  const { signal } = new AbortController();
  await askUser(terminal, { signal, otherwise: 'decline' })(request);
  expect(lines.join('\n')).toContain('Delete everything?');
  // oxlint-disable-next-line no-control-regex -- these are what it is about
  expect(lines.join('\n')).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
});
