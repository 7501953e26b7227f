import { expect, test } from 'vitest';
import { StepError } from '../../../src/event/step-error.ts';
import type { StepContext } from '../../../src/event/step-types.ts';
import type { Agent, Snapshot } from '../../../src/event/types.ts';
import type { TaskLog } from '../../../src/task/types.ts';
import {
  answer,
  collect,
  MORTAL,
  say,
  shape,
  textOf,
  turn,
  until,
} from '../../task/replica-world.ts';
import { type Place, waits, whole } from './fixture.ts';

const isSuspended = (snapshot: Snapshot): boolean => snapshot.suspended === true;

/**
 * Starts tasks with longer and longer waits until one is suspended, and returns its name. On a busy
 * machine a short wait may be over before the run is suspended.
 */
async function suspendedNap(
  log: TaskLog,
  begin: (task: string, napMs: number) => Promise<void>,
): Promise<string> {
  for (let napMs = 100; ; napMs *= 2) {
    const task = `t${napMs}`;
    await begin(task, napMs);
    for await (const { type } of log.read(task, 0)) if (type === 'run.suspended') return task;
  }
}

/** Counts the effects of steps by their key, as a system outside would. */
class Effects {
  readonly runs: string[] = [];
  readonly run = ({ key }: StepContext): number => this.runs.push(key);
}

