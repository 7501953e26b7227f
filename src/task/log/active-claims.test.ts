import { expect, test } from 'vitest';
import { setImmediate as macrotask } from 'node:timers/promises';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { onAbort } from '../../stream/abort.ts';
import { ActiveClaims } from './active-claims.ts';
import { memoryDatabase } from '../memory/memory-log.ts';
import { encodeEvent, numberLine } from '../store/line-codec.ts';
import type { ClaimRow, Store } from '../store/store.ts';

async function claimOf(store: Store, task: string): Promise<ClaimRow> {
  const turn = turnOf(`m-${task}`, { agent: 'a', task });
  const note = encodeEvent({ type: 'turn.submitted', turn });
  const { claim } = await store.submit({ note, worker: 'w', leaseMs: 1000, dedupe: false });
  return claim as ClaimRow;
}

test('a note that cannot be decoded ends its claim: it may be a cancel', async () => {
  const store = memoryDatabase();
  const active = new ActiveClaims(store, { leaseMs: 1e6, heartbeatMs: 1e5 });
  const row = await claimOf(store, 't');
  const claim = active.hold(row);
  const line = numberLine('{"type":"cancel.requested","v":2,"at":1}', 2);
  const commit = { task: 't', epoch: row.epoch, claimed: true, head: 2, ended: false };
  active.commit({ ...commit, rows: [{ seq: 2, note: true, line }], claimable: false });
  expect(claim.signal.reason).toMatchObject({ code: 'fenced' });
  active.close();
});

test('entries that are gone are not asked for without end', async () => {
  const store = memoryDatabase();
  let reads = 0;
  const read = async () => ((reads += 1), { rows: [], head: 9, ended: false });
  const active = new ActiveClaims({ ...store, read }, { leaseMs: 1e6, heartbeatMs: 1e5 });
  active.hold(await claimOf(store, 't'));
  for (let turns = 0; turns < 20; turns++) await macrotask();
  expect(reads).toBe(1);
  active.close();
});

test('a task that cannot be read does not keep the leases of the others from being extended', async () => {
  const store = memoryDatabase();
  const beat: Store['beat'] = async (claims) =>
    claims.map(({ task }) => ({ task, claim: 'held', head: 9 }));
  const read: Store['read'] = () => Promise.reject(new Error('damaged'));
  const shared = { ...store, exclusive: false, beat, read };
  const active = new ActiveClaims(shared, { leaseMs: 40, heartbeatMs: 10 });
  const claims = [await claimOf(store, 'bad'), await claimOf(store, 'good')].map((row) =>
    active.hold(row),
  );
  const start = performance.now();
  while (performance.now() - start < 120) await active.beat();
  expect(claims.map(({ signal }) => signal.aborted)).toEqual([false, false]);
  active.close();
});

test('a claim that ends twice drops the tail of its task once, so readers keep theirs', async () => {
  const store = memoryDatabase();
  const active = new ActiveClaims(store, { leaseMs: 1e6, heartbeatMs: 1e5 });
  const row = await claimOf(store, 't');
  let drops = 0;
  active.hold(row, { head: row.snapshot.seq, drop: () => void drops++ });
  // The end of a run that another wrote, with a note that cannot be read here.
  const line = numberLine('{"type":"cancel.requested","v":2,"at":1}', 2);
  const commit = { task: 't', epoch: row.epoch, claimed: false, head: 2, ended: true };
  active.commit({ ...commit, rows: [{ seq: 2, note: true, line }], claimable: false });
  expect(drops).toBe(1);
  active.close();
});

test('a beat that the store never answers does not keep a claim that another may have', async () => {
  const store = memoryDatabase();
  const beat: Store['beat'] = () => new Promise(() => {});
  const shared = { ...store, exclusive: false, beat };
  const active = new ActiveClaims(shared, { leaseMs: 20, heartbeatMs: 5 });
  const { signal } = active.hold(await claimOf(store, 't'));
  await new Promise<void>((resolve) => void onAbort(signal, () => resolve()));
  expect(signal.reason).toMatchObject({
    code: 'fenced',
    message: expect.stringContaining('no reply of the store') as string,
  });
  active.close();
});
