import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { cli } from '../../src/adapters/cli-agent.ts';
import type { Agent } from '../../src/event/types.ts';
import { createRunner, sqliteLog, type TaskLog } from '../../src/task/index.ts';
import { childrenOf } from '../kill-matrix/child-processes.ts';
import { testIf } from '../verifies.ts';
import { SILENT, turn } from './replica-world.ts';
import { temporaryFolder } from './temporary-sqlite.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Waits until so many tasks wait for a person and no run is in memory, which no event reports. */
async function untilWaiting(log: TaskLog, count: number): Promise<void> {
  for (;;) {
    let waiting = 0;
    for await (const { state, running } of log.list({ state: 'input-required', outline: true }))
      if (state === 'input-required' && !running) waiting++;
    if (waiting === count) return;
    await sleep(50);
  }
}

async function heapUsed(): Promise<number> {
  for (let times = 0; times < 3; times++) {
    collectGarbage();
    await sleep(20);
  }
  return process.memoryUsage().heapUsed;
}

test('1,000 tasks that wait for a person take at most 10 KB each', async () => {
  await using folder = await temporaryFolder();
  await using log = await sqliteLog({ file: join(folder.path, 'tasks.db') });
  const agent: Agent = async function* (_turn, ctx) {
    yield { type: 'text.delta', id: 't', delta: 'x'.repeat(20_000) };
    await ctx.ask({ id: 'ok', kind: 'approval' });
  };
  const options = { log, agents: { a: agent }, suspendAfterMs: 0, logger: SILENT };
  await using runner = createRunner(options);
  const submit = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) await runner.submit(turn('a', `t${n}`, { context: `c${n}` }));
    await untilWaiting(log, to);
  };
  await submit(0, 100); // compiles the code and fills the caches
  const before = await heapUsed();
  await submit(100, 1100);
  const each = ((await heapUsed()) - before) / 1000;
  expect(each).toBeLessThan(10_000);
}, 600_000);

const MODEL = `
  export default async function* model() {
    yield { type: 'tool_use', id: 'toolu_1', name: 'Bash' };
    yield { type: 'tool_input', json: '{"command":"true"}' };
  }
`;

testIf(
  process.platform === 'linux' ? undefined : 'the processes are counted through /proc',
  'tasks of an agent CLI that wait for a person hold no process',
  async () => {
    await using folder = await temporaryFolder();
    for (const each of ['home', 'work']) mkdirSync(join(folder.path, each));
    writeFileSync(join(folder.path, 'model.mjs'), MODEL);
    const agent = cli({
      cwd: join(folder.path, 'work'),
      env: { HOME: join(folder.path, 'home') },
      inheritEnv: ['PATH'],
      model: `module:${join(folder.path, 'model.mjs')}`,
      tools: ['Bash'],
    });
    await using log = await sqliteLog({ file: join(folder.path, 'tasks.db') });
    const options = { log, agents: { a: agent }, suspendAfterMs: 0, maxRuns: 4, logger: SILENT };
    const before = new Set(childrenOf(process.pid));
    await using runner = createRunner(options);
    for (let n = 0; n < 12; n++) await runner.submit(turn('a', `t${n}`, { context: `c${n}` }));
    await untilWaiting(log, 12);
    // A CLI that was stopped takes a moment to exit.
    await expect.poll(() => childrenOf(process.pid).filter((pid) => !before.has(pid))).toEqual([]);
  },
  600_000,
);
