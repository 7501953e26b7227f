import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StderrTail } from './stderr-tail.ts';
import { growth } from '../../test/support/busy.ts';

test('the text is the end of the input, beginning at a complete character', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 40 })), (texts) => {
      const tail = new StderrTail(32);
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

test('many small chunks take linear time', async () => {
  const piece = Buffer.from('abcdefgh');
  const run = (pieces: number): void => {
    const tail = new StderrTail(64 * 1024);
    for (let i = 0; i < pieces; i++) tail.push(piece);
    expect(tail.toString()).toHaveLength(64 * 1024);
  };
  expect(await growth(250_000, run)).toBeLessThan(10);
});
