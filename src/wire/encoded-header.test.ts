import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeHeader, encodeHeaderText } from './encoded-header.ts';

test('any text comes out as it went in, and is what a header can carry', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'grapheme' })), (text) => {
      for (const given of [text, encodeHeaderText(text)]) {
        expect(encodeHeaderText(given)).toMatch(/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/);
        expect(decodeHeader(encodeHeaderText(given))).toBe(given);
      }
    }),
  );
});

test('what says that it is base64 and is not is undefined', () => {
  expect(decodeHeader('=?base64?%%?=')).toBeUndefined();
  expect(decodeHeader('plain')).toBe('plain');
});
