import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSession, type Session, type SessionOptions } from '../../src/host/index.ts';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-end-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Answers `initialize`, and nothing else. */
const INITIALIZED = `
  import { createInterface } from 'node:readline';
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { type, request_id } = JSON.parse(line);
    if (type !== 'control_request') return;
    const response = { subtype: 'success', request_id, response: {} };
    process.stdout.write(JSON.stringify({ type: 'control_response', response }) + '\\n');
  });
  setInterval(() => {}, 1000);
`;

async function opened(source: string, options: SessionOptions): Promise<Session> {
  const script = join(folder, `${Object.keys(options).join('-')}.mjs`);
  await writeFile(script, `${INITIALIZED}${source}`);
  const session = await openSession({
    pathToClaudeCodeExecutable: script,
    env: {},
    inheritEnv: ['PATH'],
    ...options,
  });
  // Its listeners are set by then.
  await session.initialized;
  return session;
}

/** Each takes longer to leave than the default allows, and less than the option: a default would end it. */
describe.concurrent('a CLI has as long to leave as the option says', () => {
  test('graceMs', async () => {
    const leaves = `process.stdin.on('end', () => setTimeout(() => process.exit(7), 4000));`;
    const session = await opened(leaves, { graceMs: 100_000 });
    await session[Symbol.asyncDispose]();
    expect(await session.done).toEqual({ code: 7 });
  });

  test('killMs', async () => {
    const leaves = `process.on('SIGTERM', () => setTimeout(() => process.exit(7), 7000));`;
    const session = await opened(leaves, { graceMs: 1, killMs: 100_000 });
    await session[Symbol.asyncDispose]();
    expect(await session.done).toEqual({ code: 7 });
  });

  test('exitMs', async () => {
    const leaves = `process.stdin.on('end', () => setTimeout(() => process.exit(0), 13_000));`;
    await using session = await opened(leaves, { exitMs: 100_000, graceMs: 1 });
    session.endInput();
    expect(await session.done).toEqual({ code: 0 });
  });
});
