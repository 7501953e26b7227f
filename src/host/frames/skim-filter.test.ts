import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SkimFilter } from './skim-filter.ts';

const isPlain = (line: string): boolean => {
  const bytes = Buffer.from(line);
  return new SkimFilter().has(bytes, 0, bytes.length);
};

test.each([
  '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}',
  '{"type":"user","message":{"role":"user","content":"hi"}}',
  '{"type":"stream_event","event":{"usage":{"server_tool_use":null}}}',
])('%s is for the reader alone', (line) => {
  expect(isPlain(line)).toBe(true);
});

test.each([
  '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1"}]}}',
  '{"type":"user","message":{"content":[{"type":"tool_result"}]}}',
  '{"type":"assistant","type":"control_request"}',
  '{"type":"result","subtype":"success"}',
  '{"type":"system","subtype":"init"}',
  '{"type":"control_request","request_id":"1"}',
  '{"type":"transcript_mirror","entries":[]}',
  '{"session_id":"s","type":"assistant"}',
  ' {"type":"assistant","n":1}',
  '{"type":"assistant","n":1',
  '{"type":"assistant","n":1}\r',
  'words',
])('%s is parsed', (line) => {
  expect(isPlain(line)).toBe(false);
});

test('the decision about a line does not depend on the other lines of its chunk', () => {
  const line = fc.constantFrom(
    '{"type":"assistant","n":1}',
    '{"type":"assistant","c":"tool_use"}',
    '{"type":"user","x":"\\"control_"}',
    '{"type":"stream_event","text":"é"}',
    '{"type":"result"}',
    '',
  );
  fc.assert(
    fc.property(fc.array(fc.array(line)), (chunks) => {
      const plain = new SkimFilter();
      for (const lines of chunks) {
        const bytes = Buffer.from(lines.join('\n'));
        let start = 0;
        for (const each of lines) {
          const end = start + Buffer.byteLength(each);
          expect(plain.has(bytes, start, end)).toBe(isPlain(each));
          start = end + 1;
        }
        plain.clear();
      }
    }),
  );
});
