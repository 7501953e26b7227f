import fc from 'fast-check';
import { expect, test } from 'vitest';
import { advance, isFinal } from '../event/index.ts';
import type {
  Agent,
  AgentContext,
  AgentEvent,
  Entry,
  Snapshot,
  TaskEvent,
  Turn,
} from '../event/types.ts';
import { artifact, withArtifactPlan } from './artifact-builders.ts';
import { createRunner, memoryLog } from './index.ts';

const PLAN = ['a', 'b', 'c'];
const said = (name: string, artifactId?: string): AgentEvent =>
  artifact(name, [{ text: name }], artifactId === undefined ? {} : { artifactId });

type Call = (turn: Turn, ctx: AgentContext) => AsyncIterable<AgentEvent>;
const continuing = (call: Call): Agent => Object.assign(call, { continues: true });

/**
 * The task after the turns `1`, `2`, ... of an agent with a plan, all of them sent before the first
 * is served; what it asks is answered.
 */
async function serveTurns(count: number, agent: Agent): Promise<Snapshot> {
  let open = (): void => {};
  const sent = new Promise<void>((resolve) => (open = resolve));
  const waiting = Object.assign(async function* (turn: Turn, ctx: AgentContext) {
    await sent;
    yield* agent(turn, ctx);
  }, agent);
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { p: waiting }, suspendAfterMs: 0 });
  const place = { agent: 'p', task: 't', context: 'c' };
  for (let turn = 1; turn <= count; turn++)
    await runner.submit({ ...place, messageId: String(turn), parts: [{ text: 'go' }] });
  open();
  for (let asked = 0; ; asked++) {
    const isDone = ({ state, running, pending }: Snapshot): boolean =>
      isFinal(state) || (!running && pending.length > 0);
    await expect.poll(() => log.get('t'), { interval: 2 }).toSatisfy(isDone);
    const task = (await log.get('t')) as Snapshot;
    if (isFinal(task.state)) return task;
    const answers = task.pending.map(({ id }) => ({ id, action: 'accept' }) as const);
    await runner.submit({ ...place, messageId: `answer ${asked}`, parts: [], answers });
  }
}

const ask = (ctx: AgentContext, { messageId }: Turn): Promise<unknown> =>
  ctx.ask({ id: `${messageId}/ok`, kind: 'approval' });

const names = ({ artifacts }: Snapshot): unknown[] => artifacts.map(({ name }) => name);

test('a run that failed half-way leaves the rest of the plan to the next one', async () => {
  const agent = continuing(async function* (turn, ctx) {
    const missing = PLAN.slice(ctx.task.artifacts.length);
    yield said(missing[0] as string);
    if (turn.messageId === '1') throw new Error('broken');
    if (missing.length === 2) await ask(ctx, turn);
    for (const name of missing.slice(1)) yield said(name);
  });
  const task = await serveTurns(2, withArtifactPlan(PLAN, agent));
  expect([task.state, task.error?.message]).toEqual(['completed', undefined]);
  expect(names(task)).toEqual(PLAN);
});

test('the next run may also say the plan anew, and goes on in it when it was put to sleep', async () => {
  const agent = continuing(async function* (turn, ctx) {
    const count = ctx.task.delivered?.turn === turn.messageId ? 1 : 0;
    if (count === 0) yield said('a');
    if (turn.messageId === '1') throw new Error('broken');
    await ask(ctx, turn);
    yield said('b');
    yield said('c');
  });
  const task = await serveTurns(2, withArtifactPlan(PLAN, agent));
  expect([task.state, task.error?.message]).toEqual(['completed', undefined]);
  expect(names(task)).toEqual(['a', 'a', 'b', 'c']);
});

test.each([
  ['leaves one out', ['c']],
  ['swaps two', ['c', 'b']],
  ['begins in the middle of its own', ['b', 'a', 'b', 'c']],
  ['says nothing', []],
  ['says more', ['b', 'c', 'a']],
])('a run behind one that failed half-way is refused when it %s', async (_, wrong) => {
  const agent = continuing(async function* ({ messageId }) {
    for (const name of messageId === '1' ? ['a'] : wrong) yield said(name);
    if (messageId === '1') throw new Error('broken');
  });
  const { state, error } = await serveTurns(2, withArtifactPlan(PLAN, agent));
  expect([state, error?.code]).toEqual(['failed', 'invalid']);
});

