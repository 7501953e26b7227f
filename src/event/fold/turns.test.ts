import fc from 'fast-check';
import { expect, test } from 'vitest';
import { advance } from './advance.ts';
import { addTurn, countTurns } from './turns.ts';
import type { Entry, Snapshot, Turn } from '../types.ts';

const turn = (id: number, text = 'hi'): Turn => ({
  agent: 'a',
  task: 't',
  context: 'c',
  messageId: `m${id}`,
  parts: [{ text }],
});

test('a long conversation keeps its first turn, its last turn and the newest ones before it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(100_000), { maxLength: 250 }), (sizes) => {
      let kept: Pick<Snapshot, 'turns' | 'omitted'> = { turns: [turn(0)] };
      for (const [at, size] of sizes.entries())
        kept = addTurn(kept, turn(at + 1, 'x'.repeat(size)));
      const { turns, omitted = 0 } = kept;
      expect(countTurns(kept)).toBe(sizes.length + 1);
      expect(turns.length).toBeLessThanOrEqual(101);
      const numbers = turns.map(({ messageId }) => Number(messageId.slice(1)));
      const newest = Array.from({ length: turns.length - 1 }, (_, at) => at + 1 + omitted);
      expect(numbers).toEqual([0, ...newest]);
      const chars = sizes.slice(omitted).reduce((sum, size) => sum + size, 0);
      expect(turns.length <= 2 || chars <= 256 * 1024).toBe(true);
    }),
  );
});

test.for([
  ['data', { parts: [{ data: { long: 'x'.repeat(100_000) } }] }],
  ['metadata', { metadata: { long: 'x'.repeat(100_000) } }],
  ['answers', { answers: [{ id: 'q', action: 'accept', content: 'x'.repeat(100_000) }] }],
] as const)('the %s of turns count as much as their text', ([, long]) => {
  let kept: Pick<Snapshot, 'turns' | 'omitted'> = { turns: [turn(0)] };
  for (let id = 1; id <= 10; id++) kept = addTurn(kept, { ...turn(id), ...long });
  expect(kept).toMatchObject({ turns: { length: 3 }, omitted: 8 });
});

test('a task of a thousand turns has a snapshot no larger than one of some hundred', () => {
  let snapshot: Snapshot | undefined;
  let seq = 0;
  const fold = (entry: object): void => {
    snapshot = advance(snapshot, { ...entry, seq: ++seq, at: seq } as Entry);
  };
  const sizes: number[] = [];
  for (let id = 0; id < 1000; id++) {
    fold({ type: 'turn.submitted', turn: turn(id) });
    fold({ type: 'run.started', turn: `m${id}` });
    fold({ type: 'input.required', request: { id: `q${id}`, kind: 'question', message: '?' } });
    fold({ type: 'run.finished', outcome: 'input-required', text: '' });
    sizes.push(JSON.stringify(snapshot).length);
  }
  expect(sizes[999]).toBeLessThan((sizes[199] as number) * 1.1);
  expect(snapshot).toMatchObject({ omitted: 900, current: { messageId: 'm999' } });
});

test('a turn in a long queue gets its run although it is not among the newest', () => {
  let snapshot: Snapshot | undefined;
  const entries = [
    ...Array.from({ length: 300 }, (_, id) => ({ type: 'turn.submitted', turn: turn(id) })),
    { type: 'run.started', turn: 'm0' },
    { type: 'run.finished', outcome: 'completed', text: '' },
    { type: 'run.started', turn: 'm1' },
  ];
  for (const [at, entry] of entries.entries())
    snapshot = advance(snapshot, { ...entry, seq: at + 1, at } as Entry);
  expect(snapshot).toMatchObject({ current: { messageId: 'm1' }, unserved: { length: 298 } });
});
