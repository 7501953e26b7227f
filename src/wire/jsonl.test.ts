import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import type { JsonObject } from '../json.ts';
import { encodeLine, JsonlDecoder, LineDecoder, InvalidLine, parseLine } from './jsonl.ts';

/** The bytes, cut at the given places. */
function cut(bytes: Uint8Array, at: readonly number[]): Uint8Array[] {
  const places = [...new Set(at.map((n) => n % (bytes.length + 1)))].toSorted((a, b) => a - b);
  return [0, ...places].map((from, n) => bytes.subarray(from, places[n]));
}

interface Decoder<T> {
  decode(chunk: Uint8Array): T[];
  flush(): T[];
}

const decodeAll = <T>(decoder: Decoder<T>, chunks: readonly Uint8Array[]): T[] => [
  ...chunks.flatMap((chunk) => decoder.decode(chunk)),
  ...decoder.flush(),
];

const utf8 = (text: string): Uint8Array => Buffer.from(text);
const lines = (text: string, maxBytes?: number): (string | InvalidLine)[] =>
  decodeAll(new LineDecoder(maxBytes === undefined ? {} : { maxBytes }), [utf8(text)]);

const cuts = fc.array(fc.nat(), { maxLength: 40, size: 'max' });
const text = fc.string({ unit: 'binary' });
const awkward = fc.oneof(
  text,
  fc.constantFrom('\u2028', '\u2029', '\u0085', '\r', '\n', '\r\n', '😀', '\0'),
);
const message: fc.Arbitrary<JsonObject> = fc.dictionary(
  awkward,
  fc.oneof(awkward, fc.jsonValue() as fc.Arbitrary<unknown>),
);

describe('any stream', () => {
  test('filterLines gives the lines of decode, in order, as bytes or as text', () => {
    const piece = fc.oneof(text, fc.constantFrom('\n', '\r\n', '\n\n', 'é€😀', '\uFEFF'));
    fc.assert(
      fc.property(fc.array(piece), cuts, fc.nat(3), fc.nat(60), (pieces, at, modulus, maxBytes) => {
        const chunks = cut(utf8(`first\n${pieces.join('')}`), at);
        const sifted: (string | InvalidLine)[] = [];
        const decoder = new LineDecoder({ maxBytes: maxBytes + 5 });
        const take = (bytes: Buffer, start: number, end: number): boolean => {
          const line = bytes.toString('utf8', start, end);
          // Blank lines and the end of a CRLF are for the decoder to judge.
          if ((end - start) % 4 !== modulus || line.trim() === '' || line.endsWith('\r'))
            return false;
          sifted.push(line);
          return true;
        };
        for (const chunk of chunks) {
          decoder.filterLines(chunk, take, (line) => sifted.push(line));
          chunk.fill(0x58); // not ours any more
        }
        sifted.push(...decoder.flush());
        const again = cut(utf8(`first\n${pieces.join('')}`), at);
        expect(sifted).toEqual(decodeAll(new LineDecoder({ maxBytes: maxBytes + 5 }), again));
      }),
      { numRuns: 300 },
    );
  });

  verifies('S2', 'what encodeLine writes is what comes out, however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(message),
        cuts,
        fc.constantFrom('\n', '\r\n'),
        fc.boolean(),
        fc.boolean(),
        (messages, at, newline, lastNewline, bom) => {
          const encoded = messages.map(encodeLine);
          const body = encoded.join('').replaceAll('\n', newline);
          const whole =
            (bom ? '\uFEFF' : '') + (lastNewline ? body : body.slice(0, -newline.length));
          expect(encoded.every((line) => line.indexOf('\n') === line.length - 1)).toBe(true);
          expect(decodeAll(new JsonlDecoder(), cut(utf8(whole), at))).toEqual(
            messages.map((m) => JSON.parse(JSON.stringify(m)) as unknown),
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  verifies('S2', 'byte by byte gives the same lines as one chunk', () => {
    const bytes = utf8('{"a":"é\u2028😀"}\r\n\n  \r\nnoise é\n[1]\n{"b":2}');
    const whole = decodeAll(new JsonlDecoder(), [bytes]);
    expect(whole).toMatchObject([
      { a: 'é\u2028😀' },
      { text: 'noise é', error: { code: 'malformed' } },
      { text: '[1]', error: { code: 'malformed' } },
      { b: 2 },
    ]);
    const single = [...bytes].map((byte) => Uint8Array.of(byte));
    expect(decodeAll(new JsonlDecoder(), single)).toEqual(whole);
  });

  test('arbitrary bytes never throw, and every object among them is decoded', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array()), cuts, (garbage, at) => {
        const parts = garbage.flatMap((bytes, n) => [
          Buffer.from(bytes).map((byte) => (byte === 0x0a ? 0 : byte)),
          utf8(`\n{"n":${n}}\n`),
        ]);
        const out = decodeAll(new JsonlDecoder(), cut(Buffer.concat(parts), at));
        const objects = out.filter((item) => !(item instanceof InvalidLine) && 'n' in item);
        expect(objects).toEqual(garbage.map((_, n) => ({ n })));
      }),
    );
  });

  test('the limit counts bytes exactly, for any chunks, and decoding continues after it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '€', '😀'), minLength: 1 })),
        fc.integer({ min: 1, max: 30 }),
        cuts,
        (texts, maxBytes, at) => {
          const chunks = cut(utf8(texts.map((line) => `${line}\n`).join('')), at);
          const out = decodeAll(new LineDecoder({ maxBytes }), chunks);
          const expected = texts.map((line) =>
            Buffer.byteLength(line) > maxBytes ? 'too_large' : line,
          );
          expect(out.map((item) => (typeof item === 'string' ? item : item.error.code))).toEqual(
            expected,
          );
        },
      ),
    );
  });
});

