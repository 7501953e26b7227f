import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Tail } from './tail.ts';

test('it is the end of what was pushed, cut at a character', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 40 })), (texts) => {
      const tail = new Tail(32);
      for (const text of texts) tail.push(Buffer.from(text));
      const all = texts.join('');
      const kept = tail.toString();
      expect(all.endsWith(kept)).toBe(true);
      const bytes = Buffer.byteLength(kept);
      expect(bytes).toBeLessThanOrEqual(32);
      expect(bytes).toBeGreaterThan(Math.min(32, Buffer.byteLength(all)) - 4);
    }),
  );
});

test('a flood of small pieces takes linear time', () => {
  const tail = new Tail(64 * 1024);
  const piece = Buffer.from('abcdefgh');
  const started = performance.now();
  for (let i = 0; i < 1_000_000; i++) tail.push(piece);
  expect(performance.now() - started).toBeLessThan(5000);
  expect(tail.toString()).toHaveLength(64 * 1024);
});
