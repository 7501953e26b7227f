import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { InvalidLine } from './jsonl.ts';
import { encodeSse, SseDecoder, type SseMessage } from './sse.ts';

const utf8 = (text: string): Uint8Array => Buffer.from(text);

function cut(bytes: Uint8Array, at: readonly number[]): Uint8Array[] {
  const places = [...new Set(at.map((n) => n % (bytes.length + 1)))].toSorted((a, b) => a - b);
  return [0, ...places].map((from, n) => bytes.subarray(from, places[n]));
}

const decodeAll = (text: string, decoder = new SseDecoder()): (SseMessage | InvalidLine)[] =>
  decoder.decode(utf8(text));
const dataOf = (text: string): (string | undefined)[] =>
  decodeAll(text).map((each) => (each instanceof InvalidLine ? undefined : each.data));

/** The standard's algorithm, step by step over a whole stream, with its own names. */
function reference(stream: string): SseMessage[] {
  const out: SseMessage[] = [];
  let [dataBuffer, typeBuffer, idBuffer] = ['', '', ''];
  const lines = stream.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
  lines.pop(); // a line without its end is not one
  for (const line of lines) {
    if (line === '') {
      if (dataBuffer !== '') {
        const data = dataBuffer.endsWith('\n') ? dataBuffer.slice(0, -1) : dataBuffer;
        out.push({ event: typeBuffer || 'message', data, lastEventId: idBuffer });
      }
      [dataBuffer, typeBuffer] = ['', ''];
      continue;
    }
    const [, field, value] = /^([^:]*)(?::\x20?([^]*))?$/.exec(line) ?? [];
    if (field === 'event') typeBuffer = value ?? '';
    if (field === 'data') dataBuffer += `${value ?? ''}\n`;
    if (field === 'id' && !value?.includes('\0')) idBuffer = value ?? '';
  }
  return out;
}

const cuts = fc.array(fc.nat(), { maxLength: 40, size: 'max' });
const piece = fc.oneof(
  fc.constantFrom('data', 'event', 'id', 'retry', 'dataa', ':', ': ', ' ', 'x', '12', '\t', '\0'),
  fc.constantFrom('\n', '\r', '\r\n', '\n\n', 'data: {"a":1}\n', 'id: 7\n'),
  fc.constantFrom('é', '€', '😀', '\uFEFF', '\u2028'),
);

