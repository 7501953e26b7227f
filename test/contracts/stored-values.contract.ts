import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TaskLog } from '../../src/task/index.ts';
import type { Store } from '../../src/task/store/index.ts';
import {
  claimed,
  collect,
  completed,
  MORTAL,
  started,
  turn,
  World,
} from '../task/replica-world.ts';

/** What every task log promises for the values that agents keep with their tasks. */
export function storedValuesContract(name: string, open: () => Promise<Store>): void {
  describe(`task log, stored values: ${name}`, () => {
    let world: World;
    let log: TaskLog;
    beforeEach(async () => {
      world = new World(await open());
      log = world.replica().log;
    });
    afterEach(() => world[Symbol.asyncDispose]());

    test('are set, replaced, deleted and listed by prefix in the order of keys', async () => {
      const claim = await claimed(log, 't');
      await log.setValues(claim, [
        ['b/2', { text: 'ü\u0000"' }],
        ['b/10', [1]],
        ['B/1', 'upper'],
        ['b', null],
        ['c', 'last'],
        ['b~', true],
      ]);
      await log.setValues(claim, [
        ['b/2', 2],
        ['c', undefined],
        ['missing', undefined],
      ]);
      expect(await collect(log.values('t', ''))).toEqual([
        ['B/1', 'upper'],
        ['b', null],
        ['b/10', [1]],
        ['b/2', 2],
        ['b~', true],
      ]);
      expect(await collect(log.values('t', 'b/'))).toEqual([
        ['b/10', [1]],
        ['b/2', 2],
      ]);
      expect(await collect(log.values('other', ''))).toEqual([]);
    });

    test('of several changes of one key in one call, the last one counts', async () => {
      const claim = await claimed(log, 't');
      await log.setValues(claim, [
        ['a', 1],
        ['b', 1],
        ['a', undefined],
        ['b', 2],
      ]);
      expect(await collect(log.values('t', ''))).toEqual([['b', 2]]);
    });

    test('that fill many pages are listed whole', async () => {
      const claim = await claimed(log, 't');
      const key = (index: number): string => `k/${String(index).padStart(6, '0')}`;
      const small = Array.from({ length: 700 }, (_, index) => [key(index), index] as const);
      await log.setValues(claim, small);
      const large = 'x'.repeat(700_000);
      for (let index = 700; index < 705; index++) await log.setValues(claim, [[key(index), large]]);
      const found = await collect(log.values('t', 'k/'));
      expect(found.map(([name]) => name)).toEqual(Array.from({ length: 705 }, (_, n) => key(n)));
      expect(found[704]?.[1]).toBe(large);
    });

    test('are read by another replica', async () => {
      const claim = await claimed(log, 't');
      await log.setValues(claim, [['a', 1]]);
      expect(await collect(world.replica().log.values('t', ''))).toEqual([['a', 1]]);
    });

    test('are refused with `fenced` after the claim', async () => {
      const claim = await claimed(log, 't');
      await log.setValues(claim, [['a', 'mine']]);
      await log.append(claim, 1, [started, completed]);
      const late = log.setValues(claim, [['a', 'late']]);
      await expect(late).rejects.toMatchObject({ code: 'fenced' });
      expect(await collect(log.values('t', ''))).toEqual([['a', 'mine']]);
    });

    test('of a runner that was replaced are refused with `fenced`', async () => {
      const first = world.replica(MORTAL);
      const claim = await claimed(first.log, 't');
      await first.log.setValues(claim, [['a', 'first']]);
      first.kill();
      const second = world.replica().log;
      for await (const next of second.claims('w2', { agents: ['a'] })) {
        expect(next.task).toBe('t');
        await second.setValues(next, [['a', 'second']]);
        break;
      }
      const late = log.setValues({ ...claim }, [['a', 'late']]);
      await expect(late).rejects.toMatchObject({ code: 'fenced' });
      expect(await collect(log.values('t', ''))).toEqual([['a', 'second']]);
    });

    test('that cannot be stored are refused, and none of their call is', async () => {
      const claim = await claimed(log, 't');
      const cyclic: Record<string, unknown> = {};
      cyclic['self'] = cyclic;
      for (const [key, value] of [
        ['', 1],
        ['with space', 1],
        ['é', 1],
        ['x'.repeat(513), 1],
        ['big', 1n],
        ['cyclic', cyclic],
        ['function', () => {}],
      ] as const) {
        const refused = log.setValues(claim, [
          ['good', 1],
          [key, value],
        ]);
        await expect(refused).rejects.toMatchObject({ code: 'invalid' });
      }
      const large = log.setValues(claim, [['large', 'x'.repeat(9 << 20)]]);
      await expect(large).rejects.toMatchObject({ code: 'too_large' });
      expect(await collect(log.values('t', ''))).toEqual([]);
    });

    test('are deleted with their task', async () => {
      for (const task of ['t1', 't2']) {
        const claim = await claimed(log, task);
        await log.setValues(claim, [['a', task]]);
        if (task === 't1') await log.append(claim, 1, [started, completed]);
      }
      expect(await log.prune({ tasksEndedBefore: Date.now() + 1000 })).toBe(1);
      expect(await collect(log.values('t1', ''))).toEqual([]);
      expect(await collect(log.values('t2', ''))).toEqual([['a', 't2']]);
      await log.submit(turn('a', 't1', { messageId: 'again' }));
      expect(await collect(log.values('t1', ''))).toEqual([]);
    });
  });
}
