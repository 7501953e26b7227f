import { expect, test } from 'vitest';
import { advance } from '../../event/fold/advance.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import { encodeTask } from './task-encoder.ts';

test('the history of a long conversation has its first message, then the newest ones with their answers', () => {
  let snapshot: Snapshot | undefined;
  let seq = 0;
  for (let id = 0; id < 250; id++) {
    const turn = {
      agent: 'a',
      task: 't',
      context: 'c',
      messageId: `m${id}`,
      parts: [{ text: `asked ${id}` }],
    };
    const run = [
      { type: 'turn.submitted', turn },
      { type: 'run.started', turn: turn.messageId },
      { type: 'text.delta', id: 'x', delta: `said ${id}` },
      { type: 'input.required', request: { id: `q${id}`, kind: 'question' } },
      { type: 'run.finished', outcome: 'input-required', text: '' },
    ];
    for (const entry of run)
      snapshot = advance(snapshot, { ...entry, seq: ++seq, at: seq } as unknown as Entry);
  }
  const { history = [] } = encodeTask(snapshot as Snapshot);
  const words = history.map(({ parts }) => parts[0]?.text ?? '');
  expect(words[0]).toBe('asked 0');
  const rest = words.slice(words.indexOf('asked 200'));
  expect(rest).toEqual(
    Array.from({ length: 50 }, (_, at) => [`asked ${at + 200}`, `said ${at + 200}`])
      .flat()
      .slice(0, -1),
  );
  const numbers = words.slice(1).map((each) => Number(each.split(' ')[1]));
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
});
