import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DuolaneError } from '../errors.ts';
import type { Seq } from '../event/types.ts';
import { encodeEvent, numberLine } from './codec.ts';
import type { Commit, ReadResult, Row, Store } from './store.ts';
import { Tails } from './tail.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const row = (seq: Seq): Row => ({
  seq,
  note: false,
  line: numberLine(encodeEvent({ type: 'text.delta', id: 't', delta: `${seq}` }), seq),
});

const commit = (head: Seq, rows: readonly Row[]): Commit => ({
  task: 't',
  epoch: 1,
  held: true,
  rows,
  head,
  ended: false,
  claimable: false,
});

/** A store that fails until it is told not to; it has three entries. */
class FailingStore {
  reads = 0;
  fails = true;

  readonly read = async (_task: string, after: Seq): Promise<ReadResult> => {
    this.reads += 1;
    if (this.fails) throw new DuolaneError('server', 'the disk is away');
    return { rows: [1, 2, 3].filter((seq) => seq > after).map(row), head: 3, ended: false };
  };
}

/** A reader that the ring has served one entry, and that now needs two which only the store has. */
async function servedFromTheRing(): Promise<{
  readonly store: FailingStore;
  readonly tails: Tails;
  readonly reading: ReturnType<Tails['read']>;
}> {
  const store = new FailingStore();
  const tails = new Tails(store as unknown as Store);
  tails.keep('t');
  tails.commit(commit(1, [row(1)]));
  const reading = tails.read('t', 0, {});
  expect((await reading.next()).value).toMatchObject({ seq: 1 });
  expect(store.reads).toBe(0);
  // Another replica wrote these: they are announced without their rows.
  tails.commit(commit(3, []));
  return { store, tails, reading };
}

test('a reader that only the ring has served stays through a short failure of the store', async () => {
  const { store, reading } = await servedFromTheRing();
  const next = reading.next();
  await vi.advanceTimersByTimeAsync(1000);
  expect(store.reads).toBeGreaterThan(5);
  store.fails = false;
  await vi.advanceTimersByTimeAsync(200);
  expect((await next).value).toMatchObject({ seq: 2 });
  expect(reading.take()).toMatchObject({ seq: 3 });
});

test('its patience has an end, and then it says what is wrong', async () => {
  const { reading } = await servedFromTheRing();
  const failure = reading.next().catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(await failure).toMatchObject({ code: 'server' });
  expect(vi.getTimerCount()).toBe(0);
});

test('a reader that leaves while the store fails asks it no more, and leaves no timer', async () => {
  const { store, reading } = await servedFromTheRing();
  const next = reading.next();
  await vi.advanceTimersByTimeAsync(50);
  expect(vi.getTimerCount()).toBe(1);
  await reading.return?.();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(vi.getTimerCount()).toBe(0);
  const { reads } = store;
  await vi.advanceTimersByTimeAsync(1000);
  expect(store.reads).toBe(reads);
});

test('a log that closes while the store fails ends the reader, and no retry is made', async () => {
  const { store, tails, reading } = await servedFromTheRing();
  const failure = reading.next().catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(50);
  tails.close();
  expect(await failure).toMatchObject({ code: 'closed' });
  const { reads } = store;
  await vi.advanceTimersByTimeAsync(1000);
  expect(store.reads).toBe(reads);
  expect(vi.getTimerCount()).toBe(0);
});

test('a reader that nobody has told anything yet is told at once', async () => {
  const tails = new Tails(new FailingStore() as unknown as Store);
  await expect(tails.read('t', 0, {}).next()).rejects.toThrow('the disk is away');
  expect(vi.getTimerCount()).toBe(0);
});
