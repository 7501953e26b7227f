import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AgentEvent, Seq } from '../src/event/types.ts';
import type { Claim, Store, TaskLog } from '../src/task/index.ts';
import { answer, collect, MORTAL, say, shape, turn, until, World } from './task-world.ts';
import { verifies } from './verifies.ts';

const started: AgentEvent = { type: 'run.started' };
const completed: AgentEvent = { type: 'run.finished', outcome: 'completed', text: '' };

/**
 * What every task log promises, written once. `open` gives an empty database; a test opens as many
 * logs on it as it needs replicas.
 */
export function taskLogContract(name: string, open: () => Promise<Store>): void {
  describe(`task log: ${name}`, () => {
    let world: World;
    let log: TaskLog;
    beforeEach(async () => {
      world = new World(await open());
      log = world.replica().log;
    });
    afterEach(() => world[Symbol.asyncDispose]());

    const claimed = async (task: string, by: TaskLog = log): Promise<Claim> => {
      const { claim } = await by.submit(turn('a', task), { worker: 'A' });
      if (!claim) throw new Error('the task was not free');
      return claim;
    };
    /** A task that has ended, with so many words before. */
    const ended = async (task: string, events: readonly AgentEvent[] = [say('x')]): Promise<Seq> =>
      log.append(await claimed(task), 1, [started, ...events, completed]);

    describe('submit', () => {
      test('creates the task with the turn as entry 1', async () => {
        const first = turn('a', 't', { owner: 'ann', metadata: { k: [1] } });
        const { entry, claim } = await log.submit(first);
        expect(entry).toMatchObject({ seq: 1, type: 'turn.submitted', turn: first });
        expect(claim).toBeUndefined();
        expect(await log.get('t')).toMatchObject({ state: 'submitted', owner: 'ann', seq: 1 });
      });

      test('the same message id again gives the entry that is there, whatever the task', async () => {
        const first = turn('a', 't');
        const { entry } = await log.submit(first);
        expect((await log.submit({ ...first, task: 'other' })).entry).toEqual(entry);
        expect(await log.get('other')).toBeUndefined();
      });

      test('message ids of other owners and agents are others', async () => {
        const first = turn('a', 't1');
        await log.submit(first);
        await log.submit({ ...first, task: 't2', owner: 'ann' });
        await log.submit({ ...first, task: 't3', agent: 'b' });
        expect(await log.get('t2')).toBeDefined();
        expect(await log.get('t3')).toBeDefined();
      });

      test('two at once with one message id make one task', async () => {
        const first = turn('a', 't');
        const both = await Promise.all([log.submit(first), log.submit({ ...first, task: 'u' })]);
        expect(both[0].entry).toEqual(both[1].entry);
      });

      test('with dedupe off, the same message id is another task', async () => {
        const plain = world.replica({ dedupe: false }).log;
        const first = turn('a', 't');
        await plain.submit(first);
        await plain.submit({ ...first, task: 'u' });
        expect(await plain.get('u')).toBeDefined();
      });

      test('after the end of the task is closed', async () => {
        await ended('t');
        await expect(log.submit(turn('a', 't'))).rejects.toMatchObject({ code: 'closed' });
      });

      test('a turn for another agent is refused', async () => {
        await log.submit(turn('a', 't'));
        await expect(log.submit(turn('b', 't'))).rejects.toMatchObject({ code: 'invalid' });
      });

      test('bytes in a part come back as bytes', async () => {
        const bytes = new Uint8Array([0, 255, 7]);
        await log.submit(turn('a', 't', { parts: [{ bytes, mediaType: 'x/y' }] }));
        const [entry] = await collect(log.read('t', 0), 1);
        expect(entry).toMatchObject({ turn: { parts: [{ bytes }] } });
      });
    });

    describe('append', () => {
      verifies('S133', 'refuses an unlawful event and keeps nothing of the batch', async () => {
        const claim = await claimed('t');
        const batch: AgentEvent[] = [
          started,
          { type: 'tool.completed', callId: 'c', name: 'n', output: 1 },
        ];
        await expect(log.append(claim, 1, batch)).rejects.toMatchObject({ code: 'invalid' });
        expect(await log.get('t')).toMatchObject({ seq: 1, running: false });
        expect(await log.append(claim, 1, [started])).toBe(2);
      });

      verifies('S132', 'refuses everything after the final event', async () => {
        const claim = await claimed('t');
        await log.append(claim, 1, [started, completed]);
        await expect(log.append(claim, 3, [say('late')])).rejects.toMatchObject({ code: 'closed' });
        await expect(log.append(claim, 3, [completed])).rejects.toMatchObject({ code: 'closed' });
        expect(shape(await collect(log.read('t', 0)))).toEqual([
          'turn.submitted',
          'run.started',
          'run.finished:completed',
        ]);
      });

      test('at another place than the head is a conflict', async () => {
        const claim = await claimed('t');
        await log.append(claim, 1, [started]);
        await log.submit(turn('a', 't'));
        await expect(log.append(claim, 2, [say('x')])).rejects.toMatchObject({ code: 'conflict' });
        await expect(log.append(claim, 9, [say('x')])).rejects.toMatchObject({ code: 'conflict' });
        expect(await log.append(claim, 3, [say('x')])).toBe(4);
      });

      test('with an older epoch is fenced, wherever it points', async () => {
        const claim = await claimed('t');
        await log.release(claim);
        const [next] = await collect(log.claims('B', { agents: ['a'] }), 1);
        await expect(log.append(claim, 1, [started])).rejects.toMatchObject({ code: 'fenced' });
        expect(next?.epoch).toBe(claim.epoch + 1);
        expect(await log.append(next as Claim, 1, [started])).toBe(2);
      });

      test('a note is no event of a claim', async () => {
        const claim = await claimed('t');
        const note = { type: 'cancel.requested' } as unknown as AgentEvent;
        await expect(log.append(claim, 1, [note])).rejects.toMatchObject({ code: 'invalid' });
      });

      test('an entry over 1 MiB is too large', async () => {
        const claim = await claimed('t');
        await log.append(claim, 1, [started]);
        const huge = say('é'.repeat(600_000));
        await expect(log.append(claim, 2, [huge])).rejects.toMatchObject({ code: 'too_large' });
      });

      test('many at once to many tasks are all there, each in its order', async () => {
        const tasks = Array.from({ length: 20 }, (_, index) => `t${index}`);
        await Promise.all(
          tasks.map(async (task) => {
            const claim = await claimed(task);
            let seq = await log.append(claim, 1, [started]);
            for (let index = 0; index < 10; index++)
              seq = await log.append(claim, seq, [say(`${index}`)]);
          }),
        );
        for (const task of tasks)
          expect(await log.get(task)).toMatchObject({ seq: 12, text: '0123456789' });
      });
    });

    describe('cancel', () => {
      verifies(
        ['S175', 'S176'],
        'of a free task writes request and end in one commit',
        async () => {
          await log.submit(turn('a', 't'));
          expect(await log.requestCancel('t', 'enough')).toMatchObject({ state: 'canceled' });
          const entries = await collect(log.read('t', 0));
          expect(shape(entries)).toEqual([
            'turn.submitted',
            'cancel.requested',
            'run.finished:canceled',
          ]);
          expect(entries[2]).toMatchObject({ text: 'Response stopped.' });
        },
      );

      test('of a claimed task leaves the end to its owner, who hears it', async () => {
        const claim = await claimed('t');
        expect(await log.requestCancel('t')).toMatchObject({ canceling: true, state: 'submitted' });
        const [note] = await collect(claim.notes, 1);
        expect(note).toMatchObject({ type: 'cancel.requested', seq: 2 });
      });

      verifies('S182', 'twice is one; after another end it is closed', async () => {
        await claimed('t');
        await log.requestCancel('t');
        expect(await log.requestCancel('t')).toMatchObject({ seq: 2 });
        await log.submit(turn('a', 'u'));
        await log.requestCancel('u');
        expect(await log.requestCancel('u')).toMatchObject({ state: 'canceled', seq: 3 });
        await ended('v');
        await expect(log.requestCancel('v')).rejects.toMatchObject({ code: 'closed' });
        await expect(log.requestCancel('nope')).rejects.toMatchObject({ code: 'not_found' });
      });

      test('takes the claim of an owner that is gone, and fences it', async () => {
        const owner = world.replica(MORTAL);
        const claim = await claimed('t', owner.log);
        await owner.log.append(claim, 1, [started]);
        owner.kill();
        const dead = new Promise((resolve) => setTimeout(resolve, 250));
        await dead;
        expect(await log.requestCancel('t')).toMatchObject({ state: 'canceled', running: false });
        await expect(log.append(claim, 2, [say('x')])).rejects.toMatchObject({ code: 'fenced' });
      });
    });

    describe('claims', () => {
      test('yields what needs a runner, oldest first, of the agents asked for', async () => {
        for (const task of ['t1', 't2']) await log.submit(turn('a', task));
        await log.submit(turn('b', 't3'));
        const found = await collect(log.claims('A', { agents: ['a'] }), 2);
        expect(found.map((claim) => claim.task)).toEqual(['t1', 't2']);
      });

      test('waits for the next one and gives each to one puller', async () => {
        const other = world.replica().log;
        const both = [log, other].map((it) => collect(it.claims('W', { agents: ['a'] }), 1));
        await log.submit(turn('a', 't1'));
        await other.submit(turn('a', 't2'));
        const tasks = (await Promise.all(both)).flat().map((claim) => claim.task);
        expect(tasks.toSorted()).toEqual(['t1', 't2']);
      });

      test('an aborted pull throws the reason; one that is left claims nothing more', async () => {
        const stop = new AbortController();
        const pulled = collect(log.claims('A', { agents: ['a'], signal: stop.signal }));
        stop.abort(new Error('enough'));
        await expect(pulled).rejects.toThrow('enough');
        const iterator = log.claims('A', { agents: ['a'] })[Symbol.asyncIterator]();
        const waiting = iterator.next();
        await iterator.return?.();
        expect(await waiting).toMatchObject({ done: true });
        expect((await log.submit(turn('a', 't'), { worker: 'B' })).claim).toBeDefined();
      });

      test('what is released is claimable at once, and again only then', async () => {
        const claim = await claimed('t');
        expect((await log.submit(turn('a', 't'), { worker: 'B' })).claim).toBeUndefined();
        const next = collect(log.claims('B', { agents: ['a'] }), 1);
        await log.release(claim);
        expect(await next).toMatchObject([{ task: 't', epoch: 2 }]);
      });

      test('a waiting task needs no runner until it is answered', async () => {
        const claim = await claimed('t');
        const request = { id: 'q', kind: 'question' } as const;
        await log.append(claim, 1, [
          started,
          { type: 'input.required', request },
          { type: 'run.finished', outcome: 'input-required', text: '', pending: [request] },
        ]);
        const next = collect(log.claims('B', { agents: ['a'] }), 1);
        await log.submit(turn('b', 'another'));
        await log.submit(answer('a', 't', 'q'));
        expect(await next).toMatchObject([{ task: 't', snapshot: { answers: [{ id: 'q' }] } }]);
      });

      test('is renewed while its log lives and taken when it is dead', async () => {
        const owner = world.replica(MORTAL);
        const claim = await claimed('t', owner.log);
        const next = collect(log.claims('B', { agents: ['a'] }), 1);
        await new Promise((resolve) => setTimeout(resolve, 400));
        expect(claim.signal.aborted).toBe(false);
        owner.kill();
        expect(await next).toMatchObject([{ task: 't', epoch: 2 }]);
      });

      for (const notify of [true, false])
        test(`an owner that was stopped learns that it is fenced (notify: ${notify})`, async () => {
          const owner = world.replica({ ...MORTAL, notify });
          const claim = await claimed('t', owner.log);
          const resume = owner.faults.pause();
          await collect(log.claims('B', { agents: ['a'] }), 1);
          resume();
          await new Promise((resolve) => claim.signal.addEventListener('abort', resolve));
          expect(claim.signal.reason).toMatchObject({ code: 'fenced' });
          expect(await collect(claim.notes)).toEqual([]);
        });

      verifies(
        ['S184', 'S187', 'S189'],
        'hears notes without announcements, over errors of the store',
        async () => {
          const owner = world.replica({ notify: false, heartbeatMs: 20 });
          const claim = await claimed('t', owner.log);
          let failures = 3;
          owner.faults.failsBefore = (method) => method === 'beat' && failures-- > 0;
          await log.submit(turn('a', 't'));
          await log.requestCancel('t');
          const notes = await collect(claim.notes, 2);
          expect(notes.map((note) => note.type)).toEqual(['turn.submitted', 'cancel.requested']);
          expect(failures).toBeLessThan(0);
        },
      );
    });

    describe('read', () => {
      verifies(
        ['S191', 'S197', 'S198'],
        'from every place gives exactly the rest, ended or not',
        async () => {
          const claim = await claimed('t');
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
        const claim = await claimed('t');
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
        await claimed('t');
        await expect(collect(log.read('t', 7))).rejects.toMatchObject({ code: 'invalid' });
      });

      test('a reader that is aborted throws the reason; one that leaves ends its wait', async () => {
        await claimed('t');
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
        const claim = await claimed('t', replica.log);
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
        const claim = await claimed('t');
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
        await claimed('t', replica.log);
        const read = collect(replica.log.read('t', 0));
        const seen = until(log, 't', () => true);
        await seen;
        await replica.log[Symbol.asyncDispose]();
        await expect(read).rejects.toMatchObject({ code: 'closed' });
      });
    });

    describe('list', () => {
      test('newest change first, filtered, and what is said in between is no change', async () => {
        const first = await claimed('t1');
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
        expect(() => log.list({ after: 'x' })).toThrow('no place');
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
