import { expect, test } from 'vitest';
import { checkLaws } from './check-laws.ts';
import type { TaskEvent } from './types.ts';

const call = { callId: 'c', name: 'search' };
const opened: readonly TaskEvent[] = [
  {
    type: 'turn.submitted',
    turn: { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] },
  },
  { type: 'run.started', turn: 'm' },
  { type: 'text.delta', id: 'b', delta: 'Let me ' },
];

test('a call may follow an open block if a cancel came first: it dropped the end of the block', () => {
  const error = { code: 'canceled', message: 'canceled', retryable: false } as const;
  const ended: readonly TaskEvent[] = [
    { type: 'tool.called', ...call, args: {} },
    { type: 'tool.failed', ...call, error },
    { type: 'run.finished', outcome: 'canceled', text: 'Response stopped.' },
  ];
  expect(checkLaws([...opened, { type: 'cancel.requested' }, ...ended])).toEqual([]);
  expect(checkLaws([...opened, ...ended])).toContainEqual(expect.stringContaining('law 3'));
});