describe('a line', () => {
  test('over the limit is reported with its size, the limit and its beginning', () => {
    const [noise, next] = lines(`{"a":"${'x'.repeat(5000)}"}\nok`, 4000) as [InvalidLine, string];
    expect(noise).toMatchObject({ error: { code: 'too_large' } });
    expect(noise.error.message).toMatch(/exceeds maxBytes \(4000\): 5008 bytes; increase maxBytes/);
    expect(noise.text).toBe(`{"a":"${'x'.repeat(994)}`);
    expect(next).toBe('ok');
  });

  test('over the limit uses no memory beyond its beginning', () => {
    const decoder = new LineDecoder({ maxBytes: 10_000 });
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    const before = process.memoryUsage().arrayBuffers;
    for (let n = 0; n < 200; n++) expect(decoder.decode(chunk)).toEqual([]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024);
    expect(decoder.decode(utf8('\nok\n'))).toMatchObject([{ error: { code: 'too_large' } }, 'ok']);
  });

  test.each([
    ['in chunks of a pipe', 65_536],
    ['in small chunks', 100],
  ])('of 20 MB %s takes linear time', (_, size) => {
    const line = utf8(encodeLine({ text: 'x'.repeat(20_000_000) }));
    const decoder = new JsonlDecoder();
    const before = process.cpuUsage();
    const out: (JsonObject | InvalidLine)[] = [];
    for (let at = 0; at < line.length; at += size) {
      out.push(...decoder.decode(line.subarray(at, at + size)));
    }
    expect(out).toHaveLength(1);
    expect(String((out[0] as JsonObject)['text'])).toHaveLength(20_000_000);
    // CPU time of this process, so that a busy machine does not fail the test; quadratic time would
    // be minutes.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(5000);
  });

  verifies('S2', 'with U+2028 and U+2029 in a string stays one line', () => {
    expect(lines('{"a":"\u2028\u2029\u0085\v\f"}\n')).toHaveLength(1);
  });

  test('that is JSON but not an object is invalid', () => {
    for (const value of ['null', '[]', '[{}]', '1', '"{}"', 'true']) {
      expect(parseLine(value)).toMatchObject({ text: value, error: { code: 'malformed' } });
    }
  });

  test('that is invalid is kept up to a thousand characters', () => {
    expect((parseLine('x'.repeat(5000)) as InvalidLine).text).toBe('x'.repeat(1000));
  });

  test('loses a byte order mark only at the beginning of the stream', () => {
    expect(lines('\uFEFFa\n\uFEFFb')).toEqual(['a', '\uFEFFb']);
  });

  test('is returned without its CR, also if that is the last byte of the stream', () => {
    expect(lines('a\r\nb\rc\r\n\r\nd\r')).toEqual(['a', 'b\rc', 'd']);
  });

  test('keeps its text when its chunk is overwritten afterwards', () => {
    const decoder = new LineDecoder();
    const chunk = Buffer.from('abc\ndef');
    const first = decoder.decode(chunk);
    chunk.fill('z');
    expect([...first, ...decoder.decode(utf8('g\n'))]).toEqual(['abc', 'defg']);
  });

  verifies('S12', 'of an unknown type, with unknown members, passes through untouched', () => {
    const odd = { type: 'from_the_future', nested: { deeper: [{ unknown: null }] }, '': 1 };
    const out = decodeAll(new JsonlDecoder(), [
      utf8(encodeLine(odd) + encodeLine({ no_type: true }) + encodeLine({ type: 7 })),
    ]);
    expect(out).toEqual([odd, { no_type: true }, { type: 7 }]);
  });
});
