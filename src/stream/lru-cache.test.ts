import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LruCache } from './lru-cache.ts';

const step = fc.record({
  do: fc.constantFrom('set', 'set', 'get', 'peek', 'delete', 'clear'),
  key: fc.nat(11),
});

test('keeps the entries used last with their newest values, and never too many', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.array(step, { maxLength: 100 }),
      (capacity, steps) => {
        const recent = new LruCache<number, string>(capacity);
        const latest = new Map<number, string>();
        // The keys by their last use, the newest at the end.
        let used: number[] = [];
        for (const [index, { do: what, key }] of steps.entries()) {
          const others = used.filter((each) => each !== key);
          if (what === 'clear') {
            recent.clear();
            used = [];
          } else if (what === 'delete') {
            recent.delete(key);
            used = others;
          } else if (what === 'set') {
            recent.set(key, `${key} at ${index}`);
            latest.set(key, `${key} at ${index}`);
            used = [...others, key];
          } else if (recent[what as 'get' | 'peek'](key) !== undefined && what === 'get')
            used = [...others, key];
          const there = used.filter((each) => recent.peek(each) !== undefined);
          expect(there.length).toBeLessThan(2 * capacity);
          expect(there).toEqual(expect.arrayContaining(used.slice(-capacity)));
          for (const each of there) expect(recent.peek(each)).toBe(latest.get(each));
          for (let each = 0; each < 12; each++)
            if (!used.includes(each)) expect(recent.peek(each)).toBeUndefined();
          used = there;
        }
      },
    ),
    { numRuns: 100 },
  );
});

test('the sum of the weights is bounded', () => {
  const recent = new LruCache<string, string>(1000, {
    maxWeight: 100,
    weigh: ({ length }) => length,
  });
  for (let index = 0; index < 50; index++) recent.set(`k${index}`, 'x'.repeat(30));
  const kept = Array.from({ length: 50 }, (_, index) => recent.peek(`k${index}`)).filter(Boolean);
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.length * 30).toBeLessThanOrEqual(260);
  // A value that is replaced is not counted twice.
  recent.clear();
  for (let times = 0; times < 50; times++) recent.set('same', 'x'.repeat(30));
  recent.set('other', 'x');
  expect([recent.peek('same'), recent.peek('other')]).toEqual(['x'.repeat(30), 'x']);
});
