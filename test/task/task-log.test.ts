import { expect, test } from 'vitest';
import { createRunner } from '../../src/task/index.ts';
import { memoryDatabase, openLog } from '../../src/task/store/index.ts';
import { taskLogContract } from '../contracts/task-log.contract.ts';
import { taskRunsContract } from '../contracts/task-runs.contract.ts';
import { temporarySqlite } from './temporary-sqlite.ts';
import { storeBehindWire } from './user-store.ts';
import { collect, manyWords, shape, textOf, turn, words, World } from './replica-world.ts';
import { verifies } from '../verifies.ts';

taskLogContract('memory', async () => memoryDatabase());
taskLogContract('sqlite', temporarySqlite);
taskLogContract('of a user, behind a wire', storeBehindWire);

taskRunsContract('memory', async () => memoryDatabase());
taskRunsContract('memory, every wait by restart', async () => memoryDatabase(), {
  suspendAfterMs: 0,
});
taskRunsContract('sqlite', temporarySqlite);

test('a short task that is read asks the store twice: for its turn and for its run', async () => {
  await using world = new World(memoryDatabase());
  const { log, faults } = world.replica();
  const runner = createRunner({ log, agents: { w: words(1, 0) } });
  await runner.submit(turn('w', 't'));
  const entries = await collect(log.read('t', 1));
  expect(shape(entries)).toEqual(['run.started', 'run.finished:completed']);
  await runner[Symbol.asyncDispose]();
  expect(faults.calls).toMatchObject({ submit: 1, append: 1 });
  expect(Object.keys(faults.calls).toSorted()).toEqual(['append', 'claim', 'submit']);
});

verifies(
  'S195',
  'a store that a user wrote carries runs, cancels and readers like ours',
  async () => {
    const store = await storeBehindWire();
    await using log = openLog(store);
    await using runner = createRunner({ log, agents: { a: words(30, 1), slow: words(10_000, 1) } });
    await runner.submit(turn('a', 't'));
    expect(textOf(await collect(log.read('t', 0)))).toBe(manyWords(30));
    await runner.submit(turn('slow', 'u'));
    const reading = collect(log.read('u', 0));
    await log.requestCancel('u');
    expect((await reading).at(-1)).toMatchObject({ type: 'run.finished', outcome: 'canceled' });
    expect(await store.get('t')).toMatchObject({ state: 'completed', text: manyWords(30) });
    expect(await store.get('u')).toMatchObject({ state: 'canceled' });
  },
);
