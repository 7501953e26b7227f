import { fstatSync, mkdtempSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Frame } from '../../event/types.ts';
import { TraceWriter, type Traced } from './trace-writer.ts';

function file(): string {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-trace-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'run.jsonl');
}

const never = (error: Error): never => {
  throw error;
};
const frame = (data: Frame['data']): Frame => ({ lane: 'control', direction: 'out', at: 1, data });

const nothing = { command: 'x', args: [], env: {} };
const full = (): never => {
  throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
};

test('a full disk ends the trace and is reported once', async () => {
  const errors: string[] = [];
  let write: (...args: [number, Buffer, number]) => number = writeSync;
  const onError = ({ message }: Error): void => void errors.push(message);
  const trace = new TraceWriter(file(), nothing, onError, (...args) => write(...args));
  write = full;
  trace.write(frame({ type: 'x' }));
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  trace.write(frame({ type: 'x', text: 'x'.repeat(70_000) }));
  trace[Symbol.dispose]();
  trace[Symbol.dispose]();
  expect(errors).toEqual([expect.stringContaining('ENOSPC')]);
});

test('a full disk at the end throws nothing', () => {
  const errors: string[] = [];
  let write: (...args: [number, Buffer, number]) => number = writeSync;
  const onError = ({ message }: Error): void => void errors.push(message);
  const trace = new TraceWriter(file(), nothing, onError, (...args) => write(...args));
  trace.write(frame({ type: 'x' }));
  write = full;
  trace[Symbol.dispose]();
  expect(errors).toHaveLength(1);
});

test('a partial write is completed', () => {
  const path = file();
  const trace = new TraceWriter(path, nothing, never, (fd, bytes, offset) =>
    writeSync(fd, bytes, offset, Math.min(7, bytes.length - offset)),
  );
  trace.write(frame({ type: 'x', text: 'ä'.repeat(50) }));
  trace[Symbol.dispose]();
  const [, line = ''] = readFileSync(path, 'utf8').split('\n');
  expect(JSON.parse(line)).toMatchObject({ data: { text: 'ä'.repeat(50) } });
});

describe('secrets', () => {
  const SECRET = 'gp7-very-secret-value';

  function traced(given: Partial<Traced>, ...frames: Frame['data'][]): string {
    const path = file();
    const trace = new TraceWriter(path, { command: 'x', args: [], env: {}, ...given }, never);
    for (const data of frames) trace.write(frame(data));
    trace[Symbol.dispose]();
    return readFileSync(path, 'utf8');
  }

  const config = (server: object): string => JSON.stringify({ mcpServers: { s: server } });

  test.each<[string, Partial<Traced>, Frame['data'][]]>([
    [
      'a header in --mcp-config',
      { args: ['--mcp-config', config({ url: 'http://x', headers: { 'X-Custom': SECRET } })] },
      [],
    ],
    [
      'a Bearer header by its bare token',
      { secrets: { s: { headers: { Authorization: `Bearer ${SECRET}` } } } },
      [{ error: `403 for ${SECRET}` }],
    ],
    [
      'a Basic login',
      {},
      [{ text: `Authorization: Basic ${Buffer.from(`u:${SECRET}`).toString('base64')}` }],
    ],
    ['the login of a URL', { args: [`https://user:${SECRET}@example.com/mcp`] }, []],
    [
      'a parameter of a URL',
      { args: [`https://example.com/mcp?a=1&access_token=${SECRET}&b=2`] },
      [],
    ],
    [
      'a key in the environment of a server',
      { args: ['--mcp-config', config({ command: 'x', env: { GITHUB_TOKEN: SECRET } })] },
      [],
    ],
    [
      'a variable of the environment, in an argument',
      { env: { DB_PASS: SECRET }, args: ['--dsn', `pg:${SECRET}`] },
      [],
    ],
    [
      'a variable of the environment, as a member name',
      { env: { SIGNING_KEY: SECRET } },
      [{ [SECRET]: 1 }],
    ],
    ['a flag', { args: ['--api-key', SECRET, `--token=${SECRET}`] }, []],
    [
      'mcp_set_servers',
      {},
      [
        {
          request: {
            subtype: 'mcp_set_servers',
            servers: { s: { headers: { 'X-Key-2': SECRET } } },
          },
        },
        { text: `was ${SECRET}` },
      ],
    ],
    [
      'a value with quotes',
      { env: { API_TOKEN: `a"${SECRET}"b` } },
      [{ text: `it is a"${SECRET}"b.` }],
    ],
  ])('%s', (_, given, frames) => {
    const text = traced(given, ...frames);
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain(Buffer.from(`u:${SECRET}`).toString('base64'));
    expect(text).toContain('[redacted]');
    for (const line of text.trimEnd().split('\n')) JSON.parse(line);
  });

  test('ordinary words, tokens of the protocol and public headers stay', () => {
    const data = {
      text: 'Basic understanding of https://example.com/a?b=c',
      _meta: { progressToken: 'progress-12' },
      usage: { input_tokens: 3, output_tokens: 4 },
      headers: { 'content-type': 'application/json' },
    };
    const [, line = ''] = traced({}, data).split('\n');
    expect((JSON.parse(line) as Frame).data).toEqual(data);
  });
});

test('a trace that cannot be started leaves no file open', () => {
  const path = file();
  let descriptor = -1;
  const write = (opened: number): never => {
    descriptor = opened;
    return full();
  };
  expect(() => new TraceWriter(path, nothing, never, write)).toThrow('cannot be written');
  // Closed, or in use for another file by now.
  const inode = (): number | undefined => {
    try {
      return fstatSync(descriptor).ino;
    } catch {
      return undefined;
    }
  };
  expect(inode()).not.toBe(statSync(path).ino);
});

test('a frame that cannot be encoded is noted, and the next one is written', () => {
  const path = file();
  const deep: unknown = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000));
  {
    using trace = new TraceWriter(path, nothing, never);
    trace.write(frame({ type: 'x', deep }));
    trace.write(frame({ type: 'y' }));
  }
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines.slice(1).map((line) => JSON.parse(line) as Frame)).toMatchObject([
    { data: { subtype: 'noise', reason: expect.stringContaining('call stack') } },
    { data: { type: 'y' } },
  ]);
});
