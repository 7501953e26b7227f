import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cli } from 'duolane/adapters';
import { spawnProcess } from 'duolane/process';
import { afterEach, beforeEach, expect } from 'vitest';
import {
  all,
  Caller,
  serveAgent,
  taskIdOf,
  textOf,
  type Seen,
  wordOf,
} from '../../test/a2a/support.ts';
import { builtModel } from '../../test/support/served.ts';
import { verifies } from '../../test/verifies.ts';
import { type Board, openBoard } from './board.ts';
import { ticketServer } from './server.ts';
import { sessionOptions } from './session.ts';

// Crashes that a review survives, with real processes.

const LOGIN = "bug: Fix login bug. Users can't log in on mobile";
const COMMAND = fileURLToPath(new URL('../../dist/cli/duolane.js', import.meta.url));

let folder: string;
let board: Board;
const running = new Set<ChildProcess>();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'duolane-tickets-'));
  board = openBoard(join(folder, 'tickets.sqlite'));
});
afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  running.clear();
  await board[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function start(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const child = spawn(
    process.execPath,
    [COMMAND, 'serve', 'tickets', '--json', '--store', join(folder, 'log.sqlite')],
    {
      cwd: folder,
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        CLAUDE_CONFIG_DIR: join(folder, 'config'),
        TICKETS_FILE: join(folder, 'tickets.sqlite'),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  running.add(child);
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { url: (JSON.parse(line) as { url: string }).url, child };
}

verifies(
  ['S87', 'S229'],
  'a review survives kill -9 of the host, and the ticket is created once',
  async () => {
    const before = await start();
    const asked = await all(new Caller(before.url).say(LOGIN));
    expect(wordOf(asked.at(-1) as Seen)).toBe('input-required');
    before.child.kill('SIGKILL');
    await once(before.child, 'exit');

    const after = await start();
    const caller = new Caller(after.url);
    const task = taskIdOf(asked);
    expect(await caller.call('GetTask', { id: task })).toMatchObject({
      result: { status: { state: 'TASK_STATE_INPUT_REQUIRED' } },
    });
    expect(board.list()).toEqual([]);
    const done = await all(caller.say('approve', { taskId: task }));
    expect(wordOf(done.at(-1) as Seen)).toBe('completed');
    expect(textOf(done)).toContain("Ticket 'Fix login bug' created successfully (ID: TKT-42)");
    expect(board.list()).toHaveLength(1);
  },
);

verifies('S229', 'a review survives a crash of the agent CLI', async () => {
  const pids: number[] = [];
  const agent = cli({
    ...sessionOptions(ticketServer(board)),
    model: builtModel('tickets'),
    executableArgs: [],
    env: { PATH: process.env['PATH'], HOME: folder, CLAUDE_CONFIG_DIR: join(folder, 'config') },
    transport: (launch) => {
      const child = spawnProcess(launch);
      pids.push(child.pid ?? 0);
      return child;
    },
  });
  await using served = await serveAgent(agent);
  const caller = new Caller(served.url);
  const asked = await all(caller.say(LOGIN));
  expect(wordOf(asked.at(-1) as Seen)).toBe('input-required');
  process.kill(pids[0] ?? 0, 'SIGKILL');
  for await (const entry of served.log.read(taskIdOf(asked), 0)) {
    if (entry.type !== 'run.finished') continue;
    expect(entry.outcome).toBe('input-required');
    break;
  }
  const done = await all(caller.say('approve', { taskId: taskIdOf(asked) }));
  expect(wordOf(done.at(-1) as Seen)).toBe('completed');
  expect(board.list()).toMatchObject([{ id: 'TKT-42', title: 'Fix login bug' }]);
});
