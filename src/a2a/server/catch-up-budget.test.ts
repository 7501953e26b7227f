import { expect, test } from 'vitest';
import { Cancellation } from '../../stream/cancellation.ts';
import { CatchUpBudget } from './catch-up-budget.ts';

const CHARS = 100_000;

test('long tasks are built one after the other, in order; short ones do not wait', async () => {
  const budget = new CatchUpBudget(1.5 * CHARS);
  const begun: number[] = [];
  const [first, ...later] = [1, 2, 3].map(async (number) => {
    const free = await budget.take(CHARS, undefined, {});
    begun.push(number);
    return free;
  });
  const free = await first;
  await budget.take(1000, undefined, {});
  expect(begun).toEqual([1]);
  free?.();
  free?.();
  (await later[0])?.();
  await later[1];
  expect(begun).toEqual([1, 2, 3]);
});

test('a stream that is closed leaves the queue, or frees what it has', async () => {
  const budget = new CatchUpBudget(1);
  const [running, waiting] = [new Cancellation(), new Cancellation()];
  await budget.take(CHARS, undefined, running);
  const closed = budget.take(CHARS, undefined, waiting);
  const next = budget.take(CHARS, undefined, {});
  waiting.abort(undefined);
  (await closed)();
  running.abort(undefined);
  await expect(next).resolves.toBeTypeOf('function');
});

test('a stream of a shorter task goes first', async () => {
  const budget = new CatchUpBudget(1);
  const free = await budget.take(CHARS, undefined, {});
  const begun: string[] = [];
  const take = async (name: string, chars: number): Promise<void> => {
    const done = await budget.take(chars, undefined, {});
    begun.push(name);
    done();
  };
  const both = [take('long', 9 * CHARS), take('short', CHARS)];
  free();
  await Promise.all(both);
  expect(begun).toEqual(['short', 'long']);
});

test('streams of one owner that do not end leave half of the memory to others', async () => {
  const budget = new CatchUpBudget(4 * CHARS);
  const begun: string[] = [];
  const take = async (owner: string, chars: number): Promise<() => void> => {
    const free = await budget.take(chars, owner, {});
    begun.push(owner);
    return free;
  };
  const [first, ...others] = Array.from({ length: 5 }, () => take('ann', CHARS));
  const longer = take('bob', 2 * CHARS);
  await longer;
  expect(begun).toEqual(['ann', 'ann', 'bob']);
  // Each of them lets one more of its owner go on.
  (await first)?.();
  await others[1];
  expect(begun).toEqual(['ann', 'ann', 'bob', 'ann']);
});
