import { create } from '@bufbuild/protobuf';
import { DurationSchema, TimestampSchema } from '@bufbuild/protobuf/wkt';
import type { IncomingHttpHeaders } from 'node:http2';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { detailedStatus, detailsIn } from './error-details.ts';
import { decodeMessage, encodeStatusMessage, fromHeaders, toHeaders } from './metadata.ts';
import { fromTrailers, GrpcStatus, statusOf, toTrailers } from './status.ts';
import { decodeTimeout, encodeTimeout } from './timeout.ts';

describe('a timeout', () => {
  test('is never shorter than requested, and hardly longer', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e11, noNaN: true }), (ms) => {
        const back = decodeTimeout(encodeTimeout(ms));
        if (ms <= 99_999_999_000) expect(back).toBeGreaterThanOrEqual(ms);
        expect(back).toBeLessThanOrEqual(Math.max(ms + 1_000, 1));
        expect(encodeTimeout(ms)).toMatch(/^\d{1,8}[mS]$/);
      }),
    );
  });

  test('is decoded in every unit, and rejected in any other form', () => {
    expect(
      ['2H', '2M', '2S', '2m', '2000u', '2000000n'].map((text) => decodeTimeout(text)),
    ).toEqual([7_200_000, 120_000, 2_000, 2, 2, 2]);
    for (const text of ['', '5', 'S', '-1S', '1.5S', '123456789m', '1s'])
      expect(() => decodeTimeout(text)).toThrow(expect.objectContaining({ code: 'malformed' }));
  });
});

describe('headers', () => {
  const key = fc.stringMatching(/^x-[0-9a-z_.-]{1,12}$/);
  const metadata = fc
    .dictionary(key, fc.string({ unit: 'grapheme-ascii' }))
    .map((entries) =>
      Object.fromEntries(
        Object.entries(entries).map(([name, value]) =>
          name.endsWith('-bin') ? [name, new Uint8Array(Buffer.from(value))] : [name, value],
        ),
      ),
    );

  test('metadata is decoded as it was sent', () => {
    fc.assert(
      fc.property(metadata, (sent) => {
        expect(fromHeaders(toHeaders(sent) as IncomingHttpHeaders)).toEqual(sent);
      }),
    );
    const bytes = { 'x-bin': new Uint8Array([0, 255, 128]) };
    expect(fromHeaders(toHeaders(bytes) as IncomingHttpHeaders)).toEqual(bytes);
  });

  test('a message in any script fits into a header, and is decoded unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(encodeStatusMessage(text)).toMatch(/^[\x20-\x7e]*$/);
        expect(decodeMessage(encodeStatusMessage(text))).toBe(text);
      }),
    );
  });

  test('the details of a status are found by their type only', () => {
    const message = create(DurationSchema, { seconds: 7n });
    const status = detailedStatus(9, 'wait', [{ schema: DurationSchema, message }]);
    const error = fromTrailers(
      Object.fromEntries(
        Object.entries(toTrailers(Object.assign(new Error(), { cause: status }))).map(
          ([name, value]) => [name, String(value)],
        ),
      ),
    );
    // A foreign error is `internal`, whatever its cause is.
    expect(error).toMatchObject({ code: 'internal' });
    expect(detailsIn(status, DurationSchema)).toEqual([message]);
    expect(detailsIn(status, TimestampSchema)).toEqual([]);
    const rubbish = new GrpcStatus(9, '', { 'grpc-status-details-bin': new Uint8Array([255]) });
    expect(detailsIn(rubbish, DurationSchema)).toEqual([]);
    expect(detailsIn(statusOf(error), DurationSchema)).toEqual([]);
  });
});
