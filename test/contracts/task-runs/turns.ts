import { expect, test } from 'vitest';
import { DuolaneError } from '../../../src/errors.ts';
import type { Agent } from '../../../src/event/types.ts';
import {
  answer,
  askingAgent,
  collect,
  manyWords,
  say,
  shape,
  textOf,
  turn,
  until,
  words,
} from '../../task/replica-world.ts';
import { verifies } from '../../verifies.ts';
import { type Place, waits, whole } from './fixture.ts';

/** Events once and in order for every reader; several turns; limits of runs. */
export function streamedRuns({ replica, start }: Place): void {
  test('a run is said once and in order, with deltas joined while a commit runs', async () => {
    const a = replica();
    a.faults.slow = true;
    const submitted = await start(a, { w: words(500, 0) }).submit(turn('w', 't'));
    expect(submitted).toMatchObject({ seq: 1, type: 'turn.submitted' });
    const entries = await whole(a.log, 't');
    expect(textOf(entries)).toBe(manyWords(500));
    expect(entries.length).toBeLessThan(250);
    expect(a.faults.calls['append']).toBeLessThan(entries.length);
  });

  verifies(
    ['S191', 'S197'],
    'a client that comes back at any id gets exactly the rest',
    async () => {
      const a = replica();
      await start(a, { w: words(40, 1) }).submit(turn('w', 't'));
      const entries = await whole(a.log, 't');
      for (const { seq } of entries)
        expect(await collect(a.log.read('t', seq))).toEqual(entries.slice(seq));
    },
  );

  verifies('S196', 'a reader that leaves does not stop the run', async () => {
    const a = replica();
    await start(a, { w: words(40, 1) }).submit(turn('w', 't'));
    await collect(a.log.read('t', 0), 5);
    expect(textOf(await whole(a.log, 't'))).toBe(manyWords(40));
  });

  test('a message to a running task is served after it, before the task is final', async () => {
    const a = replica();
    let goOn = (): void => {};
    const submitted = new Promise<void>((resolve) => (goOn = resolve));
    const busy: Agent = async function* (given, ctx) {
      yield* words(5, 1)(given, ctx);
      await submitted;
    };
    const runner = start(a, { w: busy });
    await runner.submit(turn('w', 't'));
    await until(a.log, 't', (snapshot) => snapshot.text.length > 3);
    await runner.submit(turn('w', 't'));
    goOn();
    const runs = shape(await whole(a.log, 't')).filter((type) => type.startsWith('run.'));
    expect(runs).toEqual([
      'run.started',
      'run.finished:completed',
      'run.started',
      'run.finished:completed',
    ]);
  });

  test('runs beyond the cap wait in the log, and a front of 0 runs nothing itself', async () => {
    const a = replica();
    let now = 0;
    let most = 0;
    const counting: Agent = async function* (given, ctx) {
      most = Math.max(most, ++now);
      yield* words(5, 2)(given, ctx);
      now--;
    };
    const front = start(a, {}, { maxRuns: 0 });
    const names = Array.from({ length: 9 }, (_, index) => `t${index}`);
    for (const task of names.slice(0, 4)) await front.submit(turn('c', task));
    expect(await a.log.get('t0')).toMatchObject({ state: 'submitted' });
    const runner = start(a, { c: counting }, { maxRuns: 2 });
    for (const task of names.slice(4)) await runner.submit(turn('c', task));
    for (const task of names) await whole(a.log, task);
    expect(most).toBe(2);
  });

  test('a run past its time fails with timeout; a person may take longer', async () => {
    const a = replica();
    const runner = start(a, { w: words(10_000, 1), a: askingAgent }, { timeoutMs: 60 });
    await runner.submit(turn('w', 'slow'));
    await runner.submit(turn('a', 'asks'));
    expect((await whole(a.log, 'slow')).at(-1)).toMatchObject({
      outcome: 'failed',
      error: { code: 'timeout' },
    });
    const { pending } = await until(a.log, 'asks', waits);
    await runner.submit(answer('a', 'asks', pending[0]?.id ?? '', 'yes'));
    expect(shape(await whole(a.log, 'asks')).at(-1)).toBe('run.finished:completed');
  });

  test('what the log refuses fails the run and says why', async () => {
    const a = replica();
    const refusal = new DuolaneError('invalid', 'not this one');
    let appends = 0;
    a.faults.failsBefore = (method) => method === 'append' && ++appends === 2 && refusal;
    await start(a, { w: words(20, 2) }).submit(turn('w', 't'));
    const error = { code: 'invalid', message: 'not this one' };
    expect((await whole(a.log, 't')).at(-1)).toMatchObject({ outcome: 'failed', error });
  });

  test('an agent sees the earlier tasks of its context and its trace', async () => {
    const a = replica();
    const seen: unknown[] = [];
    const curious: Agent = async function* (_turn, ctx) {
      seen.push(
        ctx.trace,
        (await collect(ctx.history())).map(({ task }) => task),
      );
      yield say('x');
    };
    const runner = start(a, { c: curious });
    await runner.submit(turn('c', 't1', { owner: 'ann' }));
    await whole(a.log, 't1');
    await runner.submit(turn('c', 'other', { owner: 'bob' }));
    await whole(a.log, 'other');
    const metadata = { traceparent: '00-1-2-01' };
    await runner.submit(turn('c', 't2', { owner: 'ann', metadata }));
    await whole(a.log, 't2');
    expect(seen.slice(-2)).toEqual([{ traceparent: '00-1-2-01' }, ['t1']]);
  });

  test('an agent sees no task of another owner or tenant, also without an owner', async () => {
    const a = replica();
    const seen = new Map<string, readonly string[]>();
    const curious: Agent = async function* ({ task }, ctx) {
      seen.set(
        task,
        (await collect(ctx.history())).map((each) => each.task),
      );
      yield say('x');
    };
    const runner = start(a, { c: curious });
    for (const [task, place] of [
      ['of ann', { owner: 'ann' }],
      ['of ann at x', { owner: 'ann', tenant: 'x' }],
      ['at x', { tenant: 'x' }],
      ['without an owner', {}],
      ['without an owner, again', {}],
    ] as const) {
      await runner.submit(turn('c', task, place));
      await whole(a.log, task);
    }
    expect(Object.fromEntries(seen)).toEqual({
      'of ann': [],
      'of ann at x': [],
      'at x': [],
      'without an owner': [],
      'without an owner, again': ['without an owner'],
    });
  });
}
