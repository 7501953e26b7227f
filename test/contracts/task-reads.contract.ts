import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AgentEvent, Seq, Snapshot } from '../../src/event/types.ts';
import type { TaskLog } from '../../src/task/index.ts';
import type { Store } from '../../src/task/store/index.ts';
import {
  claimed,
  collect,
  completed,
  say,
  started,
  turn,
  until,
  World,
} from '../task/replica-world.ts';
import { outlineOf } from '../../src/task/store/task-outline.ts';
import { verifies } from '../verifies.ts';

/** What every task log promises to those who read it, and to those who tidy it up. */
export function taskReadsContract(name: string, open: () => Promise<Store>): void {
  describe(`task log, reading: ${name}`, () => {
    let world: World;
    let log: TaskLog;
    beforeEach(async () => {
      world = new World(await open());
      log = world.replica().log;
    });
    afterEach(() => world[Symbol.asyncDispose]());

    /** A task that has ended after these events. */
    const ended = async (task: string, events: readonly AgentEvent[] = [say('x')]): Promise<Seq> =>
      log.append(await claimed(log, task), 1, [started, ...events, completed]);

    describe('read', () => {
      test.each([1e20, 1.5, NaN])('from %s, which no entry can have, is invalid', async (after) => {
        await ended('t');
        await expect(collect(log.read('t', after))).rejects.toMatchObject({ code: 'invalid' });
      });

      verifies(
        ['S191', 'S197', 'S198'],
        'from every place gives exactly the rest, ended or not',
        async () => {
          const claim = await claimed(log, 't');
          const deltas = Array.from({ length: 300 }, (_, index) => say(`${index} `));
          let seq = await log.append(claim, 1, [started, ...deltas]);
          const live = collect(log.read('t', 0));
          for (const delta of deltas.slice(0, 20)) seq = await log.append(claim, seq, [delta]);
          await log.append(claim, seq, [completed]);
          const all = await live;
          expect(all.map((entry) => entry.seq)).toEqual(all.map((_, index) => index + 1));
          for (const after of [0, 1, 100, 255, 256, 257, 300, 321, 322, 323])
            expect(await collect(log.read('t', after))).toEqual(all.slice(after));
        },
      );

      test('tails on any replica, with and without announcements', async () => {
        const readers = [log, world.replica().log, world.replica({ notify: false }).log];
        const claim = await claimed(log, 't');
        const read = readers.map((reader) => collect(reader.read('t', 0)));
        let seq = await log.append(claim, 1, [started]);
        for (let index = 0; index < 30; index++) seq = await log.append(claim, seq, [say('x')]);
        await log.append(claim, seq, [completed]);
        const [first, ...others] = await Promise.all(read);
        expect(first).toHaveLength(33);
        for (const entries of others) expect(entries).toEqual(first);
      });

      verifies('S194', 'of an unknown task is not_found, beyond the head is invalid', async () => {
        await expect(collect(log.read('t', 0))).rejects.toMatchObject({ code: 'not_found' });
        await claimed(log, 't');
        await expect(collect(log.read('t', 7))).rejects.toMatchObject({ code: 'invalid' });
      });

      test('a reader that is aborted throws the reason; one that leaves ends its wait', async () => {
        await claimed(log, 't');
        const stop = new AbortController();
        const aborted = collect(log.read('t', 1, { signal: stop.signal }));
        stop.abort(new Error('gone'));
        await expect(aborted).rejects.toThrow('gone');
        const iterator = log.read('t', 1)[Symbol.asyncIterator]();
        const waiting = iterator.next();
        await iterator.return?.();
        expect(await waiting).toMatchObject({ done: true });
      });

      test('a hundred readers at the head share what was committed', async () => {
        const replica = world.replica();
        const claim = await claimed(replica.log, 't');
        let seq = await replica.log.append(claim, 1, [started]);
        const count = 100;
        const heads = Array.from({ length: count }, () =>
          replica.log.read('t', 0)[Symbol.asyncIterator](),
        );
        for (const reader of heads) await reader.next().then(() => reader.next());
        const before = replica.faults.calls['read'] ?? 0;
        const rest = heads.map((reader) => collect({ [Symbol.asyncIterator]: () => reader }));
        for (let index = 0; index < 10; index++)
          seq = await replica.log.append(claim, seq, [say('x')]);
        await replica.log.append(claim, seq, [completed]);
        for (const entries of await Promise.all(rest)) expect(entries).toHaveLength(11);
        expect((replica.faults.calls['read'] ?? 0) - before).toBeLessThanOrEqual(count);
      });

      test('a slow reader holds up neither the writer nor another reader', async () => {
        const claim = await claimed(log, 't');
        const slow = log.read('t', 0)[Symbol.asyncIterator]();
        await slow.next();
        let seq = await log.append(claim, 1, [started]);
        for (let index = 0; index < 600; index += 20)
          seq = await log.append(
            claim,
            seq,
            Array.from({ length: 20 }, () => say('x')),
          );
        await log.append(claim, seq, [completed]);
        expect(await collect(log.read('t', 0))).toHaveLength(603);
        expect(await collect({ [Symbol.asyncIterator]: () => slow })).toHaveLength(602);
      });

      test('closing the log ends its readers and says so', async () => {
        const replica = world.replica();
        await claimed(replica.log, 't');
        const read = collect(replica.log.read('t', 0));
        const seen = until(log, 't', () => true);
        await seen;
        await replica.log[Symbol.asyncDispose]();
        await expect(read).rejects.toMatchObject({ code: 'closed' });
      });
    });

    describe('list', () => {
      test('newest change first, filtered; text of a run does not change the order', async () => {
        const first = await claimed(log, 't1');
        await log.append(first, 1, [started]);
        await new Promise((resolve) => setTimeout(resolve, 5));
        await log.submit(turn('a', 't2', { owner: 'ann', context: 'd' }));
        await log.append(first, 2, [say('x')]);
        const tasks = async (query: Parameters<TaskLog['list']>[0]): Promise<string[]> =>
          (await collect(log.list(query))).map((snapshot) => snapshot.task);
        expect(await tasks({})).toEqual(['t2', 't1']);
        expect(await tasks({ owner: 'ann' })).toEqual(['t2']);
        expect(await tasks({ context: 'c' })).toEqual(['t1']);
        expect(await tasks({ state: 'working' })).toEqual(['t1']);
        const { updatedAt } = (await log.get('t2')) as { updatedAt: number };
        expect(await tasks({ changedAfter: updatedAt - 1 })).toEqual(['t2']);
        expect((await collect(log.list({ state: 'working' })))[0]).toMatchObject({ text: 'x' });
        await new Promise((resolve) => setTimeout(resolve, 5));
        await log.append(first, 3, [completed]);
        expect(await tasks({})).toEqual(['t1', 't2']);
      });

      test('an outline has what a list shows, and nothing that is long', async () => {
        const long = 'x'.repeat(300_000);
        const parts = [{ text: long }];
        const one = await claimed(log, 'ended');
        const artifact = { type: 'artifact', artifactId: 'a', parts } as const;
        await log.append(one, 1, [started, say(long), artifact, completed]);
        const two = await claimed(log, 'asking');
        const request = { id: 'q', kind: 'question', message: 'Which?' } as const;
        await log.append(two, 1, [started, say(long), { type: 'input.required', request }]);
        await log.submit({ ...turn('a', 'waiting'), parts, metadata: { long } });
        const outlines = await collect(log.list({ outline: true }));
        expect(outlines).toHaveLength(3);
        for (const outline of outlines) {
          expect(outline).toEqual(outlineOf((await log.get(outline.task)) as Snapshot));
          expect(JSON.stringify(outline).length).toBeLessThan(2000);
        }
        const [asking] = await collect(log.list({ outline: true, state: 'input-required' }));
        expect(asking).toMatchObject({ task: 'asking', pending: [request], text: '' });
        const [waiting] = await collect(log.list({ outline: true, state: 'submitted' }));
        expect(waiting?.turns[0]?.parts).toEqual([{ text: long.slice(0, 256) }]);
      });

      test('counts what it would list, by agent, owner, tenant and state', async () => {
        const one = await claimed(log, 't1');
        await log.append(one, 1, [started]);
        await log.submit(turn('b', 't2', { owner: 'ann', tenant: 'x' }));
        await log.submit(turn('b', 't3', { owner: 'ann' }));
        for (const [query, tasks] of [
          [{}, ['t3', 't2', 't1']],
          [{ agent: 'a' }, ['t1']],
          [{ agent: 'b', owner: 'ann', tenant: 'x' }, ['t2']],
          [{ agent: 'b', owner: 'ann', tenant: '' }, ['t3']],
          [{ owner: '' }, ['t1']],
          [{ owner: 'ann', state: 'working' as const }, []],
          [{ state: 'working' as const }, ['t1']],
          [{ context: 'nowhere' }, []],
        ] as const) {
          const listed = (await collect(log.list(query))).map((snapshot) => snapshot.task);
          expect(listed.toSorted()).toEqual(tasks.toSorted());
          expect(await log.count(query)).toBe(tasks.length);
        }
      });

      test('goes on after any checkpoint, over pages', async () => {
        const names = Array.from({ length: 120 }, (_, index) => `t${index}`);
        for (const task of names) await log.submit(turn('a', task));
        const whole = (await collect(log.list({}))).map(({ task }) => task);
        expect(whole.toSorted()).toEqual(names.toSorted());
        for (const count of [1, 50, 70, 120]) {
          const list = log.list({});
          const head = await collect(list, count);
          const after = list.checkpoint as string;
          const rest = await collect(log.list({ after }));
          expect([...head, ...rest].map(({ task }) => task)).toEqual(whole);
        }
        expect(() => log.list({ after: 'x' })).toThrow('invalid position');
      });
    });

    describe('bookmarks', () => {
      test('are saved, moved, listed and deleted', async () => {
        for (const task of ['t1', 't2']) await log.submit(turn('a', task));
        await log.bookmark({ task: 't1', name: 'push', after: 1, data: { url: 'x' } });
        await log.bookmark({ task: 't1', name: 'push', after: 4, data: { url: 'x' } });
        await log.bookmark({ task: 't1', name: 'also', after: 0, data: {} });
        await log.bookmark({ task: 't2', name: 'push', after: 2, data: {} });
        const own = await collect(log.bookmarks('t1'));
        expect(own).toEqual([
          { task: 't1', name: 'also', after: 0, data: {} },
          { task: 't1', name: 'push', after: 4, data: { url: 'x' } },
        ]);
        expect(await collect(log.bookmarks())).toHaveLength(3);
        await log.bookmark({ task: 't1', name: 'also', after: 0 });
        expect(await collect(log.bookmarks('t1'))).toHaveLength(1);
        const lost = log.bookmark({ task: 'nope', name: 'x', after: 0, data: {} });
        await expect(lost).rejects.toMatchObject({ code: 'not_found' });
      });
    });

    describe('prune', () => {
      const later = (): number => Date.now() + 1000;

      test('deletes ended tasks with all they had, and only those', async () => {
        const first = turn('a', 'open');
        await log.submit(first);
        for (let index = 0; index < 45; index++) await ended(`t${index}`);
        await log.bookmark({ task: 't1', name: 'push', after: 1, data: {} });
        expect(await log.prune({ tasksEndedBefore: 1 })).toBe(0);
        expect(await log.prune({ tasksEndedBefore: later() })).toBe(45);
        expect(await log.get('t1')).toBeUndefined();
        expect(await collect(log.bookmarks())).toEqual([]);
        expect((await collect(log.list({}))).map(({ task }) => task)).toEqual(['open']);
        await expect(collect(log.read('t1', 0))).rejects.toMatchObject({ code: 'not_found' });
      });

      test('asks for the bytes of a task before the task goes', async () => {
        const gone: [string, boolean][] = [];
        const blobs = {
          removeTask: async (task: string) =>
            void gone.push([task, (await log.get(task)) !== undefined]),
        };
        await ended('t');
        await world.replica({ blobs }).log.prune({ tasksEndedBefore: later() });
        expect(gone).toEqual([['t', true]]);
      });

      test('compacts deltas that their end repeats; reading starts with what is there', async () => {
        await ended('t', [
          say('a', 'one'),
          say('b', 'one'),
          { type: 'text.end', id: 'one', text: 'ab' },
          say('cut off', 'two'),
        ]);
        const before = await log.get('t');
        expect(await log.prune({ deltasEndedBefore: later() })).toBe(1);
        expect(await log.prune({ deltasEndedBefore: later() })).toBe(0);
        const seqs = async (after: Seq): Promise<Seq[]> =>
          (await collect(log.read('t', after))).map((entry) => entry.seq);
        expect(await seqs(0)).toEqual([1, 2, 5, 6, 7]);
        expect(await seqs(3)).toEqual([5, 6, 7]);
        expect(await log.get('t')).toEqual(before);
      });
    });
  });
}
