import { expect, test } from 'vitest';
import { advance } from '../../event/index.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import { isListedChange } from './listed-change.ts';

test('every turn is a change, also when as many are forgotten as come', () => {
  let snapshot: Snapshot | undefined;
  for (let seq = 1; seq <= 300; seq++) {
    const turn = { agent: 'a', task: 't', context: 'c', messageId: `m${seq}`, parts: [] };
    const before: Snapshot | undefined = snapshot;
    snapshot = advance(before, { type: 'turn.submitted', turn, seq, at: 0 } as Entry);
    expect(isListedChange(before, snapshot)).toBe(true);
  }
  expect(snapshot?.turns.length).toBeLessThan(300);
});
