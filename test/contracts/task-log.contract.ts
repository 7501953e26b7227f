import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AgentEvent, Seq } from '../../src/event/types.ts';
import type { Claim, TaskLog } from '../../src/task/index.ts';
import type { Store } from '../../src/task/store/index.ts';
import { storedValuesContract } from './stored-values.contract.ts';
import { taskReadsContract } from './task-reads.contract.ts';
import {
  answer,
  claimed,
  collect,
  completed,
  MORTAL,
  say,
  shape,
  started,
  turn,
  World,
} from '../task/replica-world.ts';
import { verifies } from '../verifies.ts';
import { onAbort } from '../../src/stream/abort.ts';
import { notesOf } from '../support/task/claim-notes.ts';

/**
 * What every task log promises, written once. `open` gives an empty database; a test opens as many
 * logs on it as it needs replicas.
 */
export function taskLogContract(name: string, open: () => Promise<Store>): void {
  taskReadsContract(name, open);
  storedValuesContract(name, open);

  describe(`task log, writing: ${name}`, () => {
    let world: World;
    let log: TaskLog;
    beforeEach(async () => {
      world = new World(await open());
      log = world.replica().log;
    });
    afterEach(() => world[Symbol.asyncDispose]());

    const ended = async (task: string): Promise<Seq> =>
      log.append(await claimed(log, task), 1, [started, completed]);

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

      test('message ids of other owners, tenants and agents are others', async () => {
        const first = turn('a', 't1');
        await log.submit(first);
        await log.submit({ ...first, task: 't2', owner: 'ann' });
        await log.submit({ ...first, task: 't3', agent: 'b' });
        await log.submit({ ...first, task: 't4', tenant: 'x' });
        await log.submit({ ...first, task: 't5', tenant: 'x', owner: 'ann' });
        for (const task of ['t2', 't3', 't4', 't5']) expect(await log.get(task)).toBeDefined();
        const again = await log.submit({ ...first, task: 't6', tenant: 'x' });
        expect(again.entry).toMatchObject({ turn: { task: 't4' } });
      });

      test('owners and tenants with line breaks are not taken for each other', async () => {
        const first = turn('a', 't1', { owner: 'ann\nx' });
        await log.submit(first);
        await log.submit({ ...first, task: 't2', owner: 'ann', tenant: 'x' });
        await log.submit({ ...first, task: 't3', owner: 'ann', tenant: 'x\ny' });
        await log.submit({ ...first, task: 't4', owner: 'ann\nx', tenant: 'y' });
        for (const task of ['t1', 't2', 't3', 't4']) expect(await log.get(task)).toBeDefined();
        const again = await log.submit({ ...first, task: 't5' });
        expect(again.entry).toMatchObject({ turn: { task: 't1' } });
      });

      test('a message id of one task is refused in another that is there', async () => {
        const first = turn('a', 't1');
        await log.submit(first);
        await log.submit(turn('a', 't2'));
        await expect(log.submit({ ...first, task: 't2' })).rejects.toMatchObject({
          code: 'invalid',
          message: expect.stringContaining('t1') as string,
        });
        expect(await log.get('t2')).toMatchObject({ seq: 1 });
      });

      test('two concurrent submits with one message id make one task', async () => {
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

      test('a new task beyond maxQueuedPerOwner is overloaded, for that owner alone', async () => {
        const small = world.replica({ maxQueuedPerOwner: 2 }).log;
        const first = turn('a', 'ann0', { owner: 'ann' });
        await small.submit(first);
        await small.submit(turn('a', 'ann1', { owner: 'ann' }));
        const third = small.submit(turn('a', 'ann2', { owner: 'ann' }));
        await expect(third).rejects.toMatchObject({
          code: 'overloaded',
          retryable: true,
          message: expect.stringContaining('maxQueuedPerOwner (2)') as string,
        });
        // What is there goes on: a repeated message, another turn, and other owners.
        expect((await small.submit(first)).entry).toMatchObject({ turn: { task: 'ann0' } });
        await small.submit(turn('a', 'ann0', { owner: 'ann' }));
        await small.submit(turn('a', 'bob0', { owner: 'bob' }));
        expect(await small.get('ann2')).toBeUndefined();
      });

      test('after the end of the task is closed', async () => {
        await ended('t');
        await expect(log.submit(turn('a', 't'))).rejects.toMatchObject({ code: 'closed' });
      });

      test('a turn for another agent is refused', async () => {
        await log.submit(turn('a', 't'));
        await expect(log.submit(turn('b', 't'))).rejects.toMatchObject({ code: 'invalid' });
      });

      test('a second answer to a question is a conflict; the same message again is the first', async () => {
        const claim = await claimed(log, 't');
        const request = { id: 'q', kind: 'approval' } as const;
        await log.append(claim, 1, [started, { type: 'input.required', request }]);
        const yes = { ...answer('a', 't', 'q'), owner: 'ann' };
        const no = turn('a', 't', { parts: [], answers: [{ id: 'q', action: 'decline' }] });
        const both = await Promise.allSettled([log.submit(yes), log.submit(no)]);
        expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
        const refused = { code: 'conflict', retryable: false };
        expect(both[1]).toMatchObject({ reason: refused });
        await expect(log.submit(no)).rejects.toMatchObject({
          ...refused,
          message: expect.stringContaining(`by "ann" with message "${yes.messageId}"`) as string,
        });
        expect((await log.submit(yes)).entry).toMatchObject({ seq: 4 });
        expect(await log.get('t')).toMatchObject({ seq: 4, answers: [{ action: 'accept' }] });
      });

      test('an answer to a question that is not open is invalid, and so are two in one message', async () => {
        const claim = await claimed(log, 't');
        const asks = { type: 'input.required', request: { id: 'q', kind: 'approval' } } as const;
        const invalid = { code: 'invalid', message: expect.stringContaining('"q"') as string };
        await expect(log.submit(answer('a', 't', 'q'))).rejects.toMatchObject(invalid);
        await log.append(claim, 1, [started, asks]);
        const both = [
          { id: 'q', action: 'decline' },
          { id: 'q', action: 'accept' },
        ] as const;
        const twice = turn('a', 't', { parts: [], answers: both });
        await expect(log.submit(twice)).rejects.toMatchObject(invalid);
        await log.append(claim, 3, [completed]);
        await expect(log.submit(answer('a', 't', 'q'))).rejects.toMatchObject({ code: 'closed' });
        expect(await log.get('t')).toMatchObject({ seq: 4, answers: [], state: 'completed' });
      });

      test('a question that is asked again under its id can be answered again', async () => {
        const claim = await claimed(log, 't');
        const asks = { type: 'input.required', request: { id: 'q', kind: 'question' } } as const;
        await log.append(claim, 1, [started, asks]);
        await log.submit(answer('a', 't', 'q', 1));
        await log.append(claim, 4, [asks]);
        await log.submit(answer('a', 't', 'q', 2));
        expect((await log.get('t'))?.answers).toMatchObject([{ content: 1 }, { content: 2 }]);
      });

      test('bytes in a part come back as bytes', async () => {
        const bytes = new Uint8Array([0, 255, 7]);
        await log.submit(turn('a', 't', { parts: [{ bytes, mediaType: 'x/y' }] }));
        const [entry] = await collect(log.read('t', 0), 1);
        expect(entry).toMatchObject({ turn: { parts: [{ bytes }] } });
      });
    });

    describe('append', () => {
      verifies('S133', 'refuses an invalid event and keeps nothing of the batch', async () => {
        const claim = await claimed(log, 't');
        const batch: AgentEvent[] = [
          started,
          { type: 'tool.completed', callId: 'c', name: 'n', output: 1 },
        ];
        await expect(log.append(claim, 1, batch)).rejects.toMatchObject({ code: 'invalid' });
        expect(await log.get('t')).toMatchObject({ seq: 1, running: false });
        expect(await log.append(claim, 1, [started])).toBe(2);
      });

      verifies('S132', 'refuses everything after the final event', async () => {
        const claim = await claimed(log, 't');
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
        const claim = await claimed(log, 't');
        await log.append(claim, 1, [started]);
        await log.submit(turn('a', 't'));
        await expect(log.append(claim, 2, [say('x')])).rejects.toMatchObject({ code: 'conflict' });
        await expect(log.append(claim, 9, [say('x')])).rejects.toMatchObject({ code: 'conflict' });
        expect(await log.append(claim, 3, [say('x')])).toBe(4);
      });

      test('with an older epoch is fenced, wherever it points', async () => {
        const claim = await claimed(log, 't');
        await log.release(claim);
        const [next] = await collect(log.claims('B', { agents: ['a'] }), 1);
        await expect(log.append(claim, 1, [started])).rejects.toMatchObject({ code: 'fenced' });
        expect(next?.epoch).toBe(claim.epoch + 1);
        expect(await log.append(next as Claim, 1, [started])).toBe(2);
      });

      test('a claim cannot append a note', async () => {
        const claim = await claimed(log, 't');
        const note = { type: 'cancel.requested' } as unknown as AgentEvent;
        await expect(log.append(claim, 1, [note])).rejects.toMatchObject({ code: 'invalid' });
      });

      test('a time that no date can hold is refused, and the task stays readable', async () => {
        const claim = await claimed(log, 't');
        for (const at of [2 ** 53, -1, 1.5, Number.NaN])
          await expect(log.append(claim, 1, [{ ...started, at }])).rejects.toMatchObject({
            code: 'invalid',
          });
        expect(await log.append(claim, 1, [{ ...started, at: 8.64e15 }])).toBe(2);
        expect(await log.get('t')).toMatchObject({ updatedAt: 8.64e15 });
        expect(await collect(log.list({}))).toHaveLength(1);
      });

      test('an entry over 1 MiB is too large', async () => {
        const claim = await claimed(log, 't');
        await log.append(claim, 1, [started]);
        const huge = say('é'.repeat(600_000));
        await expect(log.append(claim, 2, [huge])).rejects.toMatchObject({ code: 'too_large' });
      });

      test('an entry that is nested too deeply is too large, and other tasks go on', async () => {
        const nested = (depth: number): unknown =>
          JSON.parse(`${'['.repeat(depth)}"[[[\\"["${']'.repeat(depth)}`) as unknown;
        const claim = await claimed(log, 't');
        await log.append(claim, 1, [started]);
        const custom = (depth: number) =>
          ({ type: 'custom', name: 'n', data: nested(depth) }) as const;
        for (const depth of [600, 3000, 100_000]) {
          const parts = [{ data: nested(depth) }];
          await expect(log.submit(turn('a', 'u', { parts }))).rejects.toMatchObject({
            code: 'too_large',
          });
          await expect(log.append(claim, 2, [custom(depth)])).rejects.toMatchObject({
            code: 'too_large',
          });
        }
        await log.submit(turn('a', 'v', { parts: [{ data: nested(400) }, { data: nested(1) }] }));
        expect(await log.append(claim, 2, [custom(400)])).toBe(3);
        expect((await collect(log.list({}))).map(({ task }) => task)).toEqual(['v', 't']);
      });

      test('many concurrent appends to many tasks are all stored, each in its order', async () => {
        const tasks = Array.from({ length: 20 }, (_, index) => `t${index}`);
        await Promise.all(
          tasks.map(async (task) => {
            const claim = await claimed(log, task);
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
      verifies('S175', 'of a free task writes request and end in one commit', async () => {
        await log.submit(turn('a', 't'));
        expect(await log.requestCancel('t', 'enough')).toMatchObject({ state: 'canceled' });
        const entries = await collect(log.read('t', 0));
        expect(shape(entries)).toEqual([
          'turn.submitted',
          'cancel.requested',
          'run.finished:canceled',
        ]);
        expect(entries[2]).toMatchObject({ text: 'Response stopped.' });
      });

      test('of a claimed task passes the note to the claim holder, which writes the end', async () => {
        const claim = await claimed(log, 't');
        expect(await log.requestCancel('t')).toMatchObject({ canceling: true, state: 'submitted' });
        const [note] = await collect(notesOf(claim), 1);
        expect(note).toMatchObject({ type: 'cancel.requested', seq: 2 });
      });

      verifies('S182', 'twice is one; after another end it is closed', async () => {
        await claimed(log, 't');
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
        const claim = await claimed(owner.log, 't');
        await owner.log.append(claim, 1, [started]);
        owner.kill();
        // Until its claim has run out, the cancel is only noted.
        await expect
          .poll(() => log.requestCancel('t').catch((error: unknown) => error))
          .toMatchObject({ state: 'canceled', running: false });
        await expect(log.append(claim, 2, [say('x')])).rejects.toMatchObject({ code: 'fenced' });
      });
    });

    describe('takeover', () => {
      for (const notify of [true, false])
        test(`ends a canceled run that its living owner does not end (notify: ${notify})`, async () => {
          const owner = world.replica();
          const claim = await claimed(owner.log, 't');
          await owner.log.append(claim, 1, [started]);
          const other = world.replica({ cancelTimeoutMs: 30, notify });
          expect(await other.log.requestCancel('t')).toMatchObject({ state: 'working' });
          const entries = await collect(other.log.read('t', 0));
          expect(shape(entries).slice(2)).toEqual(['cancel.requested', 'run.finished:canceled']);
          await expect(owner.log.append(claim, 4, [say('x')])).rejects.toMatchObject({
            code: 'fenced',
          });
          // The owner learns of it by a notice of the other replica, or at its next heartbeat.
          await new Promise((resolve) => onAbort(claim.signal, resolve));
          expect(claim.signal.aborted).toBe(true);
        });

      test('leaves an owner alone that ends in time', async () => {
        const claim = await claimed(log, 't');
        const other = world.replica({ cancelTimeoutMs: 60_000 });
        await other.log.requestCancel('t');
        const end: AgentEvent = { type: 'run.finished', outcome: 'canceled', text: '' };
        await log.append(claim, 2, [end]);
        expect(shape(await collect(log.read('t', 0))).slice(1)).toEqual([
          'cancel.requested',
          'run.finished:canceled',
        ]);
      });
    });

    describe('claims', () => {
      test('yields what needs a runner, oldest first, of the agents asked for', async () => {
        for (const task of ['t1', 't2']) await log.submit(turn('a', task));
        await log.submit(turn('b', 't3'));
        const found = await collect(log.claims('A', { agents: ['a'] }), 2);
        expect(found.map((claim) => claim.task)).toEqual(['t1', 't2']);
      });

      test('an owner with many tasks does not keep those of others waiting', async () => {
        for (let index = 0; index < 8; index++)
          await log.submit(turn('a', `many${index}`, { owner: 'ann' }));
        await log.submit(turn('a', 'bob0', { owner: 'bob', tenant: 't1' }));
        await log.submit(turn('a', 'bob1', { owner: 'bob', tenant: 't2' }));
        await log.submit(turn('a', 'tenant0', { tenant: 't3' }));
        // Each ends immediately, so that no party has a run when the next is claimed.
        const order: string[] = [];
        for await (const claim of log.claims('A', { agents: ['a'] })) {
          order.push(claim.task);
          await log.append(claim, 1, [started, completed]);
          if (order.length === 11) break;
        }
        const rounds = [order.slice(0, 3), order.slice(3, 5)].map((names) => names.toSorted());
        expect(rounds).toEqual([
          ['bob0', 'many0', 'tenant0'],
          ['bob1', 'many1'],
        ]);
        expect(order.slice(5)).toEqual(['many2', 'many3', 'many4', 'many5', 'many6', 'many7']);
      });

      test('an owner with fewer runs comes first', async () => {
        for (const task of ['ann0', 'ann1', 'ann2'])
          await log.submit(turn('a', task, { owner: 'ann' }));
        const first = await collect(log.claims('A', { agents: ['a'] }), 2);
        expect(first.map(({ task }) => task)).toEqual(['ann0', 'ann1']);
        await log.submit(turn('a', 'bob0', { owner: 'bob' }));
        const next = await collect(log.claims('A', { agents: ['a'] }), 2);
        expect(next.map(({ task }) => task)).toEqual(['bob0', 'ann2']);
      });

      test('within an owner, the task that has waited longest comes first', async () => {
        const claim = await claimed(log, 'old');
        const request = { id: 'q', kind: 'question' } as const;
        await log.append(claim, 1, [
          started,
          { type: 'input.required', request },
          { type: 'run.finished', outcome: 'input-required', text: '', pending: [request] },
        ]);
        await log.submit(turn('a', 'new'));
        await new Promise((resolve) => setTimeout(resolve, 5));
        await log.submit(answer('a', 'old', 'q'));
        const found = await collect(log.claims('A', { agents: ['a'] }), 2);
        expect(found.map(({ task }) => task)).toEqual(['new', 'old']);
      });

      test('owners that are limited get no claim until that changes', async () => {
        await log.submit(turn('a', 'ann0', { owner: 'ann' }));
        await log.submit(turn('a', 'bob0', { owner: 'bob' }));
        let names = ['ann'];
        const listeners = new Set<() => void>();
        let isIdle = (): void => {};
        const idle = new Promise<void>((resolve) => (isIdle = resolve));
        const limited = {
          names: () => names,
          onChange: (listener: () => void) => {
            listeners.add(listener);
            return () => void listeners.delete(listener);
          },
        };
        const slow = world.replica({ pollMs: 1e6 }).log;
        const claims = slow.claims('A', { agents: ['a'], limited, onIdle: () => isIdle() });
        const both = collect(claims, 2);
        await idle;
        names = [];
        for (const listener of listeners) listener();
        expect((await both).map(({ task }) => task)).toEqual(['bob0', 'ann0']);
      });

      test('waits for the next one and gives each to one puller', async () => {
        const [one, other] = [
          world.replica({ pollMs: 1e6 }).log,
          world.replica({ pollMs: 1e6 }).log,
        ];
        const both = [one, other].map((it) => collect(it.claims('W', { agents: ['a'] }), 1));
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

      test('a released task is claimable immediately, and not before', async () => {
        const claim = await claimed(log, 't');
        expect((await log.submit(turn('a', 't'), { worker: 'B' })).claim).toBeUndefined();
        const next = collect(log.claims('B', { agents: ['a'] }), 1);
        await log.release(claim);
        expect(await next).toMatchObject([{ task: 't', epoch: 2 }]);
      });

      test('a waiting task needs no runner until it is answered', async () => {
        const claim = await claimed(log, 't');
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
        // A busy machine may renew late, so the claim lives much longer than a beat takes.
        const owner = world.replica({ heartbeatMs: 40, leaseMs: 1500 });
        const claim = await claimed(owner.log, 't');
        const next = collect(log.claims('B', { agents: ['a'] }), 1);
        await new Promise((resolve) => setTimeout(resolve, 2000));
        expect(claim.signal.aborted).toBe(false);
        owner.kill();
        expect(await next).toMatchObject([{ task: 't', epoch: 2 }]);
      });

      for (const notify of [true, false])
        test(`an owner that was stopped learns that it is fenced (notify: ${notify})`, async () => {
          const owner = world.replica({ ...MORTAL, notify });
          const claim = await claimed(owner.log, 't');
          const resume = owner.faults.pause();
          await collect(log.claims('B', { agents: ['a'] }), 1);
          resume();
          await new Promise((resolve) => onAbort(claim.signal, resolve));
          expect(claim.signal.reason).toMatchObject({ code: 'fenced' });
          expect(await collect(notesOf(claim))).toEqual([]);
        });

      test('gets a note that was appended during the claim', async () => {
        const owner = world.replica({ heartbeatMs: 1e5, leaseMs: 1e6 }).log;
        const [{ claim }] = await Promise.all([
          owner.submit(turn('a', 't'), { worker: 'A' }),
          owner.requestCancel('t'),
        ]);
        const notes = await collect(notesOf(claim as Claim), 1);
        expect(notes).toMatchObject([{ type: 'cancel.requested' }]);
      });

      verifies(
        'S189',
        'gets notes without announcements, despite errors of the store',
        async () => {
          const owner = world.replica({ notify: false, heartbeatMs: 20 });
          let reads = 0;
          owner.faults.losesAnswer = (method) => {
            if (method === 'read') reads++;
            return false;
          };
          const claim = await claimed(owner.log, 't');
          let failures = 3;
          owner.faults.failsBefore = (method) => method === 'beat' && failures-- > 0;
          // By then what a claim reads at its beginning has been read.
          while (failures === 3 || reads === 0)
            await new Promise((resolve) => setTimeout(resolve, 5));
          await log.submit(turn('a', 't'));
          await log.requestCancel('t');
          const notes = await collect(notesOf(claim), 2);
          expect(notes.map((note) => note.type)).toEqual(['turn.submitted', 'cancel.requested']);
          expect(failures).toBeLessThan(0);
        },
      );
    });
  });
}
