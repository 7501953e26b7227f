import { describe, expect, test } from 'vitest';
import { numbered } from '../../test/support/arbitraries.ts';
import { compareIds, parseId, resume, withIds } from './event-id.ts';
import type { Encoder } from './types.ts';

const status = (seq: number, message: string) => numbered({ type: 'status', message }, seq);
/** One output for each character of a status. */
const letters: Encoder<string> = (entry) =>
  entry.type === 'status' ? Array.from(entry.message) : [];

describe('ids', () => {
  test('the last output of entry N is N, earlier ones are N.k, and an entry without outputs has none', () => {
    const encoder = withIds(letters);
    expect(encoder(status(7, 'abc'))).toEqual([
      { id: '7.0', out: 'a' },
      { id: '7.1', out: 'b' },
      { id: '7', out: 'c' },
    ]);
    expect(encoder(status(8, ''))).toEqual([]);
  });

  test('sort as they were sent', () => {
    const sent = ['0', '2', '9.0', '9.1', '9.10', '9', '10.0', '10'];
    expect(sent.toReversed().toSorted(compareIds)).toEqual(sent);
  });

  test.each(['', 'x', '-1', '01', '1.', '1.x', '1e3', ' 1', '9999999999999999', '1.0.0'])(
    'an invalid id is refused: %j',
    (id) => {
      expect(() => parseId(id)).toThrow(expect.objectContaining({ code: 'invalid' }));
    },
  );

  test('resuming in the middle of an entry gives the rest of that entry', () => {
    const log = [status(1, 'ab'), status(2, 'cde'), status(3, 'f')];
    const rest = (id: string): string =>
      log
        .flatMap((entry) => [...resume(letters, id)(entry)])
        .map(({ out }) => out)
        .join('');
    expect([rest('0'), rest('1'), rest('2.0'), rest('2.1'), rest('2'), rest('3')]).toEqual([
      'abcdef',
      'cdef',
      'def',
      'ef',
      'f',
      '',
    ]);
  });
});
