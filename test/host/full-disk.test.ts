import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { STUB_CLI, stubEnv } from '../support/stub-cli.ts';
import { noWindows, testIf } from '../verifies.ts';

const HOST = new URL('../../dist/host/index.js', import.meta.url).href;

/** Prints the types of all messages; a program that an error ends prints no last line. */
const PROGRAM = `
  const { openSession } = await import(${JSON.stringify(HOST)});
  const [trace, cli] = process.argv.slice(1);
  const session = await openSession({ pathToClaudeCodeExecutable: cli, trace });
  await session.send('go');
  session.endInput();
  for await (const message of session.messages()) console.log(message.subtype ?? message.type);
  await session[Symbol.asyncDispose]();
  console.log('the program goes on');
`;

testIf(noWindows, 'a trace that can no longer be written does not end the program', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'duolane-full-'));
  const turn = [{ repeat: 40, steps: [{ say: 'x'.repeat(1000) }, { sleep: 1 }] }, { result: true }];
  const child = spawn(
    'sh',
    // Files may grow to 8 KiB: the system refuses the rest, as a full disk does.
    ['-c', 'ulimit -f 16; exec "$0" "$@"', process.execPath, '--input-type=module'].concat([
      '-e',
      PROGRAM,
      join(folder, 'run.jsonl'),
      STUB_CLI,
    ]),
    { stdio: ['ignore', 'pipe', 'pipe'], env: stubEnv({ turns: [turn] }) },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number | null];
  await rm(folder, { recursive: true });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const lines = stdout.trim().split('\n');
  expect(lines.filter((line) => line === 'trace_ended')).toHaveLength(1);
  expect(lines.at(-1)).toBe('the program goes on');
  expect(stderr.match(/cannot be written/g)).toHaveLength(1);
});
