import { getActiveResourcesInfo } from 'node:process';
import { expect } from 'vitest';
import { memoryDatabase } from '../../src/task/store/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { collect, say, shape, turn, World } from './replica-world.ts';
import { verifies } from '../verifies.ts';

// The heartbeat of a claim watches its run: it renews the lease and reads notes of others.
const timers = (): number => getActiveResourcesInfo().filter((each) => each === 'Timeout').length;

/** Says one word, then nothing until it is stopped or `done` resolves. */
const silent = (done: Promise<void> = new Promise(() => {})): Agent =>
  async function* (_turn, { signal }) {
    yield say('x');
    await Promise.race([
      done,
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ]);
  };

verifies(
  ['S184', 'S185', 'S187'],
  'a run is watched from its start, at every heartbeat, until it gets a cancel',
  async () => {
    await using world = new World(memoryDatabase());
    const owner = world.replica({ notify: false, heartbeatMs: 20, pollMs: 1e6 });
    const other = world.replica();
    const runner = owner.runner({ w: silent() });
    await runner.submit(turn('w', 't'));
    // Nothing notifies the claim holder: its heartbeat reads the note before the agent is done.
    while ((owner.faults.calls['beat'] ?? 0) < 3)
      await new Promise((resolve) => setTimeout(resolve, 5));
    await other.log.requestCancel('t');
    const entries = await collect(other.log.read('t', 0));
    expect(shape(entries).slice(-2)).toEqual(['cancel.requested', 'run.finished:canceled']);
    const beats = owner.faults.calls['beat'];
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(owner.faults.calls['beat']).toBe(beats);
  },
);

verifies('S186', 'the watcher of a run ends with it, however it ends', async () => {
  const before = timers();
  await using world = new World(memoryDatabase());
  const owner = world.replica({ heartbeatMs: 20 });
  let finish = (): void => {};
  const done = new Promise<void>((resolve) => (finish = resolve));
  const broken: Agent = async function* () {
    yield say('x');
    throw new Error('broken');
  };
  const runner = owner.runner({ w: silent(done), b: broken });
  await runner.submit(turn('w', 't'));
  await runner.submit(turn('b', 'u'));
  await collect(owner.log.read('u', 0));
  const during = owner.faults.calls['beat'] ?? 0;
  while ((owner.faults.calls['beat'] ?? 0) <= during)
    await new Promise((resolve) => setTimeout(resolve, 5));
  finish();
  await collect(owner.log.read('t', 0));
  const after = owner.faults.calls['beat'];
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(owner.faults.calls['beat']).toBe(after);
  await runner[Symbol.asyncDispose]();
  await owner.log[Symbol.asyncDispose]();
  expect(timers()).toBeLessThanOrEqual(before);
});
