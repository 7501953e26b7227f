import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { collect, keptLogger, playedSession } from '../../test/support/fake-cli.ts';
import type { Frame } from '../event/types.ts';
import { Trace, type Traced } from './trace.ts';

const disk = vi.hoisted(() => ({ full: false, part: 0 }));

vi.mock('node:fs', async (load) => {
  const real = await load<typeof fs>();
  const writeSync = (file: number, bytes: Buffer, offset = 0): number => {
    if (disk.full) throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
    const length = bytes.length - offset;
    return real.writeSync(
      file,
      bytes,
      offset,
      disk.part > 0 ? Math.min(disk.part, length) : length,
    );
  };
  return { ...real, writeSync };
});

afterEach(() => {
  disk.full = false;
  disk.part = 0;
});

function file(): string {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-trace-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'run.jsonl');
}

const never = (error: Error): never => {
  throw error;
};
const frame = (data: Frame['data']): Frame => ({ lane: 'control', direction: 'out', at: 1, data });

describe('a full disk', () => {
  test('ends the trace, is reported once, and the session goes on', async () => {
    const { logger, lines } = keptLogger();
    const { cli, session } = await playedSession({ trace: file(), logger });
    await using _ = session;
    await session.send('go');
    await cli.initialize();
    disk.full = true;
    cli.say(cli.assistant('one'));
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    cli.say(cli.assistant('two'), cli.result());
    session.endInput();
    const seen = await collect(session.messages());
    const told = seen.filter(({ subtype }) => subtype === 'trace_ended');
    expect(told).toMatchObject([
      { host: true, error: expect.stringContaining('ENOSPC') as string },
    ]);
    expect(seen.at(-1)).toMatchObject({ type: 'result' });
    expect(lines.filter(({ message }) => message.includes('ENOSPC'))).toHaveLength(1);
  });

  test('that is met at the end throws nothing', () => {
    const errors: string[] = [];
    const trace = new Trace(file(), { command: 'x', args: [], env: {} }, ({ message }) =>
      errors.push(message),
    );
    trace.write(frame({ type: 'x' }));
    disk.full = true;
    trace[Symbol.dispose]();
    trace[Symbol.dispose]();
    expect(errors).toHaveLength(1);
  });
});

test('a write that takes only a part is finished', () => {
  disk.part = 7;
  const path = file();
  const trace = new Trace(path, { command: 'x', args: [], env: {} }, never);
  trace.write(frame({ type: 'x', text: 'ä'.repeat(50) }));
  trace[Symbol.dispose]();
  const [, line = ''] = readFileSync(path, 'utf8').split('\n');
  expect(JSON.parse(line)).toMatchObject({ data: { text: 'ä'.repeat(50) } });
});

describe('secrets', () => {
  const SECRET = 'gp7-very-secret-value';

  function traced(given: Partial<Traced>, ...frames: Frame['data'][]): string {
    const path = file();
    const trace = new Trace(path, { command: 'x', args: [], env: {}, ...given }, never);
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

  test('plain words, tokens of the protocol and plain headers stay', () => {
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
