import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli, type CliOptions } from '../../src/adapters/cli-agent.ts';
import type { Entry } from '../../src/event/types.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { SILENT, textOf, turn } from '../task/replica-world.ts';
import { temporaryFolder } from '../task/temporary-sqlite.ts';

// The agent CLI is killed while its runner lives. The CLI is ours, as built into dist.

/** Kills its process in the middle of a message, as often as KILLS says. */
const MODEL = `
  import { appendFileSync, readFileSync } from 'node:fs';
  export default async function* model({ messages }) {
    appendFileSync(process.env.REQUESTS, JSON.stringify(messages) + '\\n');
    const requests = readFileSync(process.env.REQUESTS, 'utf8').trim().split('\\n').length;
    yield 'Half of ';
    if (requests <= Number(process.env.KILLS)) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      process.kill(process.pid, 'SIGKILL');
      await new Promise(() => {});
    }
    yield 'a message.';
  }
`;

async function run(
  folder: string,
  kills: number,
  options: CliOptions = {},
): Promise<{ readonly entries: readonly Entry[]; readonly requests: readonly string[] }> {
  for (const each of ['home', 'work']) mkdirSync(join(folder, each), { recursive: true });
  writeFileSync(join(folder, 'model.mjs'), MODEL);
  const file = join(folder, 'requests');
  const agent = cli({
    cwd: join(folder, 'work'),
    env: { HOME: join(folder, 'home'), REQUESTS: file, KILLS: String(kills) },
    inheritEnv: ['PATH'],
    model: `module:${join(folder, 'model.mjs')}`,
    tools: [],
    ...options,
  });
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { a: agent }, logger: SILENT });
  await runner.submit(turn('a', 't', { parts: [{ text: 'go' }] }));
  const entries: Entry[] = [];
  for await (const entry of log.read('t', 0)) entries.push(entry);
  const requests = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  return { entries, requests };
}

test('a CLI that is killed is started again, and the run ends like an unbroken one', async () => {
  await using folder = await temporaryFolder();
  const { entries, requests } = await run(folder.path, 3);
  expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'Half of a message.' });
  expect(textOf(entries)).toBe('Half of a message.');
  // The request that was under way is repeated as it was.
  expect(requests).toHaveLength(4);
  expect(new Set(requests).size).toBe(1);
});

test('a CLI that is killed each time fails the run with the error of its exit', async () => {
  await using folder = await temporaryFolder();
  const { entries, requests } = await run(folder.path, Infinity);
  const error = { code: 'peer_exited', message: expect.stringContaining('SIGKILL') as string };
  expect(entries.at(-1)).toMatchObject({ outcome: 'failed', error });
  expect(requests).toHaveLength(4);
});

test('a CLI that exits by itself before it is ready is not started again', async () => {
  await using folder = await temporaryFolder();
  const { entries } = await run(folder.path, 0, { model: 'unknown-driver' });
  expect(entries.at(-1)).toMatchObject({ outcome: 'failed' });
  expect(entries.filter(({ type }) => type === 'run.started')).toHaveLength(1);
});

test('with resumable: false a CLI that is killed ends the run', async () => {
  await using folder = await temporaryFolder();
  const { entries, requests } = await run(folder.path, 1, { resumable: false });
  expect(entries.at(-1)).toMatchObject({ outcome: 'failed', error: { code: 'peer_exited' } });
  expect(requests).toHaveLength(1);
});
