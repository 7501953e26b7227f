import { expect, test } from 'vitest';
import type { TextOutput } from '../../terminal/terminal.ts';
import { printFacts, printFindings } from './print-report.ts';

test('names that a server chose cannot control the terminal', () => {
  const lines: string[] = [];
  const out: TextOutput = {
    line: (text = '') => lines.push(text),
    write: (text) => lines.push(text),
    style: (_, text) => text,
    live: false,
    width: 80,
  };
  const hostile = 'agent\u001b]0;title\u0007\u009b2J\u202e';
  printFacts(out, [`the card of ${JSON.stringify(hostile)} offers A2A 1.0`]);
  const finding = { rule: 'server-not-found', severity: 'error', line: 0 } as const;
  printFindings(out, 'event', [{ ...finding, what: hostile, fix: hostile }]);
  expect(lines.join('\n')).toContain('agent');
  // oxlint-disable-next-line no-control-regex -- these are what it is about
  expect(lines.join('\n')).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
});
