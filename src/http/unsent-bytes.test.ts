import { expect, test } from 'vitest';
import { UnsentBytes } from './unsent-bytes.ts';

test('long responses that are not read have a limit; one is always sent', () => {
  const unsent = new UnsentBytes(100, () => 0);
  const cut = (): void => expect.unreachable();
  const first = unsent.begin(500, cut);
  expect(first).toBeDefined();
  expect(unsent.begin(1, cut)).toBeUndefined();
  // A response of which most is sent is still in memory as a whole.
  first?.progress();
  expect(unsent.begin(1, cut)).toBeUndefined();
  first?.end();
  first?.end();
  expect(unsent.begin(50, cut)).toBeDefined();
  expect(unsent.begin(50, cut)).toBeDefined();
  expect(unsent.begin(1, cut)).toBeUndefined();
});

test('a client that has stopped reading is disconnected for others, and one that reads is not', () => {
  let now = 0;
  const cuts: string[] = [];
  const unsent = new UnsentBytes(100, () => now);
  unsent.begin(50, () => cuts.push('silent'));
  const reads = unsent.begin(50, () => cuts.push('reads'));
  now = 1500;
  reads?.progress();
  expect(unsent.begin(50, () => cuts.push('third'))).toBeDefined();
  expect(cuts).toEqual(['silent']);
  expect(unsent.begin(1, () => {})).toBeUndefined();
});

test('one owner has at most half of it, and its silent clients make space for its own', () => {
  let now = 0;
  const cuts: string[] = [];
  const unsent = new UnsentBytes(100, () => now);
  const begin = (owner: string, bytes: number) =>
    unsent.begin(bytes, () => cuts.push(owner), owner);
  expect(begin('ann', 30)).toBeDefined();
  expect(begin('ann', 30)).toBeUndefined();
  const other = begin('bob', 60);
  expect(other).toBeDefined();
  now = 1500;
  expect(begin('ann', 30)).toBeDefined();
  expect(cuts).toEqual(['ann']);
  other?.end();
  expect(begin('bob', 50)).toBeDefined();
});
