import fc from 'fast-check';
import { expect, test } from 'vitest';
import { byteLength, utf8Length } from './byte-length.ts';

test('counts the bytes of any text as Buffer does', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(utf8Length(text)).toBe(Buffer.byteLength(text));
      expect(byteLength(text)).toBe(Buffer.byteLength(text));
    }),
  );
  expect(utf8Length('aß€𝄞')).toBe(10);
});
