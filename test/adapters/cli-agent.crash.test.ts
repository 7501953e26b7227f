import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { checkLaws } from '../../src/event/index.ts';
import type { Entry } from '../../src/event/types.ts';
import { createRunner, memoryLog, sqliteLog, type TaskLog } from '../../src/task/index.ts';
import { crashAgent, MODEL, TURN } from '../fixtures/cli-crash-agent.ts';
import { SILENT, textOf } from '../task/replica-world.ts';
import { temporaryFolder } from '../task/temporary-sqlite.ts';

// A process that runs an agent CLI is killed; another one, with an empty disk, goes on. The CLI is
// ours, as built into dist.

const child = fileURLToPath(new URL('../fixtures/cli-crash.ts', import.meta.url));

/** Every event is a point to kill at. Each costs processes, so by default only some are tried. */
const EVERYWHERE = process.env['DUOLANE_KILL_EVERYWHERE'] === '1';

interface Ended {
  readonly entries: readonly Entry[];
  readonly requests: readonly string[];
  readonly effects: readonly string[];
}

function shared(folder: string, name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'model.mjs'), MODEL);
  for (const each of ['requests', 'effects']) writeFileSync(join(path, each), '');
  return path;
}

const lines = (...path: string[]): string[] =>
  readFileSync(join(...path), 'utf8')
    .split('\n')
    .filter(Boolean);

/** Runs the task on this log to its end, and answers its question. */
async function finish(log: TaskLog, place: string, own: string): Promise<Ended> {
  const agents = { a: crashAgent({ shared: place, own: join(place, own) }) };
  await using runner = createRunner({ log, agents, logger: SILENT });
  await runner.submit(TURN);
  const entries: Entry[] = [];
  for await (const entry of log.read('t', 0)) {
    entries.push(entry);
    if (entry.type === 'input.required')
      await runner.submit({
        ...TURN,
        messageId: 'm2',
        parts: [],
        answers: [{ id: entry.request.id, action: 'accept' }],
      });
  }
  return { entries, requests: lines(place, 'requests'), effects: lines(place, 'effects') };
}

async function unbroken(folder: string): Promise<Ended> {
  await using log = memoryLog();
  return await finish(log, shared(folder, 'unbroken'), 'own');
}

async function broken(folder: string, killAt: string, killIn = ''): Promise<Ended> {
  const place = shared(folder, `${killAt}-${killIn}`);
  const file = join(place, 'log.sqlite');
  const args = ['--import', 'tsx', child, file, place, join(place, 'first'), killAt, killIn];
  const first = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  await once(first, 'exit');
  await using log = await sqliteLog({ file });
  return await finish(log, place, 'second');
}

/** Without a request that was repeated: the one that was under way when the process was killed. */
const distinct = (requests: readonly string[]): string[] =>
  requests.filter((request, index) => request !== requests[index - 1]);

function compare({ entries, requests, effects }: Ended, whole: Ended): void {
  expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index + 1));
  expect(checkLaws(entries)).toEqual([]);
  expect(entries.at(-1)).toMatchObject({
    type: 'run.finished',
    outcome: 'completed',
    text: textOf(whole.entries),
  });
  expect(textOf(entries)).toBe(textOf(whole.entries));
  expect(distinct(requests)).toEqual(whole.requests);
  expect(requests.length - whole.requests.length).toBeLessThanOrEqual(1);
  expect(new Set(effects)).toEqual(new Set(whole.effects));
  expect(effects.length - whole.effects.length).toBeLessThanOrEqual(1);
}

const callsOf = (entries: readonly Entry[], type: Entry['type']): string[] =>
  entries.flatMap((entry) =>
    entry.type === type && 'callId' in entry ? [entry.callId ?? ''] : [],
  );

describe('a run that is killed ends like an unbroken one', () => {
  test('at any event', async () => {
    await using folder = await temporaryFolder();
    const whole = await unbroken(folder.path);
    expect(whole.requests).toHaveLength(5);
    expect(whole.effects).toHaveLength(5);
    const last = whole.entries.length;
    const step = EVERYWHERE ? 1 : Math.ceil(last / 6);
    for (let at = 2; at < last; at += step) {
      const ended = await broken(folder.path, String(at));
      compare(ended, whole);
      for (const type of ['tool.called', 'tool.completed'] as const)
        expect([at, callsOf(ended.entries, type)]).toEqual([at, callsOf(whole.entries, type)]);
    }
  }, 600_000);

  test.each(['toolu_0_0', 'toolu_1_1', 'toolu_2_0'])(
    'right after the effect of call %s, which is repeated under its id',
    async (callId) => {
      await using folder = await temporaryFolder();
      const whole = await unbroken(folder.path);
      const ended = await broken(folder.path, '', callId);
      compare(ended, whole);
      expect(ended.effects.filter((id) => id === callId)).toHaveLength(2);
    },
  );
});
