import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lawfulLog, numbered } from '../../test/support/arbitraries.ts';
import { truncateEvent, ENTRY_BYTES, FRAME_BYTES } from './truncate-event.ts';
import { decodeEntry, encodeEntry } from './entry-codec.ts';
import type { AgentEvent, Entry } from './types.ts';

const custom = (data: unknown): Entry => numbered({ type: 'custom', name: 'n', data }, 1);

describe('an entry as text', () => {
  test('is decoded to the same entry, one line each', () => {
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        for (const entry of entries) {
          const line = encodeEntry(entry);
          expect(line).not.toContain('\n');
          expect(decodeEntry(line)).toEqual(JSON.parse(JSON.stringify(entry)));
        }
      }),
      { numRuns: 50 },
    );
  });

  test('keeps bytes at any depth, and objects that look like encoded bytes', () => {
    const tricky = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.uint8Array({ maxLength: 8 }),
        fc.constantFrom(null, 'AAAA', 1, true),
        fc.dictionary(
          fc.constantFrom('$bytes', '$$bytes', '$$$bytes', 'bytes', 'x'),
          tie('value'),
          {
            maxKeys: 2,
            noNullPrototype: true,
          },
        ),
        fc.array(tie('value'), { maxLength: 2 }),
      ),
    })).value;
    fc.assert(
      fc.property(tricky, (data) => {
        expect(decodeEntry(encodeEntry(custom(data)))).toEqual(custom(data));
      }),
    );
    const buffer = Buffer.from('hello');
    expect(decodeEntry(encodeEntry(custom(buffer)))).toEqual(custom(new Uint8Array(buffer)));
  });

  test('writes values that JSON refuses as strings', () => {
    const loop: Record<string, unknown> = { n: 10n, shared: [1], bytes: new Uint8Array([1]) };
    loop['self'] = loop;
    loop['again'] = loop['shared'];
    expect(decodeEntry(encodeEntry(custom(loop)))).toMatchObject({
      data: { n: '10', self: '[contains itself]', again: [1], bytes: new Uint8Array([1]) },
    });
  });

  test.each(['', '{', '7', '{}', '{"type":"status"}', '{"type":"status","seq":0}'])(
    'damage is named: %j',
    (line) => {
      expect(() => decodeEntry(line)).toThrow(expect.objectContaining({ code: 'malformed' }));
    },
  );

  test('a newer format is refused', () => {
    expect(() => decodeEntry('{"type":"status","seq":1,"v":2}')).toThrow(
      expect.objectContaining({ code: 'unsupported', message: expect.stringContaining('upgrade') }),
    );
  });
});

describe('truncateEvent', () => {
  const huge = 'x'.repeat(3 << 20);
  const sizeOf = (event: AgentEvent): number =>
    Buffer.byteLength(encodeEntry(numbered(event, 999_999)));
  const frame = (data: Record<string, unknown>): AgentEvent => ({
    type: 'frame',
    frame: { lane: 'control', direction: 'in', at: 1, data },
  });

  test('does not change an event that fits', () => {
    const event: AgentEvent = {
      type: 'tool.completed',
      callId: 'c',
      name: 'f',
      output: 'x'.repeat(900_000),
    };
    expect(truncateEvent(event)).toBe(event);
    expect(truncateEvent(frame({ a: 1 }))).toEqual(frame({ a: 1 }));
  });

  test('keeps the shape of an output whose text is too long', () => {
    const event: AgentEvent = {
      type: 'tool.completed',
      callId: 'c',
      name: 'f',
      output: { content: [{ type: 'text', text: huge }], isError: false },
    };
    const short = truncateEvent(event);
    expect(sizeOf(short)).toBeLessThan(ENTRY_BYTES);
    expect(short).toMatchObject({
      callId: 'c',
      output: {
        content: [{ type: 'text', text: expect.stringMatching(/^x{60000,} \[cut: 3145728 bytes/) }],
        isError: false,
      },
    });
  });

  const many = Array.from({ length: 60_000 }, (_, i) => `a string of some length ${i}`);
  const cases: [string, AgentEvent][] = [
    [
      'an output of many small strings',
      { type: 'tool.completed', callId: 'c', name: 'f', output: many },
    ],
    ['arguments', { type: 'tool.called', callId: 'c', name: 'f', args: { many } }],
    [
      'a question',
      { type: 'input.required', request: { id: 'c/q', kind: 'approval', data: many } },
    ],
    [
      'bytes',
      {
        type: 'artifact',
        artifactId: 'r',
        parts: [{ bytes: new Uint8Array(2 << 20), mediaType: 'a/b' }],
      },
    ],
    ['a final text', { type: 'run.finished', outcome: 'completed', text: huge, output: many }],
  ];
  test.each(cases)('makes %s fit, and keeps its type and ids', (_name, event) => {
    const short = truncateEvent(event);
    expect(sizeOf(short)).toBeLessThan(ENTRY_BYTES);
    expect(short.type).toBe(event.type);
    expect(JSON.stringify(short)).toContain('[cut: ');
  });

  test('a frame of many small values keeps the ids that join it to its request', () => {
    const many = Array.from({ length: 5000 }, (_, index) => ({ name: `tool-${index}` }));
    const response = { subtype: 'success', request_id: 'r1', response: { many } };
    expect(truncateEvent(frame({ type: 'control_response', response }))).toMatchObject({
      frame: {
        data: {
          type: 'control_response',
          response: { subtype: 'success', request_id: 'r1' },
          cut: expect.stringContaining('bytes'),
        },
      },
    });
    const request = { subtype: 'mcp_message', message: { many } };
    expect(
      truncateEvent(frame({ type: 'control_request', request_id: 'r2', request })),
    ).toMatchObject({
      frame: { data: { request_id: 'r2', request: { subtype: 'mcp_message' } } },
    });
  });

  test('a frame over 16 KiB has its true size in bytes', () => {
    for (const data of [
      { type: 'control_request', text: huge },
      { type: 'control_request', many },
    ]) {
      const short = truncateEvent(frame(data));
      expect(sizeOf(short)).toBeLessThan(FRAME_BYTES + 512);
      expect(short).toMatchObject({ frame: { data: { type: 'control_request' } } });
      expect(short).toMatchObject({ frame: { bytes: JSON.stringify(data).length } });
    }
  });
});