test('the plan of an earlier run is not the plan of one that slept before its first word', async () => {
  const agent = continuing(async function* (turn, ctx) {
    if (turn.messageId === '1') for (const name of PLAN) yield said(name);
    else await ask(ctx, turn);
  });
  const { state, error } = await serveTurns(2, withArtifactPlan(PLAN, agent));
  expect([state, error?.message]).toEqual([
    'failed',
    'the run ended without an artifact of its plan: expected "a"',
  ]);
});

/** A task as its log would have it, one event after the other. */
class Story {
  snapshot: Snapshot | undefined;

  add(event: TaskEvent): void {
    const entry = { ...event, seq: (this.snapshot?.seq ?? 0) + 1, at: 0 } as Entry;
    this.snapshot = advance(this.snapshot, entry);
  }

  turn(messageId: string, answers?: Turn['answers']): Turn {
    const parts = answers ? [] : [{ text: 'go' }];
    const place = { agent: 'p', task: 't', context: 'c' };
    return { ...place, messageId, parts, ...(answers && { answers }) };
  }
}

const step = fc.record({
  says: fc.array(fc.constantFrom('a', 'b', 'c', 'x'), { maxLength: 4 }),
  // Most runs that are made up at random say nonsense; these say what is next.
  rest: fc.nat(3),
  sleeps: fc.boolean(),
});

test('whatever runs say and however they end, the plan takes them in its order and nothing else', async () => {
  const steps = fc.array(step, { maxLength: 10 });
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (calls, hasFixedIds) => {
      const story = new Story();
      for (let n = 0; n <= calls.length; n++)
        story.add({ type: 'turn.submitted', turn: story.turn(`m${n}`) });
      // How far the runs before this one have come, and what this one has said.
      let [turn, before, mine] = [0, 0, [] as string[]];
      for (const { says, rest, sleeps } of calls) {
        const next = PLAN.slice((before + mine.length) % PLAN.length).slice(0, rest);
        const wish = [...next, ...(rest > 1 ? [] : says)].filter(
          (name, index, all) => name !== all[index - 1],
        );
        const agent = continuing(async function* () {
          for (const name of wish) yield said(name, hasFixedIds ? name : undefined);
        });
        const current = story.turn(`m${turn}`);
        const task = story.snapshot as Snapshot;
        const events = withArtifactPlan(PLAN, agent)(current, { task } as AgentContext);
        story.add({ type: 'run.started', turn: current.messageId });
        const heard: string[] = [];
        let failure: unknown;
        try {
          for await (const event of events) {
            story.add(event);
            if (event.type === 'artifact') heard.push(event.name as string);
          }
        } catch (error) {
          failure = error;
        }
        const fits = (all: readonly string[]): boolean =>
          [before, 0].some((from) => all.join() === PLAN.slice(from, from + all.length).join());
        let lawful = 0;
        while (lawful < wish.length && fits([...mine, ...wish.slice(0, lawful + 1)])) lawful++;
        // By fixed ids, the name that was said last is a further chunk of it.
        fc.pre(!hasFixedIds || wish.length === 0 || wish[0] !== (mine.at(-1) ?? PLAN[before - 1]));
        expect(heard).toEqual(wish.slice(0, lawful));
        mine = [...mine, ...heard];
        const isWhole = mine.length > 0 && mine.at(-1) === PLAN.at(-1);
        if (lawful < wish.length || !isWhole) expect(failure).toMatchObject({ code: 'invalid' });
        else expect(failure).toBeUndefined();
        if (sleeps && lawful === wish.length) {
          const request = { id: `q${task.seq}`, kind: 'approval' } as const;
          story.add({ type: 'input.required', request });
          story.add({ type: 'run.finished', outcome: 'input-required', text: '' });
          const answers = [{ id: request.id, action: 'accept' } as const];
          story.add({ type: 'turn.submitted', turn: story.turn(`answer ${task.seq}`, answers) });
          continue;
        }
        const outcome = failure === undefined ? 'completed' : 'failed';
        story.add({ type: 'run.finished', outcome, text: '' });
        const last = mine.at(-1);
        if (last !== undefined) before = (PLAN.indexOf(last) + 1) % PLAN.length;
        [turn, mine] = [turn + 1, []];
      }
    }),
    { numRuns: 150 },
  );
});
