import { expect, test } from 'vitest';
import type { DuolaneError } from '../../../src/errors.ts';
import type { Agent, Snapshot } from '../../../src/event/types.ts';
import type { Runner, TaskLog } from '../../../src/task/index.ts';
import {
  answer,
  askingAgent,
  MORTAL,
  say,
  shape,
  textOf,
  ticketAgent,
  turn,
  until,
  words,
} from '../../task/replica-world.ts';
import { type Place, sleeps, waits, whole } from './fixture.ts';

/** Runs that wait for a person: awake, asleep, or taken over by another replica. */
export function askingRuns({ replica, start }: Place): void {
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
      const a = replica(mode === 'killed' || mode.startsWith('answered') ? MORTAL : {});
      const first = start(a, agents, mode === 'parked' ? { suspendAfterMs: 10 } : {});
      await first.submit(turn('cli', 't'));
      await until(a.log, 't', waits);
      let second: { log: TaskLog; runner: Runner } | undefined;
      const another = (): void => {
        const other = replica();
        second = { log: other.log, runner: start(other, agents) };
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

  /** Buys an item if a person approves; the first process then hangs, to be killed. */
  const buyer = (item: string, hangs: boolean, flags: Pick<Agent, 'continues'> = {}): Agent =>
    Object.assign(
      async function* (this: void, _turn, ctx) {
        yield { type: 'tool.called', callId: 'c1', name: 'buy', args: { item } };
        const request = { id: 'c1/ok', kind: 'approval', callId: 'c1', data: { item } } as const;
        const { action } = await ctx.ask(request);
        yield { type: 'tool.completed', callId: 'c1', name: 'buy', output: action };
        if (hangs) await new Promise(() => {});
        yield { type: 'text.delta', id: 't', delta: `${item}: ${action}` };
      } satisfies Agent,
      { resumable: true, ...flags },
    );

  for (const [what, item, flags, asked] of [
    ['the same question is answered from the log', 'tea', {}, ['c1/ok']],
    ['a question with other content is a new one', 'a castle', {}, ['c1/ok', 'c1/ok#2']],
    [
      'a call of a run that goes on is a new one, also with the same id',
      'tea',
      { continues: true },
      ['c1/ok', 'c1/ok'],
    ],
  ] as const)
    test(`after the call of an answered question has closed, ${what}`, async () => {
      const a = replica(MORTAL);
      const first = start(a, { b: buyer('tea', true, flags) });
      await first.submit(turn('b', 't'));
      await until(a.log, 't', waits);
      await first.submit(answer('b', 't', 'c1/ok'));
      await until(a.log, 't', ({ calls, spent }) => calls.length === 0 && spent !== undefined);
      a.kill();
      const b = replica();
      const second = start(b, { b: buyer(item, false, flags) });
      const again = asked[1];
      if (again !== undefined) {
        const asks = ({ attempt, pending }: Snapshot): boolean =>
          attempt > 1 && pending.some(({ id }) => id === again);
        await until(b.log, 't', asks);
        const declined = { ...answer('b', 't', again), messageId: 'no' };
        await second.submit({ ...declined, answers: [{ id: again, action: 'decline' }] });
      }
      const entries = await whole(b.log, 't');
      const questions = entries.flatMap((entry) =>
        entry.type === 'input.required' ? entry.request.id : [],
      );
      expect(questions).toEqual(asked);
      const decision = again === undefined ? 'accept' : 'decline';
      expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: `${item}: ${decision}` });
      expect((await b.log.get('t'))?.spent).toBeUndefined();
    });

  for (const kill of [false, true])
    test(`an agent that asks starts over and its text is not doubled (killed: ${kill})`, async () => {
      const a = replica(kill ? MORTAL : {});
      await start(a, { a: askingAgent }).submit(turn('a', 't'));
      const { pending } = await until(a.log, 't', waits);
      if (kill) a.kill();
      const b = replica();
      const runner = start(b, { a: askingAgent });
      await runner.submit(answer('a', 't', pending[0]?.id ?? '', 'yes'));
      expect(textOf(await whole(b.log, 't'))).toBe('Checking. You said yes.');
    });

  test('a suspended wait can be canceled when no runner has it', async () => {
    const a = replica();
    await start(a, { a: askingAgent }, { suspendAfterMs: 5 }).submit(turn('a', 't'));
    await until(a.log, 't', sleeps);
    expect(await a.log.requestCancel('t')).toMatchObject({ state: 'canceled', pending: [] });
  });

  test('a wait that is alive can be canceled', async () => {
    const a = replica();
    await start(a, { a: askingAgent }).submit(turn('a', 't'));
    await until(a.log, 't', waits);
    await a.log.requestCancel('t');
    expect(shape(await whole(a.log, 't')).at(-1)).toBe('run.finished:canceled');
  });

  test('a run that waits for a person takes no place of the cap', async () => {
    const a = replica();
    const runner = start(
      a,
      { a: askingAgent, w: words(3, 1) },
      { maxRuns: 1, suspendAfterMs: 60_000 },
    );
    await runner.submit(turn('a', 'asks'));
    const { pending } = await until(a.log, 'asks', waits);
    await runner.submit(turn('w', 'other'));
    expect(shape(await whole(a.log, 'other')).at(-1)).toBe('run.finished:completed');
    expect(await a.log.get('asks')).toMatchObject({ running: true });
    await runner.submit(answer('a', 'asks', pending[0]?.id ?? '', 'yes'));
    expect(shape(await whole(a.log, 'asks')).at(-1)).toBe('run.finished:completed');
  });

  test('when too many wait awake, the next one sleeps', async () => {
    const a = replica();
    const runner = start(a, { a: askingAgent }, { maxRuns: 1, suspendAfterMs: 60_000 });
    const names = Array.from({ length: 12 }, (_, index) => `t${index}`);
    for (const task of names) {
      await runner.submit(turn('a', task));
      await until(a.log, task, waits);
    }
    await until(a.log, 't11', sleeps);
    expect(await a.log.get('t0')).toMatchObject({ running: true });
    const { pending } = (await a.log.get('t11')) as Snapshot;
    await runner.submit(answer('a', 't11', pending[0]?.id ?? '', 'yes'));
    expect(shape(await whole(a.log, 't11')).at(-1)).toBe('run.finished:completed');
  });

  test('a question that the agent gave up is not waited for', async () => {
    const a = replica();
    const agent: Agent = async function* (given, ctx) {
      const tired = AbortSignal.timeout(5);
      const id = `${given.messageId}/impatient`;
      await ctx.ask({ id, kind: 'question' }, { signal: tired }).catch(() => {});
      yield* askingAgent(given, ctx);
    };
    const runner = start(a, { q: agent }, { suspendAfterMs: 200 });
    await runner.submit(turn('q', 't'));
    const { pending } = await until(a.log, 't', sleeps);
    expect(pending.map(({ id }) => id.split('/')[1])).toEqual(['ok']);
  });

  test('two asks of one run with the same id both get the answer', async () => {
    const a = replica();
    const agent: Agent = async function* (given, ctx) {
      const ask = () => ctx.ask({ id: `${given.messageId}/same`, kind: 'approval', data: 1 });
      const answers = await Promise.all([ask(), ask()]);
      yield say(answers.map(({ action }) => action).join(' '));
    };
    const runner = start(a, { a: agent });
    await runner.submit(turn('a', 't'));
    const { pending } = await until(a.log, 't', waits);
    expect(pending).toHaveLength(1);
    await runner.submit(answer('a', 't', pending[0]?.id ?? ''));
    expect(textOf(await whole(a.log, 't'))).toBe('accept accept');
  });

  // A run that resumes may know the answer before the second asker can give up.
  test('one of two askers that gives up leaves the question to the other', async () => {
    const a = replica();
    const agent: Agent = async function* (given, ctx) {
      const request = { id: `${given.messageId}/same`, kind: 'question' } as const;
      const first = ctx.ask(request);
      const stop = new AbortController();
      const second = ctx.ask(request, { signal: stop.signal }).then(
        () => 'answered',
        () => 'gave up',
      );
      stop.abort();
      yield say(`${await second}, `);
      yield say((await first).action);
    };
    const runner = start(a, { a: agent });
    await runner.submit(turn('a', 't'));
    const { pending } = await until(a.log, 't', waits);
    await runner.submit(answer('a', 't', pending[0]?.id ?? ''));
    expect(textOf(await whole(a.log, 't'))).toMatch(/^(gave up|answered), accept$/);
  });

  test('an ask with the id of an open question and other content is refused', async () => {
    const a = replica();
    const agent: Agent = async function* (given, ctx) {
      const id = `${given.messageId}/ok`;
      const one = ctx.ask({ id, kind: 'approval', data: { name: 'list' } });
      const other = ctx.ask({ id, kind: 'approval', data: { name: 'delete' } });
      const refused = await other.catch((error: unknown) => (error as DuolaneError).code);
      await one;
      yield say(String(refused));
    };
    const runner = start(a, { a: agent });
    await runner.submit(turn('a', 't'));
    const { pending } = await until(a.log, 't', waits);
    await runner.submit(answer('a', 't', pending[0]?.id ?? ''));
    expect(textOf(await whole(a.log, 't'))).toBe('invalid');
  });
}
