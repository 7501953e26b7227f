import { DuolaneError } from '../errors.ts';
import { decodeEntry } from '../event/entry-codec.ts';
import type { Entry, Frame } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import { LineDecoder, InvalidLine, parseLine } from '../wire/jsonl.ts';
import type { StreamRecord } from './types.ts';

/** One record of a file, with the number of its line. */
export type TraceItem = { readonly line: number } & (
  | { readonly kind: 'frame'; readonly frame: Frame }
  | { readonly kind: 'entry'; readonly entry: Entry }
  | { readonly kind: 'event'; readonly event: StreamRecord }
  /** A line that does not have the format of the file; the next line may have it. */
  | { readonly kind: 'unreadable'; readonly why: string }
);

const NEWLINE = 0x0a;

/**
 * Reads a recording line by line, with the memory of one line: a trace file of frames, the entries
 * of a task log as JSONL (`duolane demo --json`), or an A2A stream as it came (`curl -N`), with or
 * without its SSE framing. The first line decides which. Throws `invalid` for any other file, and
 * `unsupported` for a trace of an unknown version.
 *
 * @example
 * ```ts
 * const items = readTrace(createReadStream('run.jsonl'));
 * for await (const { line, kind } of items) console.log(line, kind);
 * ```
 */
export async function* readTrace(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<TraceItem, void, undefined> {
  let read: ((text: string, line: number) => TraceItem | undefined) | undefined;
  let line = 0;
  for await (const text of lines(chunks)) {
    line += 1;
    if (!read) {
      if (text === '') continue;
      read = readerOf(text);
      if (isHeader(text)) continue;
    }
    const item = read(text, line);
    if (item) yield item;
  }
  const last = read?.('', line + 1); // the last event may lack its blank line
  if (last) yield last;
  if (!read)
    throw new DuolaneError(
      'invalid',
      'invalid trace: the file is empty; expected a trace, entries of a log or an A2A stream',
    );
}

function readerOf(first: string): (text: string, line: number) => TraceItem | undefined {
  if (/^(?:data|id|event|retry)?:/.test(first)) return sseReader();
  const value = parse(first);
  if (value?.['format'] === 'duolane-trace') {
    if (value['version'] === 1) return readFrame;
    throw new DuolaneError(
      'unsupported',
      `unsupported trace version ${JSON.stringify(value['version'])}: expected 1; update duolane`,
    );
  }
  if (value?.['jsonrpc'] === '2.0')
    return (data, line) => (data === '' ? undefined : { kind: 'event', line, event: { data } });
  if (typeof value?.['seq'] === 'number') return readEntry;
  throw new DuolaneError(
    'invalid',
    'invalid trace: expected a trace (duolane wrap --trace), entries of a log (duolane demo --json) or an A2A stream (curl -N)',
  );
}

const isHeader = (text: string): boolean => parse(text)?.['format'] === 'duolane-trace';

function readFrame(text: string, line: number): TraceItem | undefined {
  if (text === '') return undefined;
  const frame = parse(text);
  if (!isFrame(frame)) return { kind: 'unreadable', line, why: 'the line is not a frame' };
  return { kind: 'frame', line, frame };
}

function isFrame(value: unknown): value is Frame {
  if (!isObject(value)) return false;
  const { lane, direction, at, data } = value;
  return (
    (lane === 'message' || lane === 'control') &&
    (direction === 'in' || direction === 'out') &&
    typeof at === 'number' &&
    isObject(data)
  );
}

function readEntry(text: string, line: number): TraceItem | undefined {
  if (text === '') return undefined;
  try {
    return { kind: 'entry', line, entry: decodeEntry(text) };
  } catch (error) {
    return { kind: 'unreadable', line, why: DuolaneError.from(error).message };
  }
}

/**
 * Collects the fields of one event until its blank line. The event has the number of its first data
 * line.
 */
function sseReader(): (text: string, line: number) => TraceItem | undefined {
  let data: string[] = [];
  let id: string | undefined;
  let at = 0;
  return (text, line) => {
    if (text !== '') {
      const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(text) ?? [];
      if (field === 'data') {
        if (data.length === 0) at = line;
        data.push(value);
      }
      if (field === 'id') id = value;
      return undefined;
    }
    if (data.length === 0) return undefined;
    const event = { data: data.join('\n'), ...(id !== undefined && { id }) };
    data = [];
    id = undefined;
    return { kind: 'event', line: at, event };
  };
}

/** Yields every line, a blank one as '', so that lines can be counted. */
async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new LineDecoder();
  const texts = (found: readonly (string | InvalidLine)[]): string =>
    found[0] instanceof InvalidLine ? found[0].text : (found[0] ?? '');
  let open = false;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      yield texts(decoder.decode(chunk.subarray(start, end + 1)));
      start = end + 1;
      open = false;
    }
    if (start < chunk.length) {
      decoder.decode(chunk.subarray(start));
      open = true;
    }
  }
  if (open) yield texts(decoder.flush());
}

function parse(text: string): JsonObject | undefined {
  const value = parseLine(text);
  // The caller reports a line that is not JSON.
  return value instanceof InvalidLine ? undefined : value;
}
