import { describe, expect, test } from 'vitest';
import {
  asArray,
  asNumber,
  asObject,
  asObjects,
  asString,
  asStrings,
  omitUndefined,
} from './json.ts';

const OTHERS = [undefined, null, 0, 1, Number.NaN, '', 'text', true, [], [1], {}, { a: 1 }];

describe('readers of untrusted values', () => {
  test('return the value when it has the type', () => {
    expect(asObject({ a: 1 })).toEqual({ a: 1 });
    expect(asArray([1, 'a'])).toEqual([1, 'a']);
    expect(asObjects([{ a: 1 }, 2, null, [3]])).toEqual([{ a: 1 }]);
    expect(asString('a')).toBe('a');
    expect(asStrings(['a', 1, 'b', null])).toEqual(['a', 'b']);
    expect(asNumber(0)).toBe(0);
  });

  test.each(OTHERS)('return something empty for every other value: %j', (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      expect(asObject(value)).toEqual({});
    if (!Array.isArray(value)) {
      expect(asArray(value)).toEqual([]);
      expect(asObjects(value)).toEqual([]);
      expect(asStrings(value)).toEqual([]);
    }
    if (typeof value !== 'string') expect(asString(value, 'fallback')).toBe('fallback');
    if (typeof value !== 'number' || Number.isNaN(value)) expect(asNumber(value)).toBeUndefined();
  });
});

test('omitUndefined keeps null, false and empty values', () => {
  expect(omitUndefined({ a: undefined, b: null, c: false, d: '', e: 0 })).toEqual({
    b: null,
    c: false,
    d: '',
    e: 0,
  });
});
