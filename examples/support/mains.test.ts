import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { peer } from '../../test/peers.ts';
import { isAlive, survivors } from '../../test/support/processes.ts';
import { suite } from '../../test/verifies.ts';

// Every sample as a newcomer runs it first: one command, no key, no terminal.

const folder = mkdtempSync(join(tmpdir(), 'duolane-mains-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const duckDb = await peer('duckdb');

interface Ran {
  readonly code: number;
  readonly output: string;
  /** What it started and did not end, as process ids. */
  readonly left: readonly number[];
}

/** Runs the built program in a unique home, by which the processes that it started are found. */
async function run(
  name: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const file = fileURLToPath(new URL(`../../dist/examples/${name}/main.js`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: folder, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number];
  return { code, output, left: await survivors(withHome(folder), 5000) };
}

/** The processes of this home; only Linux can say. */
function withHome(home: string): number[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && isAlive(pid));
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`HOME=${home}`);
    } catch {
      return false; // it has ended, or belongs to another user
    }
  });
}

/** What each says when it is asked nothing in particular. */
const SAMPLES: Readonly<Record<string, RegExp>> = {
  'ai-doctor': /search: metformin[\s\S]*Educational/,
  tickets: /\(no terminal: declined\)[\s\S]*On the board: *$/m,
  distill: /"name": "order-agent"/,
  'text-to-sql': /query_results[\s\S]*"resource_type": "parquet"/,
};

describe.each(Object.entries(SAMPLES))('%s', (name, words) => {
  suite(name, name === 'text-to-sql' ? duckDb.reason : undefined, () => {
    test('runs with one command, exits with 0 and leaves no process', async () => {
      const { code, output, left } = await run(name);
      expect(output).toMatch(words);
      expect({ code, left }).toEqual({ code: 0, left: [] });
    });

    test('with a model that wants a key and has none, says which and exits with 1', async () => {
      const { code, output, left } = await run(name, [], {
        DUOLANE_MODEL: 'anthropic:claude-sonnet-4-5',
      });
      expect(output).toContain(
        'missing key for model "anthropic:claude-sonnet-4-5"; set ANTHROPIC_API_KEY',
      );
      expect(output).not.toMatch(/\n\s+at /); // for people, not a stack
      expect({ code, left }).toEqual({ code: 1, left: [] });
    });
  });
});

const written = (text: string): string => {
  const file = join(folder, 'given.txt');
  writeFileSync(file, text);
  return file;
};

test.each([
  ['ai-doctor', '{"age": 50', 'INVALID_RECORD: the patient record is not JSON'],
  ['ai-doctor', '{"age": 50, "ssn": "1"}', 'Unrecognized key: "ssn"'],
  ['distill', 'hello there', 'submit_distill_spec was not called'],
])('%s fails with the reason for a file of %s', async (name, text, reason) => {
  const { code, output, left } = await run(name, [written(text)]);
  expect(output).toContain(reason);
  expect({ code, left }).toEqual({ code: 1, left: [] });
});

test.each([
  ['distill', 'invalid: cannot read the transcript: ENOENT'],
  ['ai-doctor', 'INVALID_RECORD: file or sample'],
])('%s fails with the reason for a missing file', async (name, reason) => {
  const { code, output } = await run(name, [join(folder, 'no-such-file')]);
  expect(output).toContain(reason);
  expect(output).not.toMatch(/\n\s+at /);
  expect(code).toBe(1);
});

test('ai-doctor fails with the reason for a folder', async () => {
  const { code, output } = await run('ai-doctor', [folder]);
  expect(output).toContain('INVALID_RECORD: the patient record cannot be read: EISDIR');
  expect(output).not.toMatch(/\n\s+at /);
  expect(code).toBe(1);
});
