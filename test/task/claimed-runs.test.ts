import { expect, test } from 'vitest';
import { isFinal } from '../../src/event/index.ts';
import type { Agent, Snapshot } from '../../src/event/types.ts';
import { memoryDatabase } from '../../src/task/store/index.ts';
import { answer, MORTAL, say, turn, until, World } from './replica-world.ts';

const NIGHT_MS = 8 * 60 * 60 * 1000;

const isSuspended = ({ state, running }: Snapshot): boolean =>
  state === 'input-required' && !running;

/** Resolves when a task that is submitted now has ended: whatever was due before has happened. */
async function turnOfTheLoop(world: World): Promise<void> {
  const other = world.replica();
  const quick: Agent = async function* () {
    yield say('quick');
  };
  await other.runner({ quick }).submit(turn('quick', 'quick'));
  await until(other.log, 'quick', ({ state }) => state === 'completed');
}

test('a wait that is recovered without its agent is left to a later claim', async () => {
  await using world = new World(memoryDatabase());
  let calls = 0;
  const agent: Agent = Object.assign(
    async function* (_turn, ctx) {
      calls++;
      await ctx.sleep('night', NIGHT_MS);
      yield say('woke');
    } satisfies Agent,
    { resumable: false },
  );
  const first = world.replica(MORTAL);
  await first.runner({ agent }, { suspendAfterMs: NIGHT_MS + 1 }).submit(turn('agent', 't'));
  await until(first.log, 't', ({ waits }) => waits !== undefined);
  first.kill();
  const second = world.replica();
  second.runner({ agent });
  await until(second.log, 't', ({ suspended }) => suspended === true);
  await turnOfTheLoop(world);
  expect(calls).toBe(1);
});

test('a run that asks and sleeps is not called again before either is over', async () => {
  await using world = new World(memoryDatabase());
  let calls = 0;
  const agent: Agent = async function* ({ messageId }, ctx) {
    calls++;
    const question = ctx.ask({ id: `${messageId}/q`, kind: 'question' });
    await Promise.all([question, ctx.sleep('night', NIGHT_MS)]);
    yield say('done');
  };
  const replica = world.replica();
  await replica.runner({ agent }, { suspendAfterMs: 0 }).submit(turn('agent', 't'));
  await until(replica.log, 't', isSuspended);
  await turnOfTheLoop(world);
  expect(calls).toBe(1);
});

test('a step whose result a cancel replaced rejects, since nothing was stored', async () => {
  await using world = new World(memoryDatabase());
  const [here, there] = [world.replica({ notify: false }), world.replica()];
  let settle = (_result: unknown): void => {};
  const settled = new Promise((resolve) => (settle = resolve));
  const agent: Agent = async function* (_turn, ctx) {
    const step = ctx.step('pay', () => there.log.requestCancel('t').then(() => 'paid'));
    step.then(settle, settle);
    yield say(String(await step));
  };
  await here.runner({ agent }).submit(turn('agent', 't'));
  expect(await settled).toMatchObject({ code: 'canceled' });
  const stored: string[] = [];
  for await (const entry of there.log.read('t', 0))
    if (entry.type === 'step.stored') stored.push(entry.status);
  expect(stored).not.toContain('completed');
});

test('a run that is drained before its agent is called goes on elsewhere', async () => {
  await using world = new World(memoryDatabase());
  let calls = 0;
  const agent: Agent = async function* (_turn, ctx) {
    calls++;
    await ctx.step('once', () => 1);
    await ctx.ask({ id: 'q', kind: 'question' });
    yield say('done');
  };
  const first = world.replica();
  const runner = first.runner({ agent }, { suspendAfterMs: 0 });
  await runner.submit(turn('agent', 't'));
  await until(first.log, 't', isSuspended);
  // The next call of the agent must read what the first one stored. The claim reads once, too.
  let reads = 0;
  const isRead = new Promise<void>((resolve) => {
    first.faults.failsBefore = (method) => {
      if (method === 'read' && ++reads === 3) resolve();
      return method === 'read';
    };
  });
  await runner.submit(answer('agent', 't', 'q'));
  await isRead;
  await runner[Symbol.asyncDispose]();
  const second = world.replica();
  second.runner({ agent });
  const { state, text } = await until(second.log, 't', ({ state }) => isFinal(state));
  expect([state, text, calls]).toEqual(['completed', 'done', 2]);
});

test('a suspended run that times out before its agent is called fails', async () => {
  await using world = new World(memoryDatabase());
  const agent: Agent = async function* (_turn, ctx) {
    await ctx.waitFor('event');
    yield say('done');
  };
  const first = world.replica();
  const runner = first.runner({ agent }, { suspendAfterMs: 0 });
  await runner.submit(turn('agent', 't'));
  await until(first.log, 't', ({ suspended }) => suspended === true);
  await runner[Symbol.asyncDispose]();
  // The next call of the agent must read what the first one stored, and cannot.
  const second = world.replica();
  second.faults.failsBefore = (method) => method === 'read';
  second.runner({ agent }, { timeoutMs: 50 });
  await first.log.submit(answer('agent', 't', 'event'));
  const { state } = await until(first.log, 't', (snapshot) => isFinal(snapshot.state));
  expect(state).toBe('failed');
});
