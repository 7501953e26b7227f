import { expect, test } from 'vitest';
import { isFinal } from '../../../src/event/index.ts';
import { DuolaneError } from '../../../src/errors.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../../src/event/types.ts';
import {
  collect,
  manyWords,
  MORTAL,
  say,
  shape,
  textOf,
  turn,
  until,
  words,
} from '../../task/replica-world.ts';
import { verifies } from '../../verifies.ts';
import { type Place, whole } from './fixture.ts';

/** Owners that are killed, stopped, cut off or drained, and who goes on. */
export function mortalRuns({ replica, start }: Place): void {
  for (const resumable of [false, true])
    verifies(
      ['S192', 'S193', 'S197'],
      `a killed owner is replaced, a client goes on elsewhere (resumable: ${resumable})`,
      async () => {
        // Long enough that it still runs when a busy machine has read the first entries.
        const agent = words(1_000, 3, { resumable });
        const a = replica(MORTAL);
        await start(a, { w: agent }).submit(turn('w', 't'));
        const first = await collect(a.log.read('t', 0), 6);
        a.kill();
        const b = replica();
        start(b, { w: agent });
        const rest = await collect(b.log.read('t', first.length));
        const entries = await whole(b.log, 't');
        expect([...first, ...rest]).toEqual(entries);
        const ends = shape(entries).filter((type) => type.startsWith('run.'));
        if (resumable) {
          expect(ends).toEqual(['run.started', 'run.started', 'run.finished:completed']);
          expect(textOf(entries)).toBe(manyWords(1_000));
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
      const a = replica(MORTAL);
      await start(a, { w: tagged('A') }).submit(turn('w', 't'));
      await until(a.log, 't', (snapshot) => snapshot.text.length > 9);
      const resume = a.faults.pause();
      const b = replica();
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
        const a = replica();
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

  test('draining ends what can end, hands on what is resumable, fails the rest', async () => {
    const a = replica();
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
    start(replica(), agents);
    expect(textOf(await whole(a.log, 'again'))).toBe(manyWords(20));
  });

  test('a run that kills every owner is failed after its last attempt', async () => {
    const agent = words(1000, 5, { resumable: true });
    const b = replica();
    for (let attempt = 1; attempt <= 2; attempt++) {
      const a = replica(MORTAL);
      const runner = start(a, { w: agent }, { maxAttempts: 2 });
      if (attempt === 1) await runner.submit(turn('w', 't'));
      await until(b.log, 't', (snapshot) => snapshot.attempt === attempt);
      a.kill();
    }
    start(b, { w: agent }, { maxAttempts: 2 });
    expect((await whole(b.log, 't')).at(-1)).toMatchObject({ error: { code: 'interrupted' } });
  });

  test('an agent that continues and stops early is called again, as often as it makes progress', async () => {
    let calls = 0;
    const agent: Agent = Object.assign(
      async function* (_turn: Turn, ctx: AgentContext): AsyncGenerator<AgentEvent, void> {
        const step = ++calls;
        if (step > 5) return yield say('Done.');
        yield { type: 'step.started', step };
        yield say(`${step} `);
        if (ctx.task.text !== '') yield { type: 'step.finished', step };
        throw new DuolaneError('suspended', 'stopped');
      },
      { continues: true, resumable: true },
    );
    const a = replica();
    await start(a, { w: agent }, { maxAttempts: 3 }).submit(turn('w', 't'));
    const end = (await whole(a.log, 't')).at(-1);
    expect(end).toMatchObject({ outcome: 'completed', text: '1 2 3 4 5 Done.' });
    expect(calls).toBe(6);
  });

  test('an agent that stops early without progress fails after its last attempt', async () => {
    let calls = 0;
    const agent: Agent = Object.assign(
      async function* (): AsyncGenerator<AgentEvent, void> {
        calls++;
        yield say('x');
        throw new DuolaneError('suspended', 'stopped');
      },
      { continues: true, resumable: true },
    );
    const a = replica();
    await start(a, { w: agent }, { maxAttempts: 3 }).submit(turn('w', 't'));
    expect((await whole(a.log, 't')).at(-1)).toMatchObject({ error: { code: 'interrupted' } });
    expect(calls).toBe(3);
  });
}
