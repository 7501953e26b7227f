import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { type TaskLog } from '../../src/task/index.ts';
import { memoryDatabase, openLog } from '../../src/task/store/index.ts';
import { encodeEvent } from '../../src/task/store/line-codec.ts';
import { SqliteEngine } from '../../src/task/sqlite/engine.ts';
import type { StoreMethods } from '../../src/task/store/store.ts';
import { temporaryFolder } from './temporary-sqlite.ts';
import { claimed, collect, SILENT, started, turn } from './replica-world.ts';

afterEach(() => void vi.useRealTimers());

/** One hour later, by the wall clock alone. */
function stepClock(): void {
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(Date.now() + 3_600_000);
}

/** Resolves with `idle` when nothing can be claimed, with the task otherwise. */
async function claimedOrIdle(log: TaskLog, rounds: number): Promise<string> {
  const stop = new AbortController();
  let left = rounds;
  const onIdle = (): void => void (--left === 0 && stop.abort(new Error('idle')));
  const claims = log.claims('other', { agents: ['a'], signal: stop.signal, onIdle });
  return collect(claims, 1).then(
    ([claim]) => String(claim?.task),
    () => 'idle',
  );
}

test('a step of the wall clock does not end a claim in memory', async () => {
  await using log = openLog(memoryDatabase(), { pollMs: 5 });
  const claim = await claimed(log, 't');
  stepClock();
  expect(await claimedOrIdle(log, 3)).toBe('idle');
  expect(await log.append(claim, 1, [started])).toBe(2);
});

test('a step of the wall clock does not end a claim in SQLite', async () => {
  await using folder = await temporaryFolder();
  const engine = new SqliteEngine(join(folder.path, 'tasks.db'));
  const call = (method: keyof StoreMethods, ...args: unknown[]): unknown => {
    const [done] = engine.run([{ id: 1, method, args }]);
    const reply = done?.reply as { readonly value?: unknown; readonly failure?: unknown };
    expect(reply.failure).toBeUndefined();
    return reply.value;
  };
  const note = encodeEvent({ type: 'turn.submitted', turn: turn('a', 't') });
  call('submit', { note, worker: 'w', leaseMs: 20_000, dedupe: true });
  stepClock();
  const found = call('claim', 'other', ['a'], 20_000) as ReturnType<StoreMethods['claim']>;
  expect(found.claim).toBeUndefined();
  expect(found.retryInMs).toBeLessThanOrEqual(20_000);
  engine.close();
});

test('a process that was stopped for longer than a lease keeps its claims', async () => {
  const options = { heartbeatMs: 60, leaseMs: 120, pollMs: 2, logger: SILENT };
  await using log = openLog(memoryDatabase(), options);
  const claim = await claimed(log, 't');
  const found = claimedOrIdle(log, 50);
  await new Promise((resolve) => setTimeout(resolve, 10));
  // Nothing of the process goes on, as with SIGSTOP; then the timers of claims are due first.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
  expect(await found).toBe('idle');
  expect(claim.signal.aborted).toBe(false);
  expect(await log.append(claim, 1, [started])).toBe(2);
});

test('a claim outlives a store that does not accept writes, if no other process can have it', async () => {
  const store = memoryDatabase();
  let fails = true;
  const beat: typeof store.beat = (...args) =>
    fails ? Promise.reject(new Error('disk full')) : store.beat(...args);
  const options = { heartbeatMs: 10, leaseMs: 30, pollMs: 5, logger: SILENT };
  await using log = openLog({ ...store, beat }, options);
  const claim = await claimed(log, 't');
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(claim.signal.aborted).toBe(false);
  fails = false;
  expect(await claimedOrIdle(log, 3)).toBe('idle');
  expect(await log.append(claim, 1, [started])).toBe(2);
});