describe('SseDecoder', () => {
  test('agrees with the algorithm of the standard on any text, in any chunks', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60, size: 'max' }), cuts, (pieces, at) => {
        const stream = pieces.join('');
        const decoder = new SseDecoder();
        const out = cut(utf8(stream), at).flatMap((chunk) => decoder.decode(chunk));
        expect(out).toEqual(reference(stream));
      }),
      { numRuns: 1000 },
    );
  });

  test('returns what encodeSse wrote, in any chunks', () => {
    const word = fc.string({ unit: 'grapheme' }).filter((text) => !/[\r\n\0]/.test(text));
    const event = fc.record(
      { data: fc.string({ unit: 'grapheme' }), id: word, event: word, retry: fc.nat() },
      { requiredKeys: ['data'] },
    );
    fc.assert(
      fc.property(fc.array(event), cuts, (events, at) => {
        const decoder = new SseDecoder();
        const bytes = utf8(events.map(encodeSse).join(''));
        const out = cut(bytes, at).flatMap((chunk) => decoder.decode(chunk));
        let lastEventId = '';
        const expected = events.map((each) => {
          lastEventId = each.id ?? lastEventId;
          const data = each.data.replace(/\r\n?/g, '\n');
          return { event: each.event || 'message', data, lastEventId };
        });
        expect(out).toEqual(expected);
        expect(decoder.retryMs).toBe(events.findLast(({ retry }) => retry !== undefined)?.retry);
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ['data: a\n\n', ['a']],
    ['data:a\ndata: b\ndata\n\n', ['a\nb\n']],
    ['data:  two spaces\n\n', [' two spaces']],
    ['data\n\ndata\ndata\n\ndata:', ['', '\n']],
    [': comment\ndata: a\n: another\n\n', ['a']],
    ['event: only\n\ndata: a\n\n', ['a']],
    ['data: a\r\rdata: b\r\n\r\n', ['a', 'b']],
    ['\uFEFFdata: a\n\n\uFEFFdata: b\n\n', ['a']],
    ['data: unfinished\n', []],
  ])('%j', (stream, expected) => {
    expect(dataOf(stream)).toEqual(expected);
  });

  test('keeps the last id over events and blank lines without data; ignores an id with NUL', () => {
    const decoder = new SseDecoder();
    const out = decodeAll('id: 1\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid: 3\n', decoder);
    expect(out).toMatchObject([{ lastEventId: '1' }, { lastEventId: '1' }, { lastEventId: '1' }]);
    expect(decoder.lastEventId).toBe('1');
    decodeAll('\n', decoder);
    expect(decoder.lastEventId).toBe('3');
    decodeAll('id\n\n', decoder);
    expect(decoder.lastEventId).toBe('');
  });

  test('an empty chunk between CR and LF changes nothing', () => {
    const decoder = new SseDecoder();
    const out = ['data: a\r', '', '\ndata: b\r', '', '\n\r\n'].flatMap((text) =>
      decodeAll(text, decoder),
    );
    expect(out).toMatchObject([{ data: 'a\nb' }]);
  });

  test('retry accepts digits only', () => {
    const decoder = new SseDecoder();
    decodeAll('retry: 12x\nretry: -1\nretry: 1.5\nretry:\n\n', decoder);
    expect(decoder.retryMs).toBeUndefined();
    decodeAll('retry: 0150\n\n', decoder);
    expect(decoder.retryMs).toBe(150);
  });

  test('an event over the limit is reported, in one line or in many, and decoding continues', () => {
    const long = `data: ${'x'.repeat(3000)}\n\n`;
    const many = `${'data: xxxxxxxxxx\n'.repeat(100)}\n`;
    for (const size of [1, 7, 100_000]) {
      const decoder = new SseDecoder({ maxBytes: 1000 });
      const bytes = utf8(`${long}data: a\n\n${many}id: 4\ndata: b\n\n`);
      const out: (SseMessage | InvalidLine)[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        out.push(...decoder.decode(bytes.subarray(at, at + size)));
      }
      expect(out).toMatchObject([
        {
          error: { code: 'too_large', message: expect.stringMatching(/exceeds maxBytes \(1000\)/) },
        },
        { data: 'a' },
        { error: { code: 'too_large' } },
        { data: 'b', lastEventId: '4' },
      ]);
    }
  });

  test('comments and repeated ids do not count against the limit', () => {
    const decoder = new SseDecoder({ maxBytes: 100 });
    expect(decodeAll(': keep-alive\n'.repeat(1000), decoder)).toEqual([]);
    expect(decodeAll('id: 1\n'.repeat(1000), decoder)).toEqual([]);
    expect(decodeAll('data: a\n\n', decoder)).toMatchObject([{ data: 'a' }]);
  });

  test('an event of 20 MB takes linear time in small chunks', () => {
    const bytes = utf8(encodeSse({ data: 'x'.repeat(20_000_000) }));
    const decoder = new SseDecoder();
    const before = process.cpuUsage();
    const out: (SseMessage | InvalidLine)[] = [];
    for (let at = 0; at < bytes.length; at += 1000) {
      out.push(...decoder.decode(bytes.subarray(at, at + 1000)));
    }
    expect((out[0] as SseMessage).data).toHaveLength(20_000_000);
    // CPU time of this process, so that a busy machine does not fail the test; quadratic time would
    // be minutes.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(5000);
  });
});

describe('encodeSse', () => {
  test('JSON is one data line, whatever its strings contain', () => {
    const data = JSON.stringify({ text: 'a\nb\r\u2028' });
    expect(encodeSse({ id: '0', event: 'e', retry: 10, data })).toBe(
      `event: e\nid: 0\nretry: 10\ndata: ${data}\n\n`,
    );
  });

  test('throws for values that the format cannot express', () => {
    const data = '';
    const bad = [{ id: 'a\nb' }, { id: '\0' }, { event: 'a\rb' }, { retry: 1.5 }, { retry: -1 }];
    for (const each of bad) {
      expect(() => encodeSse({ ...each, data })).toThrow(
        expect.objectContaining({ code: 'invalid' }) as Error,
      );
    }
  });
});
