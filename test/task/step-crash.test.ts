import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { checkLaws } from '../../src/event/index.ts';
import type { Entry } from '../../src/event/types.ts';
import { createRunner, memoryLog, sqliteLog } from '../../src/task/index.ts';
import { steppingAgent, TURN } from '../fixtures/stepping-agent.ts';
import { collect, textOf } from './replica-world.ts';
import { temporaryFolder } from './temporary-sqlite.ts';

const child = fileURLToPath(new URL('../fixtures/step-crash.ts', import.meta.url));

/** Every event is a point to kill at. Each costs a process, so by default only some are tried. */
const STRIDE = process.env['DUOLANE_KILL_EVERYWHERE'] === '1' ? 1 : 7;

/** Runs the agent in a process of its own; gives what a reader there saw before it was killed. */
async function runChild(file: string, ...args: readonly string[]): Promise<Entry[]> {
  const runner = spawn(process.execPath, ['--import', 'tsx', child, file, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(runner, 'exit');
  const seen: Entry[] = [];
  for await (const line of createInterface({ input: runner.stdout }))
    seen.push(JSON.parse(line) as Entry);
  await exited;
  return seen;
}

interface Ended {
  readonly entries: readonly Entry[];
  readonly keys: readonly string[];
}

async function unbroken(folder: string): Promise<Ended> {
  const effects = join(folder, 'unbroken');
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { a: steppingAgent(effects) } });
  await runner.submit(TURN);
  return { entries: await collect(log.read('t', 0)), keys: await keysIn(effects) };
}

const keysIn = async (file: string): Promise<string[]> =>
  (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean);

/** What readers were shown, with deltas joined: everything but what is about the runs themselves. */
function shown(entries: readonly Entry[]): string[] {
  const all: string[] = [];
  let text = '';
  for (const entry of entries) {
    if (entry.type === 'text.delta') text += entry.delta;
    else if (/^(tool|artifact|status)/.test(entry.type)) {
      const { seq: _seq, at: _at, ...rest } = entry;
      all.push(text, JSON.stringify(rest));
      text = '';
    }
  }
  return [...all, text];
}

/** The log is valid, and readers, text and steps are those of the run that was not killed. */
function compare({ entries, keys }: Ended, whole: Ended): void {
  expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, index) => index + 1));
  expect(checkLaws(entries)).toEqual([]);
  expect(entries.filter(({ type }) => type === 'run.finished')).toHaveLength(1);
  expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: textOf(whole.entries) });
  expect(textOf(entries)).toBe(textOf(whole.entries));
  expect(shown(entries)).toEqual(shown(whole.entries));
  expect(new Set(keys)).toEqual(new Set(whole.keys));
}

const runsOf = ({ entries }: Ended): number =>
  entries.filter(({ type }) => type === 'run.started').length;

test('a run that is killed at every event, one after the other, ends like an unbroken one', async () => {
  await using folder = await temporaryFolder();
  const whole = await unbroken(folder.path);
  const [file, effects] = [join(folder.path, 'tasks.db'), join(folder.path, 'effects')];
  let seen: Entry[] = [];
  let kills = 0;
  for (; seen.at(-1)?.type !== 'run.finished'; kills++) {
    const before = seen;
    seen = await runChild(file, effects, `${before.length + STRIDE}`);
    // A reader that comes back finds what it has seen, and more.
    expect(seen.slice(0, before.length)).toEqual(before);
    expect(seen.length).toBeGreaterThan(before.length);
  }
  const ended = { entries: seen, keys: await keysIn(effects) };
  compare(ended, whole);
  expect(kills).toBeGreaterThan(40 / STRIDE);
  // Each kill may repeat the step that was under way then.
  expect(ended.keys.length).toBeLessThanOrEqual(whole.keys.length + kills);
}, 600_000);

test('a run that is killed once, at any event, repeats at most the step under way', async () => {
  await using folder = await temporaryFolder();
  const whole = await unbroken(folder.path);
  for (let killAt = 2; killAt < whole.entries.length; killAt += STRIDE) {
    const [file, effects] = [`tasks${killAt}.db`, `effects${killAt}`].map((name) =>
      join(folder.path, name),
    ) as [string, string];
    const seen = await runChild(file, effects, `${killAt}`);
    await using log = await sqliteLog({ file });
    await using _runner = createRunner({ log, agents: { a: steppingAgent(effects) } });
    const entries = await collect(log.read('t', 0));
    expect(entries.slice(0, seen.length)).toEqual(seen);
    const ended = { entries, keys: await keysIn(effects) };
    compare(ended, whole);
    expect(ended.keys.length).toBeLessThanOrEqual(whole.keys.length + 1);
  }
}, 600_000);

test('a step whose process is killed after its effect is run again under the same key', async () => {
  await using folder = await temporaryFolder();
  const whole = await unbroken(folder.path);
  for (const killIn of [0, 9]) {
    const [file, effects] = [`tasks${killIn}.db`, `effects${killIn}`].map((name) =>
      join(folder.path, name),
    ) as [string, string];
    await runChild(file, effects, '', `${killIn}`);
    await using log = await sqliteLog({ file });
    await using _runner = createRunner({ log, agents: { a: steppingAgent(effects) } });
    const ended = { entries: await collect(log.read('t', 0)), keys: await keysIn(effects) };
    compare(ended, whole);
    expect(ended.keys).toHaveLength(whole.keys.length + 1);
    expect(ended.keys[killIn + 1]).toBe(ended.keys[killIn]);
    expect(runsOf(ended)).toBeLessThanOrEqual(3);
  }
});
