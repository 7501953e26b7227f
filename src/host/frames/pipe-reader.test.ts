import fc from 'fast-check';
import { expect, test } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import type { JsonObject } from '../../json.ts';
import { PipeReader } from './pipe-reader.ts';

/** A reader alone, and what it reported, in order. */
function reading({ behind = false }: { readonly behind?: boolean } = {}) {
  const reported: string[] = [];
  const reader = new PipeReader({
    maxLineBytes: 200,
    lanes: {
      behind,
      control: (direction, { request_id }) =>
        reported.push(`seen ${direction} ${String(request_id)}`),
      noise: ({ text }) => reported.push(`noise ${text}`),
      skim: (bytes, start, end) =>
        reported.push(`skimmed ${bytes.toString('utf8', start, end)}`) > 0,
    },
    onControl: ({ request_id }) => reported.push(`control ${String(request_id)}`),
    onMessage: ({ n }, line) => reported.push(`message ${String(n)} of ${line.length}`),
  });
  return { reader, reported };
}

const lines = (...frames: (JsonObject | string)[]): Buffer =>
  Buffer.from(
    frames.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)) + '\n').join(''),
  );

verifies(
  'S6',
  'the message reader, alone: control frames are dispatched before they are queued, in order',
  () => {
    const { reader, reported } = reading();
    reader.read(
      lines(
        { type: 'assistant', n: 1 },
        { type: 'control_request', request_id: 'a' },
        'null',
        { type: 'result', n: 2 },
        'x'.repeat(300),
      ),
      1,
    );
    reader.read(Buffer.from('{"type":"user","n":3}'), 2);
    reader.end();
    expect(reported).toEqual([
      'message 1 of 26',
      'control a',
      'seen in a',
      'noise null',
      'message 2 of 23',
      `noise ${'x'.repeat(300)}`,
      'message 3 of 21',
    ]);
  },
);

test('lines are skimmed only when the session id is known and the app is behind', () => {
  const { reader, reported } = reading({ behind: true });
  const chunk = lines({ type: 'assistant', n: 1 }, { type: 'control_request', request_id: 'a' });
  expect(reader.read(chunk, 1)).toBe(false);
  reader.maySkim = true;
  expect(reader.read(chunk, 2)).toBe(true);
  expect(reported).toEqual([
    'message 1 of 26',
    'control a',
    'seen in a',
    'skimmed {"type":"assistant","n":1}',
    'control a',
    'seen in a',
  ]);
});

test('the result does not depend on how the bytes are split', () => {
  const whole = lines(
    { type: 'assistant', n: 1, text: 'é€😀' },
    { type: 'control_request', request_id: 'a' },
    'words',
    { type: 'result', n: 2 },
  );
  fc.assert(
    fc.property(fc.array(fc.nat(whole.length)), fc.boolean(), (at, behind) => {
      const once = reading({ behind });
      const cut = reading({ behind });
      once.reader.maySkim = cut.reader.maySkim = true;
      once.reader.read(whole, 1);
      const places = [0, ...at.toSorted((a, b) => a - b), whole.length];
      places.slice(1).forEach((to, n) => cut.reader.read(whole.subarray(places[n], to), 1));
      cut.reader.end();
      // Whether a line is skimmed may not depend on where it was cut either.
      expect(cut.reported).toEqual(once.reported);
    }),
  );
});
