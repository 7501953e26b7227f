import fc from 'fast-check';
import { expect } from 'vitest';
import { advance, checkLaws, isFinal } from '../src/event/index.ts';
import type { Entry, Snapshot } from '../src/event/types.ts';
import { memoryDatabase, type Store, type TaskLog } from '../src/task/index.ts';
import { temporarySqlite } from './task-sqlite.ts';
import { collect, manyWords, turn, words, World } from './task-world.ts';
import { verifies } from './verifies.ts';

/** What goes wrong with one task, and when: once the log has so many entries. */
const schedule = fc.record({
  words: fc.integer({ min: 0, max: 25 }),
  pauseMs: fc.integer({ min: 0, max: 2 }),
  resumable: fc.boolean(),
  notify: fc.boolean(),
  lost: fc.array(fc.constantFrom('answer', 'call', 'nothing'), { maxLength: 6 }),
  faults: fc.array(
    fc.record({
      at: fc.integer({ min: 1, max: 20 }),
      what: fc.constantFrom('kill', 'stop', 'cancel', 'message'),
    }),
    { maxLength: 4 },
  ),
  cuts: fc.array(fc.integer({ min: 1, max: 10 }), { maxLength: 5 }),
});
type Schedule = typeof schedule extends fc.Arbitrary<infer T> ? T : never;

let tasks = 0;

/** Runs one task through its faults and checks what every reader saw. */
async function live(world: World, plan: Schedule): Promise<void> {
  const task = `t${++tasks}`;
  const name = `agent-${task}`;
  const agent = words(plan.words, plan.pauseMs, { resumable: plan.resumable });
  const owner = world.replica({ heartbeatMs: 15, leaseMs: 60, notify: plan.notify });
  const survivor = world.replica({ notify: plan.notify, pollMs: 10 });
  let calls = 0;
  owner.faults.slow = true;
  const loses = (what: string) => (method: string) =>
    method === 'append' && plan.lost[calls++ % (plan.lost.length + 1)] === what;
  owner.faults.losesAnswer = loses('answer');
  owner.faults.failsBefore = loses('call');
  survivor.runner({ [name]: agent });
  await owner.runner({ [name]: agent }).submit(turn(name, task));

  const resumed = readInPieces(world.replica({ notify: false, pollMs: 10 }).log, task, plan.cuts);
  const faults = plan.faults.toSorted((a, b) => b.at - a.at);
  const seen: Entry[] = [];
  for await (const entry of survivor.log.read(task, 0)) {
    seen.push(entry);
    while ((faults.at(-1)?.at ?? Infinity) <= entry.seq) {
      const what = faults.pop()?.what;
      if (what === 'kill') owner.kill();
      else if (what === 'stop') setTimeout(owner.faults.pause(), 100);
      // A task that ended a moment before refuses both, as it should.
      else if (what === 'cancel') await survivor.log.requestCancel(task).catch(() => {});
      else await survivor.log.submit(turn(name, task)).catch(() => {});
    }
  }

  expect(seen.map((entry) => entry.seq)).toEqual(seen.map((_, index) => index + 1));
  expect(checkLaws(seen)).toEqual([]);
  expect(await collect(survivor.log.read(task, 0))).toEqual(seen);
  expect(await resumed).toEqual(seen);
  const states = folded(seen).map((snapshot) => snapshot.state);
  expect(states.filter(isFinal)).toHaveLength(1);
  const end = await survivor.log.get(task);
  expect(end).toEqual(folded(seen).at(-1));
  const said = manyWords(plan.words);
  if (end?.state === 'completed') expect(end.text).toBe(said);
  else expect(said.startsWith(end?.text ?? '')).toBe(true);
}

function folded(entries: readonly Entry[]): Snapshot[] {
  let snapshot: Snapshot | undefined;
  return entries.map((entry) => (snapshot = advance(snapshot, entry)));
}

/** A client whose connection is cut again and again, and that comes back with its last id. */
async function readInPieces(log: TaskLog, task: string, cuts: readonly number[]): Promise<Entry[]> {
  const seen: Entry[] = [];
  for (const cut of [...cuts, Infinity])
    seen.push(...(await collect(log.read(task, seen.at(-1)?.seq ?? 0), cut)));
  return seen;
}

function checkSchedules(open: () => Promise<Store>, rounds: number): () => Promise<void> {
  const together = fc.array(schedule, { minLength: 25, maxLength: 25 });
  return () =>
    fc.assert(
      fc.asyncProperty(together, async (plans) => {
        await using world = new World(await open());
        await Promise.all(plans.map((plan) => live(world, plan)));
      }),
      { numRuns: rounds, endOnFailure: true, timeout: 60_000 },
    );
}

const rows = ['S132', 'S190', 'S197'] as const;
verifies(
  rows,
  '800 random fault schedules in memory: nothing lost, doubled or reordered, one final',
  checkSchedules(async () => memoryDatabase(), 32),
  180_000,
);
verifies(
  rows,
  '200 random fault schedules in SQLite: nothing lost, doubled or reordered, one final',
  checkSchedules(temporarySqlite, 8),
  180_000,
);