/** Durable steps and waits, on one replica and on several, whatever dies. */
export function steppedRuns({ replica, start }: Place): void {
  test('a killed run goes on after its last step, and no step is run twice', async () => {
    const effects = new Effects();
    let isHanging = true;
    const agent: Agent = async function* (_turn, ctx) {
      for (let index = 0; index < 5; index++) {
        const count = await ctx.step(`s${index}`, (step) => {
          if (index === 3 && isHanging) return new Promise<number>(() => {});
          return effects.run(step);
        });
        yield say(`${index}:${count} `);
      }
    };
    const a = replica(MORTAL);
    await start(a, { a: agent }).submit(turn('a', 't'));
    await until(a.log, 't', ({ text }) => text === '0:1 1:2 2:3 ');
    a.kill();
    isHanging = false;
    const b = replica();
    start(b, { a: agent });
    const entries = await whole(b.log, 't');
    expect(textOf(entries)).toBe('0:1 1:2 2:3 3:4 4:5 ');
    expect(effects.runs).toHaveLength(5);
    const stored = entries.filter((entry) => entry.type === 'step.stored');
    expect(stored.shift()).toMatchObject({ id: 's0', status: 'started' });
    expect(stored.map(({ id, status }) => `${id} ${status}`)).toEqual(
      [0, 1, 2, 3, 4].map((index) => `s${index} completed`),
    );
  });

  test('a repeated attempt has the same key, and other steps and turns have others', async () => {
    const keys: string[] = [];
    let calls = 0;
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.step('one', ({ key }) => {
        keys.push(key);
        return ++calls === 1 ? new Promise<void>(() => {}) : undefined;
      });
      await ctx.step('two', ({ key }) => void keys.push(key));
      yield say('ok');
    };
    const a = replica(MORTAL);
    const resumable = Object.assign(agent, { resumable: true });
    await start(a, { a: resumable }).submit(turn('a', 't'));
    await expect.poll(() => keys.length).toBe(1);
    a.kill();
    const b = replica();
    const runner = start(b, { a: resumable });
    await whole(b.log, 't');
    await runner.submit(turn('a', 't2'));
    await whole(b.log, 't2');
    expect(keys[1]).toBe(keys[0]);
    expect(new Set(keys).size).toBe(4);
  });

  test('the attempts of a failing step are counted over a crash, and its failure is stored', async () => {
    const attempts: string[] = [];
    const seen: unknown[] = [];
    const agentOf = (place: string, firstMs: number): Agent =>
      async function* (_turn, ctx) {
        const failing = ctx.step(
          'pay',
          ({ attempt }) => {
            attempts.push(`${place}${attempt}`);
            throw new Error('the card was declined');
          },
          { retry: { attempts: 3, backoff: { firstMs } } },
        );
        await failing.catch((error: unknown) => {
          if (ctx.signal.aborted) throw error;
          seen.push(error);
        });
        const { action } = await ctx.ask({ id: 'q', kind: 'question', message: 'Go on?' });
        yield say(action);
      };
    const a = replica(MORTAL);
    const first = start(a, { a: agentOf('A', 600) }, { suspendAfterMs: 60_000 });
    await first.submit(turn('a', 't'));
    await until(a.log, 't', (snapshot) => snapshot.waits?.[0]?.until !== undefined);
    a.kill();
    const b = replica();
    const runner = start(b, { a: agentOf('B', 1) }, { suspendAfterMs: 0 });
    await until(b.log, 't', (snapshot) => waits(snapshot) && !snapshot.running);
    await runner.submit(answer('a', 't', 'q'));
    expect(textOf(await whole(b.log, 't'))).toBe('accept');
    // A killed process of this test goes on in memory; what it does is not written.
    expect(attempts.filter((each) => each !== 'A2')).toEqual(['A1', 'B2', 'B3']);
    expect(seen).toHaveLength(2);
    for (const error of seen) {
      expect(error).toBeInstanceOf(StepError);
      expect(error).toMatchObject({ code: 'internal', step: 'pay', attempts: 3 });
    }
  });

  test('an answered question finds the steps before it in the log', async () => {
    const effects = new Effects();
    const agent: Agent = async function* (_turn, ctx) {
      const hits = await ctx.step('search', (step) => ({
        count: effects.run(step),
        at: [1, null],
      }));
      yield say(`found ${JSON.stringify(hits)} `);
      const { content } = await ctx.ask({ id: 'q', kind: 'question', message: 'Which?' });
      const sent = await ctx.step('send', effects.run);
      yield say(`sent ${sent} ${String(content)}`);
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    await until(a.log, 't', (snapshot) => waits(snapshot) && !snapshot.running);
    await runner.submit(answer('a', 't', 'q', 'both'));
    const entries = await whole(a.log, 't');
    expect(textOf(entries)).toBe('found {"count":1,"at":[1,null]} sent 2 both');
    expect(effects.runs).toHaveLength(2);
  });

  test('a step costs one commit', async () => {
    const steps = 20;
    const agent: Agent = async function* (_turn, ctx) {
      for (let index = 0; index < steps; index++) await ctx.step(`s${index}`, () => index);
      yield say('done');
    };
    const a = replica();
    await start(a, { a: agent }).submit(turn('a', 't'));
    await whole(a.log, 't');
    // One more announces the first step, and the last one ends the run.
    expect(a.faults.calls['append']).toBeLessThanOrEqual(steps + 2);
  });

  test('a suspended sleep has no claim, and goes on by itself on another replica', async () => {
    let effects = new Effects();
    let napMs = 0;
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.step('before', effects.run);
      await ctx.sleep('nap', napMs);
      yield say(`woke ${await ctx.step('after', effects.run)}`);
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    const task = await suspendedNap(a.log, async (name, ms) => {
      [effects, napMs] = [new Effects(), ms];
      await runner.submit(turn('a', name));
    });
    const { state, running } = await until(a.log, task, isSuspended);
    expect([state, running]).toEqual(['working', true]);
    a.kill();
    const b = replica();
    start(b, { a: agent }, { suspendAfterMs: 0 });
    const entries = await whole(b.log, task);
    expect(textOf(entries)).toBe('woke 2');
    const [nap, woke] = entries.filter(
      (entry) => entry.type === 'step.stored' && entry.id === 'nap',
    );
    expect(nap).toMatchObject({ kind: 'sleep', status: 'waiting' });
    expect(woke?.at).toBeGreaterThanOrEqual((nap as { until: number }).until);
    expect(shape(entries)).toContain('run.suspended');
  });

  test('a short sleep waits in memory', async () => {
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.sleep('nap', new Date(Date.now() + 20));
      yield say('woke');
    };
    const a = replica();
    await start(a, { a: agent }, { suspendAfterMs: 60_000 }).submit(turn('a', 't'));
    const entries = await whole(a.log, 't');
    expect(textOf(entries)).toBe('woke');
    expect(shape(entries)).not.toContain('run.suspended');
  });

  test('a long sleep is suspended immediately', async () => {
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.sleep('night', 8 * 60 * 60 * 1000);
      yield say('woke');
    };
    const a = replica();
    await start(a, { a: agent }, { suspendAfterMs: 600_000 }).submit(turn('a', 't'));
    await until(a.log, 't', isSuspended);
    expect((await a.log.requestCancel('t')).state).toBe('canceled');
  });

  for (const mode of ['live', 'suspended', 'killed'] as const)
    test(`an event from outside reaches its wait once: ${mode}`, async () => {
      const agent: Agent = async function* (_turn, ctx) {
        const paid = await ctx.waitFor<{ cents: number }>('paid', { schema: { type: 'object' } });
        yield say(`paid ${paid.cents}`);
        await ctx.ask({ id: 'q', kind: 'question', message: 'More?' });
      };
      const a = replica(mode === 'killed' ? MORTAL : {});
      const suspendAfterMs = mode === 'suspended' ? 0 : 60_000;
      const first = start(a, { a: agent }, { suspendAfterMs });
      await first.submit(turn('a', 't'));
      await until(a.log, 't', ({ waits: open, suspended }) =>
        mode === 'suspended' ? suspended === true : open?.[0]?.id === 'paid',
      );
      if (mode === 'killed') a.kill();
      const b = mode === 'live' ? a : replica();
      const runner = mode === 'live' ? first : start(b, { a: agent }, { suspendAfterMs });
      await expect(runner.submit(answer('a', 't', 'other', 1))).rejects.toMatchObject({
        code: 'invalid',
      });
      await runner.submit(answer('a', 't', 'paid', { cents: 500 }));
      await expect(runner.submit(answer('a', 't', 'paid', { cents: 900 }))).rejects.toMatchObject({
        code: 'conflict',
      });
      await until(b.log, 't', waits);
      await runner.submit(answer('a', 't', 'q'));
      expect(textOf(await whole(b.log, 't'))).toBe('paid 500');
    });

  test('an event that does not come in time fails its wait', async () => {
    let timeoutMs = 0;
    const agent: Agent = async function* (_turn, ctx) {
      const paid = ctx.waitFor('paid', { timeoutMs });
      yield say(await paid.then(String, ({ code }: StepError) => code));
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    const task = await suspendedNap(a.log, async (name, ms) => {
      timeoutMs = ms;
      await runner.submit(turn('a', name));
    });
    expect(textOf(await whole(a.log, task))).toBe('timeout');
  });

  test('a race of an event and a sleep wakes a suspended run', async () => {
    let limitMs = 0;
    const agent: Agent = async function* (_turn, ctx) {
      const first = await Promise.race([
        ctx.waitFor('paid').then(() => 'paid'),
        ctx.sleep('limit', limitMs).then(() => 'late'),
      ]);
      yield say(first);
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    const task = await suspendedNap(a.log, async (name, ms) => {
      limitMs = ms;
      await runner.submit(turn('a', name));
    });
    expect(textOf(await whole(a.log, task))).toBe('late');
  });

  test('a suspended run is canceled like any other, and takes no further event', async () => {
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.waitFor('paid');
      yield say('paid');
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    await until(a.log, 't', isSuspended);
    expect((await a.log.requestCancel('t')).state).toBe('canceled');
    await expect(runner.submit(answer('a', 't', 'paid'))).rejects.toMatchObject({ code: 'closed' });
    const entries = await collect(a.log.read('t', 0));
    expect(shape(entries).at(-1)).toBe('run.finished:canceled');
  });

  test('a claim that is lost between the wake-up and the run is taken again', async () => {
    let napMs = 50;
    let task = '';
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.sleep('nap', napMs);
      yield say('woke');
    };
    const a = replica();
    // On a busy machine the nap may be over before the runner is disposed; then it is too short.
    do {
      napMs *= 2;
      task = `t${napMs}`;
      const first = start(a, { a: agent }, { suspendAfterMs: 0 });
      await first.submit(turn('a', task));
      for await (const { type } of a.log.read(task, 0)) if (type === 'run.suspended') break;
      await first[Symbol.asyncDispose]();
    } while (!isSuspended((await a.log.get(task)) as Snapshot));
    const b = replica(MORTAL);
    for await (const claim of b.log.claims('B', { agents: ['a'] })) {
      if (claim.task !== task) continue;
      expect(claim.snapshot.suspended).toBe(true);
      break;
    }
    b.kill();
    const c = replica();
    start(c, { a: agent });
    expect(textOf(await whole(c.log, task))).toBe('woke');
  });

  test('a further run shows only what readers have not seen', async () => {
    const callId = 'call_1';
    const agent: Agent = async function* (_turn, ctx) {
      yield { type: 'status', message: 'searching' };
      yield { type: 'tool.called', callId, name: 'search', args: { q: 1 } };
      const output = await ctx.step('search', () => 'hits');
      yield { type: 'tool.completed', callId, name: 'search', output };
      yield { type: 'step.finished', step: 1, usage: { outputTokens: 5 } };
      yield say('Found ');
      yield { type: 'artifact', artifactId: 'r', parts: [{ text: 'one' }] };
      await ctx.waitFor('go');
      yield say('it');
      yield { type: 'text.end', id: 't', text: 'Found it' };
      yield { type: 'step.finished', step: 2, usage: { outputTokens: 2 } };
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    await until(a.log, 't', isSuspended);
    await runner.submit(answer('a', 't', 'go'));
    const entries = await whole(a.log, 't');
    const count = (type: string): number => entries.filter((entry) => entry.type === type).length;
    expect(count('run.started')).toBe(2);
    for (const once of ['status', 'tool.called', 'tool.completed', 'artifact'])
      expect([once, count(once)]).toEqual([once, 1]);
    expect(entries.some((entry) => entry.type === 'run.started' && entry.discard)).toBe(false);
    expect(textOf(entries)).toBe('Found it');
    expect(entries.at(-1)).toMatchObject({ text: 'Found it', usage: { outputTokens: 2 } });
    expect((await a.log.get('t'))?.usage).toEqual({ outputTokens: 7 });
  });

  test('a further run that does something else starts over', async () => {
    let calls = 0;
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.step('first', () => 1);
      yield say(`call ${++calls}`);
      yield { type: 'tool.called', callId: 'c', name: 'f', args: calls };
      await ctx.waitFor('go');
      yield { type: 'tool.completed', callId: 'c', name: 'f', output: calls };
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    await until(a.log, 't', isSuspended);
    await runner.submit(answer('a', 't', 'go'));
    const entries = await whole(a.log, 't');
    expect(textOf(entries)).toBe('call 2');
    expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'call 2' });
    expect(shape(entries).filter((type) => type.startsWith('tool.'))).toEqual([
      'tool.called',
      'tool.failed',
      'tool.called',
      'tool.completed',
    ]);
  });

  test('a question of a call that has closed is not asked again', async () => {
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.step('first', () => 1);
      yield { type: 'tool.called', callId: 'c', name: 'f', args: {} };
      const { action } = await ctx.ask({ id: 'c/ok', kind: 'approval', callId: 'c' });
      yield { type: 'tool.completed', callId: 'c', name: 'f', output: action };
      await ctx.sleep('nap', 50);
      yield say(`It was ${action}.`);
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    await until(a.log, 't', waits);
    await runner.submit(answer('a', 't', 'c/ok'));
    const entries = await whole(a.log, 't');
    expect(shape(entries).filter((type) => type === 'input.required')).toHaveLength(1);
    expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'It was accept.' });
  });

  test('a call that has the id of a closed one is asked about', async () => {
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.step('first', () => 1);
      for (let round = 0; round < 2; round++) {
        yield { type: 'tool.called', callId: 'c', name: 'f', args: {} };
        await ctx.ask({ id: 'c/ok', kind: 'approval', callId: 'c' });
        yield { type: 'tool.completed', callId: 'c', name: 'f', output: round };
        await ctx.sleep(`nap ${round}`, 50);
      }
    };
    const a = replica();
    const runner = start(a, { a: agent }, { suspendAfterMs: 0 });
    await runner.submit(turn('a', 't'));
    const asked: string[] = [];
    for await (const entry of a.log.read('t', 0)) {
      if (entry.type !== 'input.required') continue;
      asked.push(entry.request.id);
      await runner.submit(answer('a', 't', entry.request.id));
      if (asked.length > 5) break;
    }
    expect(asked).toEqual(['c/ok', 'c#2/ok']);
    expect((await a.log.get('t'))?.state).toBe('completed');
  });

  test('storage waits for a store that cannot be reached for a while', async () => {
    const a = replica();
    let failures = 0;
    const agent: Agent = async function* (_turn, ctx) {
      await ctx.storage?.set({ 'k/1': 1, 'k/2': 2 });
      const found: unknown[] = [];
      for await (const [, value] of ctx.storage?.list('k/') ?? []) found.push(value);
      for await (const earlier of ctx.history()) found.push(earlier.task);
      yield say(JSON.stringify(found));
    };
    const methods = ['setValues', 'values', 'heads', 'page'];
    a.faults.failsBefore = (method) => methods.includes(method) && failures++ < 6;
    await start(a, { a: agent }).submit(turn('a', 't'));
    expect(textOf(await whole(a.log, 't'))).toBe('[1,2]');
    expect(failures).toBeGreaterThan(3);
  });
}
