import { afterEach, beforeEach, describe } from 'vitest';
import type { RunnerOptions, Store } from '../src/task/index.ts';
import { canceledRuns } from './task-runs/cancels.ts';
import { mortalRuns } from './task-runs/deaths.ts';
import { askingRuns } from './task-runs/people.ts';
import type { Place } from './task-runs/place.ts';
import { streamedRuns } from './task-runs/turns.ts';
import { World } from './task-world.ts';

/** What runners do on a log, on one replica and on several, whatever dies. */
export function taskRunsContract(
  name: string,
  open: () => Promise<Store>,
  defaults: Pick<RunnerOptions, 'parkMs'> = {},
): void {
  describe(`task runs: ${name}`, () => {
    let world: World;
    beforeEach(async () => void (world = new World(await open())));
    afterEach(() => world[Symbol.asyncDispose]());

<<<<<<< HEAD
    const place: Place = {
      replica: (options) => world.replica(options),
      start: (replica, agents, options) => replica.runner(agents, { ...defaults, ...options }),
    };
    streamedRuns(place);
    canceledRuns(place);
    mortalRuns(place);
    askingRuns(place);
=======
    const start = (
      replica: Replica,
      agents: Record<string, Agent>,
      options: Partial<RunnerOptions> = {},
    ): Runner => replica.runner(agents, { ...defaults, ...options });

    test('a run is said once and in order, with deltas joined while a commit runs', async () => {
      const a = world.replica();
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
        const a = world.replica();
        await start(a, { w: words(40, 1) }).submit(turn('w', 't'));
        const entries = await whole(a.log, 't');
        for (const { seq } of entries)
          expect(await collect(a.log.read('t', seq))).toEqual(entries.slice(seq));
      },
    );

    verifies('S196', 'a reader that leaves does not stop the run', async () => {
      const a = world.replica();
      await start(a, { w: words(40, 1) }).submit(turn('w', 't'));
      await collect(a.log.read('t', 0), 5);
      expect(textOf(await whole(a.log, 't'))).toBe(manyWords(40));
    });

    for (const deaf of [false, true])
      for (const notify of [true, false])
        verifies(
          ['S178', 'S183', 'S190'],
          `a cancel on another replica stops the run (deaf: ${deaf}, notify: ${notify})`,
          async () => {
            const [a, b] = [world.replica({ notify, heartbeatMs: 50 }), world.replica({ notify })];
            start(b, {});
            await start(a, { w: words(100_000, 2, { deaf }) }).submit(turn('w', 't'));
            await until(b.log, 't', (snapshot) => snapshot.text.length > 20);
            await b.log.requestCancel('t');
            const entries = await whole(b.log, 't');
            const canceled = entries.findIndex((entry) => entry.type === 'cancel.requested');
            expect(shape(entries.slice(canceled))).toEqual([
              'cancel.requested',
              'run.finished:canceled',
            ]);
            expect(entries.at(-1)).toMatchObject({ text: 'Response stopped.' });
            expect(await b.log.requestCancel('t')).toMatchObject({ state: 'canceled' });
          },
        );

    for (const at of [0, 1, 2, 3])
      verifies(
        'S179',
        `a cancel takes effect at the await where the agent is, and is logged (await ${at})`,
        async () => {
          const a = world.replica();
          const passed: number[] = [];
          const thrown: unknown[] = [];
          const logged: string[] = [];
          const agent: Agent = async function* (_turn, ctx) {
            for (let step = 0; step < 5; step++) {
              yield { type: 'status', message: `step ${step}` };
              // Waits for ever at one place only; nothing but the cancel can end that.
              await sleep(step === at ? 3_600_000 : 0, ctx.signal).catch((error: unknown) => {
                thrown.push(step, error);
                throw error;
              });
              passed.push(step);
            }
          };
          const note = (message: string): void => void logged.push(message);
          const logger = { debug: note, info: note, warn: note, error: note };
          const runner = start(a, { s: agent }, { logger });
          await runner.submit(turn('s', 't'));
          for await (const entry of a.log.read('t', 0))
            if (entry.type === 'status' && entry.message === `step ${at}`) break;
          await a.log.requestCancel('t', 'that is enough');
          expect(shape(await whole(a.log, 't')).at(-1)).toBe('run.finished:canceled');
          expect(passed).toEqual(Array.from({ length: at }, (_, step) => step));
          // By the cancel itself, not by being left behind at the end of its grace.
          expect(thrown).toMatchObject([at, { code: 'canceled' }]);
          expect(String(thrown[1])).toContain('that is enough');
          expect(logged).toContain('cancel requested');
        },
      );

    verifies('S180', 'an agent that never looks up is left behind after its grace', async () => {
      const a = world.replica();
      let release = (): void => {};
      const stuck: Agent = async function* () {
        yield say('x');
        await new Promise<void>((resolve) => (release = resolve));
        yield say('late');
      };
      await start(a, { s: stuck }).submit(turn('s', 't'));
      await until(a.log, 't', (snapshot) => snapshot.text === 'x');
      await a.log.requestCancel('t');
      const entries = await whole(a.log, 't');
      release();
      expect(shape(entries).at(-1)).toBe('run.finished:canceled');
    });

    verifies('S178', 'a cancel before the first word is the end, and no run starts', async () => {
      const a = world.replica();
      const silent: Agent = async function* (_turn, ctx) {
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
        yield say('never heard');
      };
      await start(a, { s: silent }).submit(turn('s', 't'));
      await a.log.requestCancel('t');
      expect(shape(await whole(a.log, 't'))).toEqual([
        'turn.submitted',
        'cancel.requested',
        'run.finished:canceled',
      ]);
    });

    for (const resumable of [false, true])
      verifies(
        ['S192', 'S193', 'S197'],
        `a killed owner is replaced, a client goes on elsewhere (resumable: ${resumable})`,
        async () => {
          const agent = words(40, 3, { resumable });
          const a = world.replica(MORTAL);
          await start(a, { w: agent }).submit(turn('w', 't'));
          const first = await collect(a.log.read('t', 0), 6);
          a.kill();
          const b = world.replica();
          start(b, { w: agent });
          const rest = await collect(b.log.read('t', first.length));
          const entries = await whole(b.log, 't');
          expect([...first, ...rest]).toEqual(entries);
          const ends = shape(entries).filter((type) => type.startsWith('run.'));
          if (resumable) {
            expect(ends).toEqual(['run.started', 'run.started', 'run.finished:completed']);
            expect(textOf(entries)).toBe(manyWords(40));
          } else {
            expect(ends).toEqual(['run.started', 'run.finished:failed']);
            expect(entries.at(-1)).toMatchObject({ error: { code: 'interrupted' } });
          }
        },
      );

    for (const resumable of [false, true])
      test(`an owner that was stopped and comes back is fenced (resumable: ${resumable})`, async () => {
        const reasons: unknown[] = [];
        const tagged = (tag: string): Agent =>
          Object.assign(
            async function* (this: void, given, ctx) {
              if (tag === 'A')
                ctx.signal.addEventListener('abort', () => reasons.push(ctx.signal.reason));
              yield* words(tag === 'A' ? 10_000 : 60, 4, { tag })(given, ctx);
            } satisfies Agent,
            { resumable },
          );
        const a = world.replica(MORTAL);
        await start(a, { w: tagged('A') }).submit(turn('w', 't'));
        await until(a.log, 't', (snapshot) => snapshot.text.length > 9);
        const resume = a.faults.pause();
        const b = world.replica();
        start(b, { w: tagged('B') });
        const entries = await whole(b.log, 't');
        resume();
        await until(b.log, 't', (snapshot) => isFinal(snapshot.state));
        while (reasons.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
        expect(reasons[0]).toMatchObject({ code: 'fenced' });
        expect(await collect(b.log.read('t', 0))).toEqual(entries);
        if (resumable) expect(textOf(entries)).toBe(manyWords(60, 'B'));
      });

    test('acknowledgements that are lost double nothing and lose nothing', async () => {
      await Promise.all(
        Array.from({ length: 20 }, async (_, round) => {
          const a = world.replica();
          let calls = round;
          a.faults.losesAnswer = (method) => method === 'append' && calls++ % 3 === 0;
          a.faults.failsBefore = (method) => method === 'append' && calls++ % 5 === 0;
          await start(a, { w: words(30, 1) }).submit(turn('w', `t${round}`));
          if (round % 2 === 0) {
            await until(a.log, `t${round}`, (snapshot) => snapshot.text.length > round);
            await a.log.requestCancel(`t${round}`).catch(() => {});
          }
          const entries = await whole(a.log, `t${round}`);
          if (shape(entries).at(-1) === 'run.finished:completed')
            expect(textOf(entries)).toBe(manyWords(30));
          else expect(manyWords(30).startsWith(textOf(entries))).toBe(true);
        }),
      );
    });

    const modes = [
      'live',
      'killed',
      'parked',
      'drained',
      'answered before takeover',
      'other replica alive',
    ] as const;
    for (const mode of modes)
      test(`a ticket is approved once and filed once: ${mode}`, async () => {
        const tickets = new Map<string, string>();
        const agents = { cli: ticketAgent(tickets) };
        const a = world.replica(mode === 'killed' || mode.startsWith('answered') ? MORTAL : {});
        const first = start(a, agents, mode === 'parked' ? { parkMs: 10 } : {});
        await first.submit(turn('cli', 't'));
        await until(a.log, 't', waits);
        let second: { log: TaskLog; runner: Runner } | undefined;
        const another = (): void => {
          const replica = world.replica();
          second = { log: replica.log, runner: start(replica, agents) };
        };
        if (mode === 'killed' || mode === 'answered before takeover') a.kill();
        if (mode === 'drained') await first[Symbol.asyncDispose]();
        if (mode !== 'live' && mode !== 'parked') another();
        const { log, runner } = second ?? { log: a.log, runner: first };
        if (mode === 'killed' || mode === 'parked' || mode === 'drained')
          await until(log, 't', sleeps);
        const { pending } = (await log.get('t')) as Snapshot;
        expect(pending).toMatchObject([{ id: 'toolu_1/review' }]);
        await runner.submit(answer('cli', 't', 'toolu_1/review'));
        const entries = await whole(log, 't');
        const types = shape(entries);
        expect(types.at(-1)).toBe('run.finished:completed');
        expect(textOf(entries)).toBe('Let me file that. Filed as TKT-42.');
        expect([...tickets]).toEqual([['toolu_1', 'TKT-42']]);
        for (const once of ['tool.called', 'tool.completed', 'input.required'])
          expect(types.filter((type) => type === once)).toHaveLength(1);
      });

    for (const kill of [false, true])
      test(`an agent that asks starts over and its text is not doubled (killed: ${kill})`, async () => {
        const a = world.replica(kill ? MORTAL : {});
        await start(a, { a: askingAgent }).submit(turn('a', 't'));
        const { pending } = await until(a.log, 't', waits);
        if (kill) a.kill();
        const b = world.replica();
        const runner = start(b, { a: askingAgent });
        await runner.submit(answer('a', 't', pending[0]?.id ?? '', 'yes'));
        expect(textOf(await whole(b.log, 't'))).toBe('Checking. You said yes.');
      });

    test('a parked wait can be canceled when nobody has it', async () => {
      const a = world.replica();
      await start(a, { a: askingAgent }, { parkMs: 5 }).submit(turn('a', 't'));
      await until(a.log, 't', sleeps);
      expect(await a.log.requestCancel('t')).toMatchObject({ state: 'canceled', pending: [] });
    });

    test('a wait that is alive can be canceled', async () => {
      const a = world.replica();
      await start(a, { a: askingAgent }).submit(turn('a', 't'));
      await until(a.log, 't', waits);
      await a.log.requestCancel('t');
      expect(shape(await whole(a.log, 't')).at(-1)).toBe('run.finished:canceled');
    });

    test('a message to a running task is served after it, before the task is final', async () => {
      const a = world.replica();
      const runner = start(a, { w: words(30, 1) });
      await runner.submit(turn('w', 't'));
      await until(a.log, 't', (snapshot) => snapshot.text.length > 3);
      await runner.submit(turn('w', 't'));
      const runs = shape(await whole(a.log, 't')).filter((type) => type.startsWith('run.'));
      expect(runs).toEqual([
        'run.started',
        'run.finished:completed',
        'run.started',
        'run.finished:completed',
      ]);
    });

    test('runs beyond the cap wait in the log, and a front of 0 runs nothing itself', async () => {
      const a = world.replica();
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

    test('a run that waits for a person takes no place of the cap', async () => {
      const a = world.replica();
      const runner = start(a, { a: askingAgent, w: words(3, 1) }, { maxRuns: 1, parkMs: 60_000 });
      await runner.submit(turn('a', 'asks'));
      const { pending } = await until(a.log, 'asks', waits);
      await runner.submit(turn('w', 'other'));
      expect(shape(await whole(a.log, 'other')).at(-1)).toBe('run.finished:completed');
      expect(await a.log.get('asks')).toMatchObject({ running: true });
      await runner.submit(answer('a', 'asks', pending[0]?.id ?? '', 'yes'));
      expect(shape(await whole(a.log, 'asks')).at(-1)).toBe('run.finished:completed');
    });

    test('when too many wait awake, the next one sleeps', async () => {
      const a = world.replica();
      const runner = start(a, { a: askingAgent }, { maxRuns: 1, parkMs: 60_000 });
      const names = Array.from({ length: 12 }, (_, index) => `t${index}`);
      for (const task of names) {
        await runner.submit(turn('a', task));
        await until(a.log, task, waits);
      }
      await until(a.log, 't11', (snapshot) => waits(snapshot) && !snapshot.running);
      expect(await a.log.get('t0')).toMatchObject({ running: true });
      const { pending } = (await a.log.get('t11')) as Snapshot;
      await runner.submit(answer('a', 't11', pending[0]?.id ?? '', 'yes'));
      expect(shape(await whole(a.log, 't11')).at(-1)).toBe('run.finished:completed');
    });

    test('a question that the agent gave up is not waited for', async () => {
      const a = world.replica();
      const agent: Agent = async function* (given, ctx) {
        const tired = AbortSignal.timeout(5);
        const id = `${given.messageId}/impatient`;
        await ctx.ask({ id, kind: 'question' }, { signal: tired }).catch(() => {});
        yield* askingAgent(given, ctx);
      };
      const runner = start(a, { q: agent }, { parkMs: 200 });
      await runner.submit(turn('q', 't'));
      const asleep = (snapshot: Snapshot): boolean => waits(snapshot) && !snapshot.running;
      const { pending } = await until(a.log, 't', asleep);
      expect(pending.map(({ id }) => id.split('/')[1])).toEqual(['ok']);
    });

    test('a run past its time fails with timeout; a person may take longer', async () => {
      const a = world.replica();
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

    test('draining ends what can end, hands on what is resumable, fails the rest', async () => {
      const a = world.replica();
      const agents = {
        quick: words(10, 1),
        slow: words(100_000, 1),
        again: words(20, 10, { resumable: true }),
      };
      const runner = start(a, agents, { graceMs: 300 });
      for (const agent of Object.keys(agents)) await runner.submit(turn(agent, agent));
      await until(a.log, 'again', (snapshot) => snapshot.text.length > 3);
      await runner[Symbol.asyncDispose]();
      expect(await a.log.get('quick')).toMatchObject({ state: 'completed' });
      expect(await a.log.get('slow')).toMatchObject({ state: 'failed' });
      expect(await a.log.get('again')).toMatchObject({ running: true });
      start(world.replica(), agents);
      expect(textOf(await whole(a.log, 'again'))).toBe(manyWords(20));
    });

    test('a run that kills every owner is failed after its last attempt', async () => {
      const agent = words(1000, 5, { resumable: true });
      const b = world.replica();
      for (let attempt = 1; attempt <= 2; attempt++) {
        const a = world.replica(MORTAL);
        const runner = start(a, { w: agent }, { maxAttempts: 2 });
        if (attempt === 1) await runner.submit(turn('w', 't'));
        await until(b.log, 't', (snapshot) => snapshot.attempt === attempt);
        a.kill();
      }
      start(b, { w: agent }, { maxAttempts: 2 });
      expect((await whole(b.log, 't')).at(-1)).toMatchObject({ error: { code: 'interrupted' } });
    });

    test('what the log refuses fails the run and says why', async () => {
      const a = world.replica();
      const refusal = new DuolaneError('invalid', 'not this one');
      let appends = 0;
      a.faults.failsBefore = (method) => method === 'append' && ++appends === 2 && refusal;
      await start(a, { w: words(20, 2) }).submit(turn('w', 't'));
      const error = { code: 'invalid', message: 'not this one' };
      expect((await whole(a.log, 't')).at(-1)).toMatchObject({ outcome: 'failed', error });
    });

    test('an agent sees the earlier tasks of its context and its trace', async () => {
      const a = world.replica();
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
>>>>>>> ee
  });
}
