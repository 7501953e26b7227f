import fc from 'fast-check';
import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { advance } from '../event/index.ts';
import type { Agent, AgentContext, AgentEvent, Part, Snapshot, Turn } from '../event/types.ts';
import { artifact, artifactChunks, withArtifactPlan } from './artifact-builders.ts';
import { type PipelineStep, runSteps } from './pipeline-steps.ts';
import { createRunner, memoryLog } from './index.ts';

/** The task after its one run. */
async function run(agent: Agent): Promise<Snapshot & { entries: AgentEvent[] }> {
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { a: agent } });
  const parts = [{ text: 'hi' }];
  await runner.submit({ agent: 'a', task: 't', context: 'c', messageId: 'm', parts });
  let snapshot: Snapshot | undefined;
  const entries: AgentEvent[] = [];
  for await (const entry of log.read('t', 0)) {
    snapshot = advance(snapshot, entry);
    entries.push(entry as AgentEvent);
  }
  return { ...(snapshot as Snapshot), entries };
}

const statuses = (entries: readonly AgentEvent[]): string[] =>
  entries.flatMap((entry) => (entry.type === 'status' ? [entry.message] : []));

verifies('S162', 'an acknowledgement is in the log before the agent works', async () => {
  const { entries } = await run(async function* () {
    yield { type: 'status', message: 'Analysing your request...' };
    yield { type: 'text.delta', id: 't', delta: 'x' };
  });
  expect(statuses(entries)).toEqual(['Analysing your request...']);
  const types = entries.map((entry) => entry.type);
  expect(types.indexOf('status')).toBeLessThan(types.indexOf('text.delta'));
});

verifies(
  'S163',
  'each step is announced before it runs, and none after one that throws',
  async () => {
    const order: string[] = [];
    const steps = ['one', 'two', 'three'].map((name) => ({
      name,
      async *run(): AsyncGenerator<AgentEvent> {
        order.push(name);
        if (name === 'two') throw new Error('broken');
        yield { type: 'text.delta', id: name, delta: name };
      },
    }));
    const seen: string[] = [];
    const consume = async (): Promise<void> => {
      for await (const event of runSteps(steps)) {
        if (event.type !== 'status') continue;
        seen.push(event.message);
        expect(order).toHaveLength(seen.length - 1);
      }
    };
    await expect(consume()).rejects.toThrow('broken');
    expect(seen).toEqual(['Step: one', 'Step: two']);
  },
);

test('a step that has its events at hand may just give them', async () => {
  const status = { type: 'status', message: 'inside' } as const;
  const steps: PipelineStep[] = [
    {
      name: 'generator',
      *run() {
        yield status;
      },
    },
    { name: 'array', run: () => [status] },
    { name: 'promise', run: async () => [status] },
  ];
  const { entries } = await run(async function* () {
    yield* runSteps(steps);
  });
  expect(statuses(entries)).toEqual([
    'Step: generator',
    'inside',
    'Step: array',
    'inside',
    'Step: promise',
    'inside',
  ]);
});

test('a step may be a plain function', async () => {
  let ran = 0;
  const steps = [
    { name: 'sync', run: () => void ran++ },
    { name: 'async', run: async () => void ran++ },
  ];
  const { state } = await run(async function* () {
    yield* runSteps(steps);
  });
  expect([state, ran]).toEqual(['completed', 2]);
});

verifies('S172', 'each artifact has a uuid of its own and its name', () => {
  const [a, b] = [artifact('plan', []), artifact('plan', [])];
  expect(a.artifactId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(a.artifactId).not.toBe(b.artifactId);
  expect(a).toMatchObject({ name: 'plan', last: true });
});

verifies('S173', 'an artifact in pieces is put together again, with one last chunk', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(fc.string())), async (pieces) => {
      const parts = pieces.map((piece) => piece.map((text): Part => ({ text })));
      const { artifacts, entries } = await run(async function* () {
        yield* artifactChunks('result', parts);
      });
      expect(artifacts).toMatchObject([{ name: 'result', parts: parts.flat() }]);
      const chunks = entries.filter((entry) => entry.type === 'artifact');
      expect(chunks.map((chunk) => chunk.append === true)).toEqual(
        chunks.map((_, index) => index > 0),
      );
      expect(chunks.map((chunk) => chunk.last === true)).toEqual(
        chunks.map((_, index) => index === chunks.length - 1),
      );
    }),
    { numRuns: 50 },
  );
});

const plan = ['sql_plan', 'query_summary', 'sql_query', 'query_results'];
const yields = (names: readonly string[]): Agent =>
  async function* () {
    for (const name of names) yield artifact(name, [{ text: 'x' }]);
  };

verifies('S166', 'artifacts in the declared order complete; any other order fails', async () => {
  expect(await run(withArtifactPlan(plan, yields(plan)))).toMatchObject({ state: 'completed' });
  for (const wrong of [
    plan.toReversed(),
    plan.slice(0, 3),
    [...plan, 'more'],
    ['sql_plan', 'sql_query'],
    [],
  ]) {
    const { state, error } = await run(withArtifactPlan(plan, yields(wrong)));
    expect([state, error?.code]).toEqual(['failed', 'invalid']);
  }
});

test('a plan goes on where the agent does, when it is called again', async () => {
  const asking: Agent = Object.assign(
    async function* ({ messageId }: Turn, ctx: AgentContext) {
      if (ctx.task.artifacts.length === 0) yield artifact('a', [{ text: '1' }]);
      await ctx.ask({ id: `${messageId}/ok`, kind: 'approval' });
      yield artifact('b', [{ text: '2' }]);
    },
    { continues: true },
  );
  await using log = memoryLog();
  const agents = { p: withArtifactPlan(['a', 'b'], asking) };
  await using runner = createRunner({ log, agents, suspendAfterMs: 0 });
  const place = { agent: 'p', task: 't', context: 'c' };
  await runner.submit({ ...place, messageId: 'm', parts: [{ text: 'go' }] });
  await expect
    .poll(() => log.get('t'))
    .toMatchObject({ state: 'input-required', running: false, artifacts: [{ name: 'a' }] });
  const answers = [{ id: 'm/ok', action: 'accept' } as const];
  await runner.submit({ ...place, messageId: 'yes', parts: [], answers });
  await expect.poll(async () => (await log.get('t'))?.running).toBe(false);
  await expect
    .poll(() => log.get('t'))
    .toMatchObject({ state: 'completed', artifacts: [{ name: 'a' }, { name: 'b' }] });
});

test('a plan allows chunks of the artifact that is open, and a failure of the run itself', async () => {
  const chunked: Agent = async function* () {
    yield* artifactChunks('sql_plan', [[{ text: 'a' }], [{ text: 'b' }]]);
    yield { type: 'run.finished', outcome: 'rejected', text: 'not today' };
  };
  expect(await run(withArtifactPlan(plan, chunked))).toMatchObject({ state: 'rejected' });
});
