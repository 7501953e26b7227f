import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeHeader, encodeHeaderText } from './encoded-header.ts';

test('any text is decoded unchanged, and its encoding is valid in a header', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'grapheme' })), (text) => {
      for (const given of [text, encodeHeaderText(text)]) {
        expect(encodeHeaderText(given)).toMatch(/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/);
        expect(decodeHeader(encodeHeaderText(given))).toBe(given);
      }
    }),
  );
});

test('invalid base64 is decoded to undefined', () => {
  expect(decodeHeader('=?base64?%%?=')).toBeUndefined();
  expect(decodeHeader('plain')).toBe('plain');
});
