import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeFrame, FrameDecoder } from './frames.ts';
import { growth } from '../../test/support/busy.ts';

const cut = (bytes: Uint8Array, at: readonly number[]): Uint8Array[] => {
  const places = [...new Set(at.map((n) => n % (bytes.length + 1)))].toSorted((a, b) => a - b);
  return [0, ...places].map((from, n) => bytes.subarray(from, places[n] ?? bytes.length));
};

test('messages are decoded unchanged, in any chunks', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 300 })),
      fc.array(fc.nat(5_000), { maxLength: 40 }),
      (messages, at) => {
        const decoder = new FrameDecoder(1_000);
        const wire = Buffer.concat(messages.map(encodeFrame));
        const out = cut(wire, at).flatMap((chunk) => decoder.decode(chunk));
        expect(out.map((one) => [...one])).toEqual(messages.map((one) => [...one]));
        expect(decoder.partial).toBe(false);
      },
    ),
  );
});

test('an incomplete message is partial and is not returned', () => {
  const decoder = new FrameDecoder(1_000);
  const frame = encodeFrame(new Uint8Array(10));
  expect(decoder.decode(frame.subarray(0, 14))).toEqual([]);
  expect(decoder.partial).toBe(true);
  expect(decoder.decode(frame.subarray(14))).toHaveLength(1);
});

test('a message over the limit is rejected at its header', () => {
  const decoder = new FrameDecoder(9);
  expect(decoder.decode(encodeFrame(new Uint8Array(9)))).toHaveLength(1);
  const header = encodeFrame(new Uint8Array(10)).subarray(0, 5);
  expect(() => decoder.decode(header)).toThrow(expect.objectContaining({ code: 'too_large' }));
});

test('the four bytes of a length are all read', () => {
  const decoder = new FrameDecoder(2 ** 32);
  decoder.decode(new Uint8Array([0, 0xff, 0, 0, 1]));
  expect(() => new FrameDecoder(1).decode(new Uint8Array([0, 0xff, 0, 0, 1]))).toThrow(
    String(0xff000001),
  );
  expect(decoder.partial).toBe(true);
});

test('the error for a compressed message says so', () => {
  const decoder = new FrameDecoder(9);
  expect(() => decoder.decode(new Uint8Array([1, 0, 0, 0, 0]))).toThrow(
    expect.objectContaining({ code: 'unsupported' }),
  );
});

test('a message of many small chunks is joined once', async () => {
  const run = (bytes: number): void => {
    const decoder = new FrameDecoder(bytes);
    const frame = encodeFrame(new Uint8Array(bytes));
    let seen = 0;
    for (let at = 0; at < frame.length; at += 100)
      seen += decoder.decode(frame.subarray(at, at + 100)).length;
    expect(seen).toBe(1);
  };
  expect(await growth(2_000_000, run)).toBeLessThan(10);
});
