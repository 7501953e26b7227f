import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkTrace } from './check-trace.ts';
import { readTrace, type TraceItem } from './read-trace.ts';

async function* bytes(text: string, cuts: readonly number[] = []): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(text);
  const at = [...new Set(cuts.map((cut) => cut % (all.length + 1)))].toSorted((a, b) => a - b);
  let from = 0;
  for (const to of [...at, all.length]) {
    yield all.subarray(from, to);
    from = to;
  }
}

async function read(text: string, cuts?: readonly number[]): Promise<TraceItem[]> {
  const items: TraceItem[] = [];
  for await (const item of readTrace(bytes(text, cuts))) items.push(item);
  return items;
}

const HEADER = '{"format":"duolane-trace","version":1}';
const frame = (type: string): string =>
  JSON.stringify({ lane: 'message', direction: 'in', at: 1, data: { type, text: 'ü\u2028' } });

test('frames have the numbers of their lines, blank lines counted, in any chunks', async () => {
  const text = `${HEADER}\n\n${frame('a')}\r\n\n${frame('b')}`;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat()), async (cuts) => {
      expect(await read(text, cuts)).toMatchObject([
        { kind: 'frame', line: 3, frame: { data: { type: 'a', text: 'ü\u2028' } } },
        { kind: 'frame', line: 5, frame: { data: { type: 'b' } } },
      ]);
    }),
  );
});

test('an SSE capture gives its events, each on the line of its data', async () => {
  const text = ': hello\nid: 1\ndata: {"a":1}\n\nevent: x\ndata: {\ndata: }\n\ndata: cut';
  expect(await read(text)).toEqual([
    { kind: 'event', line: 3, event: { data: '{"a":1}', id: '1' } },
    { kind: 'event', line: 6, event: { data: '{\n}' } },
    { kind: 'event', line: 9, event: { data: 'cut' } },
  ]);
});

test('entries and bare JSON-RPC lines are recognized', async () => {
  expect(await read('{"type":"status","message":"x","seq":1,"at":1}\n')).toMatchObject([
    { kind: 'entry', line: 1 },
  ]);
  expect(await read('{"jsonrpc":"2.0","id":1,"result":{}}\n')).toMatchObject([{ kind: 'event' }]);
});

test('a truncated line is reported, and the rest is checked', async () => {
  const verdict = await checkTrace(readTrace(bytes(`${HEADER}\n${frame('a')}\n{"lane":"mess`)));
  expect(verdict).toMatchObject({
    kind: 'frames',
    records: 2,
    findings: [{ rule: 'file-damaged', line: 3 }],
  });
});

test('a log that breaks a law is found at its line', async () => {
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [] };
  const lines = [
    { type: 'turn.submitted', turn, seq: 1, at: 1 },
    { type: 'run.started', turn: 'm', seq: 2, at: 2 },
    { type: 'status', message: 'skipped one', seq: 4, at: 3 },
  ];
  const verdict = await checkTrace(
    readTrace(bytes(lines.map((each) => JSON.stringify(each)).join('\n'))),
  );
  expect(verdict.kind).toBe('entries');
  expect(verdict.findings.map(({ rule, line }) => `${rule} ${line}`)).toEqual([
    'log-unlawful 3',
    'log-unfinished 3',
  ]);
});

test.each([
  ['', 'the file is empty'],
  ['hello\n', 'expected a trace'],
  ['{"format":"duolane-trace","version":2}\n', 'expected 1'],
])('rejects %j with a reason', async (text, words) => {
  await expect(read(text)).rejects.toThrow(words);
});

test.each([
  { lane: 'control', at: 1, data: { type: 'control_request', request_id: 'a', request: {} } },
  { lane: 'control', direction: 'up', at: 1, data: { type: 'control_response' } },
  { direction: 'in', at: 1, data: { type: 'control_cancel_request' } },
  { lane: 'x', direction: 'in', at: 1, data: {} },
  { lane: 'message', direction: 'in', at: '1', data: {} },
])('a line that is not a complete frame is reported, never thrown: %j', async (line) => {
  const text = `${HEADER}\n${frame('a')}\n${JSON.stringify(line)}\n`;
  expect((await checkTrace(readTrace(bytes(text)))).findings).toMatchObject([
    { rule: 'file-damaged', line: 3 },
  ]);
});
