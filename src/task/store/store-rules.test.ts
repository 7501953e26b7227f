import { expect, test } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { DuolaneError } from '../../errors.ts';
import { MemoryStorage } from '../memory/memory-storage.ts';
import { encodeEvent } from './line-codec.ts';
import { StoreRules } from './store-rules.ts';

test('one damaged task keeps neither the leases nor the heads of others back', () => {
  const tables = new MemoryStorage(10, () => {});
  const ledger = new StoreRules(tables);
  const claims = ['bad', 'good'].map((task) => {
    const note = encodeEvent({ type: 'turn.submitted', turn: turnOf(task, { agent: 'a', task }) });
    const { claim } = ledger.submit({ note, worker: 'w', leaseMs: 1000, dedupe: false });
    return { task, epoch: claim?.epoch ?? 0 };
  });
  const load = tables.load.bind(tables);
  tables.load = (task) => {
    if (task === 'bad') throw new DuolaneError('malformed', 'the store is damaged');
    return load(task);
  };
  expect(ledger.beat(claims, 1000)).toEqual([
    { task: 'bad', claim: 'lost', head: 0 },
    { task: 'good', claim: 'held', head: 1 },
  ]);
  expect(ledger.heads(['bad', 'good'])).toEqual([{ task: 'good', head: 1, ended: false }]);
});
