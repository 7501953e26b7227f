import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Fifo } from './fifo.ts';

test('behaves like an array with push and shift, at any length', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: -2000, max: 2000 }), { maxLength: 30, size: 'max' }),
      (moves) => {
        const fifo = new Fifo<number>();
        const model: number[] = [];
        const [seen, expected]: [unknown[], unknown[]] = [[], []];
        let next = 0;
        for (const move of moves) {
          for (let n = 0; n < move; n++) {
            fifo.push(next);
            model.push(next++);
          }
          for (let n = 0; n > move; n--) {
            seen.push(fifo.shift());
            expected.push(model.shift());
          }
          seen.push(fifo.length);
          expected.push(model.length);
        }
        expect(seen).toEqual(expected);
      },
    ),
    { numRuns: 30 },
  );
});

test('clear empties the queue, and it can be used again', () => {
  for (const size of [3, 3000]) {
    const fifo = new Fifo<number>();
    for (let n = 0; n < size; n++) fifo.push(n);
    fifo.shift();
    fifo.clear();
    expect(fifo.length).toBe(0);
    fifo.push(7);
    expect(fifo.shift()).toBe(7);
    expect(fifo.shift()).toBeUndefined();
  }
});
