import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import type { Entry, Seq } from '../../event/types.ts';
import { encodeEvent, numberLine } from '../store/line-codec.ts';
import type { Commit, ReadResult, EntryRow, Store } from '../store/store.ts';
import { LiveTails } from './live-tail.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const row = (seq: Seq): EntryRow => ({
  seq,
  note: false,
  line: numberLine(encodeEvent({ type: 'text.delta', id: 't', delta: `${seq}` }), seq),
});

const commit = (head: Seq, rows: readonly EntryRow[]): Commit => ({
  task: 't',
  epoch: 1,
  claimed: true,
  rows,
  head,
  ended: false,
  claimable: false,
});

/** A store with three entries that fails until a test lets it work. */
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
  readonly tails: LiveTails;
  readonly reading: ReturnType<LiveTails['read']>;
}> {
  const store = new FailingStore();
  const tails = new LiveTails(store as unknown as Store);
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

test('it gives up after a time, and throws the error of the store', async () => {
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

test('a reader that has read nothing yet gets the error immediately', async () => {
  const tails = new LiveTails(new FailingStore() as unknown as Store);
  await expect(tails.read('t', 0, {}).next()).rejects.toThrow('the disk is away');
  expect(vi.getTimerCount()).toBe(0);
});

test('what every reader has passed is not kept, and what one of them has not is', async () => {
  const store = new FailingStore();
  store.fails = false;
  const tails = new LiveTails(store as unknown as Store);
  tails.keep('t');
  const [quick, slow, late] = [0, 0, 0].map((after) => tails.read('t', after, {}));
  const seqOf = async (reading = late): Promise<Seq | undefined> =>
    ((await reading?.next())?.value as Entry | undefined)?.seq;
  tails.commit(commit(1, [row(1)]));
  expect([await seqOf(quick), await seqOf(slow)]).toEqual([1, 1]);
  for (const seq of [2, 3]) {
    tails.commit(commit(seq, [row(seq)]));
    expect(await seqOf(quick)).toBe(seq);
  }
  expect([await seqOf(slow), await seqOf(slow)]).toEqual([2, 3]);
  expect(store.reads).toBe(0);
  // A new reader begins with the store.
  expect([await seqOf(late), await seqOf(late), await seqOf(late)]).toEqual([1, 2, 3]);
  expect(store.reads).toBe(1);
});

/** One step of a task with readers: more entries, a new reader, or a reader that reads or stops. */
type Step =
  | { readonly do: 'commit'; readonly count: number; readonly rows: boolean }
  | { readonly do: 'come'; readonly behind: number }
  | { readonly do: 'read' | 'leave'; readonly who: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      count: fc.integer({ min: 1, max: 300 }),
      rows: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('come' as const), behind: fc.nat(600) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('read' as const, 'leave' as const),
      who: fc.nat(4),
    }),
  },
);

test('every reader, from any position, gets every entry once and in order', async () => {
  vi.useRealTimers();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      let head = 1;
      let ended = false;
      const store = {
        read: async (_task: string, after: Seq): Promise<ReadResult> => {
          const last = Math.min(head, after + 100);
          const rows = Array.from({ length: Math.max(0, last - after) }, (_, n) =>
            row(after + 1 + n),
          );
          return { rows, head, ended };
        },
      };
      const tails = new LiveTails(store as unknown as Store);
      tails.keep('t');
      const readers: { seen: Seq; readonly reading: ReturnType<LiveTails['read']> }[] = [];
      const readSome = async (reader: (typeof readers)[number], upTo: Seq): Promise<void> => {
        while (reader.seen < upTo) {
          const entry = reader.reading.take() ?? (await reader.reading.next()).value;
          expect(entry?.seq).toBe(++reader.seen);
        }
      };
      for (const next of steps) {
        if (next.do === 'commit') {
          const rows = Array.from({ length: next.count }, (_, n) => row(head + 1 + n));
          head += next.count;
          tails.commit(commit(head, next.rows ? rows : []));
        } else if (next.do === 'come') {
          const after = Math.max(0, head - next.behind);
          readers.push({ seen: after, reading: tails.read('t', after, {}) });
        } else {
          const reader = readers[next.who % Math.max(1, readers.length)];
          if (!reader) continue;
          if (next.do === 'read') await readSome(reader, Math.min(head, reader.seen + 150));
          else {
            readers.splice(readers.indexOf(reader), 1);
            await reader.reading.return?.();
          }
        }
      }
      ended = true;
      tails.commit({ ...commit(++head, [row(head)]), ended });
      for (const reader of readers) {
        await readSome(reader, head);
        expect((await reader.reading.next()).done).toBe(true);
      }
    }),
    { numRuns: 150 },
  );
});
