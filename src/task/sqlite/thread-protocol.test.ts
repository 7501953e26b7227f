import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeEvent } from '../store/line-codec.ts';
import { StoreRules } from '../store/store-rules.ts';
import { MemoryStorage } from '../memory/memory-storage.ts';
import {
  type ThreadCall,
  type Done,
  packCalls,
  packDone,
  unpackCalls,
  unpackDone,
} from './thread-protocol.ts';

const line = fc.string().map((delta) => JSON.stringify({ type: 'text.delta', id: 't', delta }));
const append = fc
  .record({ task: fc.string(), epoch: fc.nat(), after: fc.nat(), events: fc.array(line) })
  .map((request) => ({ method: 'append' as const, args: [request] }));
const other = fc.string().map((task) => ({ method: 'get' as const, args: [task] }));
const calls = fc
  .array(fc.oneof(append, other))
  .map((all): ThreadCall[] => all.map((call, id) => ({ id, ...call })));

test('calls arrive as they were made, in their order', () => {
  fc.assert(
    fc.property(calls, (made) => {
      expect(unpackCalls(structuredClone(packCalls(made)))).toEqual(made);
    }),
  );
});

test('an append of any length travels', () => {
  const events = Array.from({ length: 200_000 }, (_, index) => String(index));
  const args = [{ task: 't', epoch: 1, after: 1, events }];
  const call: ThreadCall = { id: 1, method: 'append', args };
  expect(unpackCalls(packCalls([call]))).toEqual([call]);
});

test.each([
  ['claimed', true],
  ['not claimed', false],
])('a new task arrives as the ledger made it, %s', (_name, claims) => {
  const tables = new MemoryStorage(10, () => {});
  const ledger = new StoreRules(tables, { now: () => 5, steady: () => 5 });
  const turn = {
    agent: 'a',
    task: 't',
    context: 'c',
    messageId: 'm',
    parts: [{ text: 'Hi "you"' }],
  };
  const request = {
    note: encodeEvent({ type: 'turn.submitted', turn }),
    leaseMs: 100,
    dedupe: true,
    ...(claims && { worker: 'w' }),
  };
  const call: ThreadCall = { id: 7, method: 'submit', args: [request] };
  const done: Done = {
    reply: { id: 7, value: ledger.submit(request) },
    commits: ledger.takeCommits(),
  };
  const packed = packDone([call], [done]);
  expect(packed).toHaveLength(3);
  const arrived = unpackDone(structuredClone(packed), () => call);
  expect(arrived).toMatchObject([done]);
  expect(arrived[0]?.commits[0]?.rows[0]?.entry).toMatchObject({ seq: 1, turn });
});

test('a message that is known arrives with the entry that is there', () => {
  const call: ThreadCall = { id: 7, method: 'submit', args: [{ note: '{}' }] };
  const row = { seq: 1, note: true, line: '{}' };
  const done: Done = { reply: { id: 7, value: { task: 't', row } }, commits: [] };
  expect(unpackDone(structuredClone(packDone([call], [done])), () => call)).toEqual([done]);
});

test('what was done arrives as it was done: refusals, values, and commits with their rows', () => {
  const outcomes = fc.infiniteStream(fc.record({ refused: fc.boolean(), flags: fc.nat(7) }));
  fc.assert(
    fc.property(calls, outcomes, (made, stream) => {
      const done = made.map(({ id, method, args }): Done => {
        const { refused, flags } = stream.next().value as { refused: boolean; flags: number };
        if (refused)
          return {
            reply: { id, failure: { code: 'closed', message: 'ended', retryable: false } },
            commits: [],
          };
        if (method !== 'append') return { reply: { id, value: args }, commits: [] };
        const [{ task, epoch, after, events }] = args as [
          { task: string; epoch: number; after: number; events: string[] },
        ];
        const rows = events.map((event, at) => ({
          seq: after + 1 + at,
          note: false,
          line: `${event.slice(0, -1)},"seq":${after + 1 + at}}`,
        }));
        const head = after + events.length;
        const commit = {
          task,
          epoch,
          claimed: (flags & 1) > 0,
          rows,
          head,
          ended: (flags & 2) > 0,
          claimable: (flags & 4) > 0,
        };
        return { reply: { id, value: head }, commits: [commit] };
      });
      const arrived = unpackDone(structuredClone(packDone(made, done)), (id) => made[id]);
      expect(arrived).toEqual(done);
    }),
  );
});
