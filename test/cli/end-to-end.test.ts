import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect } from 'vitest';
import { all, Caller, shape, taskIdOf, textOf, wordOf, type Seen } from '../a2a/support.ts';
import { compareIds } from '../../src/event/index.ts';
import { verifies } from '../verifies.ts';

// The walk through the whole product, each step over real processes: the command serves an agent
// whose model runs behind the open CLI, on a log in a file.

const COMMAND = fileURLToPath(new URL('../../dist/cli/duolane.js', import.meta.url));
const AGENT = fileURLToPath(new URL('../fixtures/path-agent.mjs', import.meta.url));

let folder: string;
let running: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-path-'));
});

afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  running = [];
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function start(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const args = [COMMAND, 'serve', AGENT, '--json', '--store', join(folder, 'tasks.sqlite')];
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    CLAUDE_CONFIG_DIR: join(folder, 'config'),
  };
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.push(child);
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return { url: (JSON.parse(line) as { url: string }).url, child };
}

const first = async (
  stream: AsyncGenerator<Seen, void, undefined>,
  count: number,
): Promise<Seen[]> => {
  const seen: Seen[] = [];
  for await (const event of stream) {
    seen.push(event);
    if (seen.length === count) break;
  }
  return seen;
};

verifies(
  ['S1', 'S43', 'S65', 'S134'],
  'a message runs through the CLI, calls our function and comes back as a stream',
  async () => {
    const { url } = await start();
    const events = await all(new Caller(url).say('lookup lane'));
    expect(shape(events)).toEqual([
      'task',
      'working',
      'artifact',
      'working',
      'artifact',
      'completed',
    ]);
    expect(textOf(events)).toContain('The tool says: lane: one of two');
  },
);

verifies(['S181', 'S175'], 'a cancel reaches the CLI and ends the stream', async () => {
  const { url } = await start();
  const caller = new Caller(url);
  const stream = caller.say('count 100000');
  const seen = [];
  let canceled: Promise<unknown> | undefined;
  for await (const event of stream) {
    seen.push(event);
    if (seen.length === 12) canceled = caller.call('CancelTask', { id: taskIdOf(seen) });
  }
  expect(wordOf(seen.at(-1)!)).toBe('canceled');
  expect(seen.length).toBeLessThan(500);
  expect(await canceled).toMatchObject({ result: { status: { state: 'TASK_STATE_CANCELED' } } });
});

verifies(
  ['S130', 'S191', 'S193', 'S197'],
  'killed in mid-stream and started again, the server goes on behind the last id and ends the task',
  async () => {
    const before = await start();
    const seen = await first(new Caller(before.url).say('count 2000'), 20);
    before.child.kill('SIGKILL');
    await once(before.child, 'exit');
    const after = await start();
    const rest = await all(new Caller(after.url).subscribe(taskIdOf(seen), seen.at(-1)!.id));
    const ids = [...seen, ...rest].map(({ id }) => id);
    expect(ids).toEqual(ids.toSorted(compareIds));
    expect(new Set(ids).size).toBe(ids.length);
    expect(wordOf(rest.at(-1)!)).toBe('completed');
    const again = await all(new Caller(after.url).subscribe(taskIdOf(seen), '0'));
    expect(again).toEqual([...seen, ...rest]);
  },
);

verifies(
  ['S87', 'S229'],
  'a person approves after the server was killed, and the tool finishes under its own id',
  async () => {
    const before = await start();
    const waiting = await all(new Caller(before.url).say('approve lane'));
    expect(wordOf(waiting.at(-1)!)).toBe('input-required');
    before.child.kill('SIGKILL');
    await once(before.child, 'exit');
    const after = await start();
    const caller = new Caller(after.url);
    const task = taskIdOf(waiting);
    const answered = await all(caller.say('approve', { taskId: task }));
    expect(wordOf(answered.at(-1)!)).toBe('completed');
    expect(textOf(answered)).toContain('lane: approved');
  },
);
