import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { Entry } from '../../src/event/types.ts';
import { createRunner, sqliteLog } from '../../src/task/index.ts';
import { temporaryFolder } from './temporary-sqlite.ts';
import { collect, shape, words } from './replica-world.ts';
import { verifies } from '../verifies.ts';

const child = fileURLToPath(new URL('../fixtures/task-crash.ts', import.meta.url));

/**
 * Lets a real process write until it has acknowledged so much, then kills it; gives the highest
 * acknowledged place per task.
 */
async function writeAndKill(
  file: string,
  round: number,
  acks: number,
): Promise<Map<string, number>> {
  const writer = spawn(process.execPath, ['--import', 'tsx', child, file, `${round}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(writer, 'exit');
  const acked = new Map<string, number>();
  let count = 0;
  for await (const line of createInterface({ input: writer.stdout })) {
    const [task = '', seq] = line.split(' ');
    acked.set(task, Number(seq));
    if (++count === acks) writer.kill('SIGKILL');
  }
  await exited;
  return acked;
}

verifies(
  ['S193', 'S197'],
  'kill -9 loses nothing that was acknowledged, leaves no gap, and every run gets its end',
  async () => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'tasks.db');
    const acked = new Map<string, number>();
    // Each round also finds the file of a process that died with its lock.
    for (const [round, acks] of [1, 150, 700].entries())
      for (const [task, seq] of await writeAndKill(file, round, acks)) acked.set(task, seq);

    await using log = await sqliteLog({ file });
    for (const [task, seq] of acked) {
      const stored = await collect(log.read(task, 0), (await log.get(task))?.seq);
      expect(stored.length).toBeGreaterThanOrEqual(seq);
      expect(stored.map((entry) => entry.seq)).toEqual(stored.map((_, index) => index + 1));
      expect(stored.slice(2).map(wordOf)).toEqual(stored.slice(2).map(({ seq }) => `${seq - 1} `));
    }
    await using _runner = createRunner({ log, agents: { a: words(1, 0) } });
    for (const task of acked.keys())
      expect(shape(await collect(log.read(task, 0))).at(-1)).toBe('run.finished:failed');
  },
);

const wordOf = (entry: Entry): string => (entry.type === 'text.delta' ? entry.delta : entry.type);

test('a second process on the file is refused, naming the first', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'tasks.db');
  await using _first = await sqliteLog({ file });
  const other = spawn(process.execPath, ['--import', 'tsx', child, file, '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let message = '';
  for await (const chunk of other.stderr) message += String(chunk);
  expect(message).toContain(`is in use by process ${process.pid} on`);
});
