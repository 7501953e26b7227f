import { expect, test } from 'vitest';
import { callTool, resultEvent } from '../../src/adapters/shared/tool-call.ts';
import type { Agent, Entry } from '../../src/event/types.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { toArray } from '../contracts/tool-source.contract.ts';

const CALL = { callId: 'call-1', name: 'work', args: {} };
const turn = {
  agent: 'caller',
  task: 'run',
  context: 'c',
  messageId: 'm',
  parts: [{ text: 'go' }],
};

const taskIn = (entries: readonly Entry[]): string[] =>
  entries.flatMap((entry) =>
    entry.type === 'tool.progress' ? [(entry.data as { taskId: string }).taskId] : [],
  );

test('a long tool of a run and its task are found by one id in the log', async () => {
  await using scope = new Disposer();
  const log = scope.use(memoryLog());
  const work = tool('work', 'Takes long', {}, () => 'worked', { long: true });
  const registry = createRegistry({ name: 'worker', tools: [work] });
  const source = scope.use(withTasks(registry, { log }));
  const caller: Agent = async function* (_, ctx) {
    yield { type: 'tool.called', ...CALL };
    yield resultEvent(CALL, yield* callTool(source, CALL, ctx));
  };
  const runner = scope.use(createRunner({ log, agents: { caller } }));
  await runner.submit({ ...turn, owner: 'ann' });
  const entries = await toArray(log.read('run', 0));
  expect(entries.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
  const [taskId] = taskIn(entries);
  expect(await log.get(taskId!)).toMatchObject({ agent: 'mcp/worker', owner: 'ann' });
  expect(await source.tasks.get(taskId!, { owner: 'ann' })).toMatchObject({ status: 'completed' });
});

test('a run that is handed on follows the task of its call, which runs once', async () => {
  await using scope = new Disposer();
  const log = scope.use(memoryLog());
  let runs = 0;
  let called = 0;
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const work = tool(
    'work',
    'Takes long',
    {},
    async () => {
      runs += 1;
      await finished;
      return 'worked';
    },
    { long: true },
  );
  const registry = createRegistry({ name: 'worker', tools: [work] });
  const source = scope.use(withTasks(registry, { log }));
  const caller: Agent = Object.assign(
    async function* (...[, ctx]: Parameters<Agent>): ReturnType<typeof callTool> | AsyncGenerator {
      called += 1;
      if (!ctx.task.calls.some(({ callId }) => callId === CALL.callId))
        yield { type: 'tool.called', ...CALL };
      yield resultEvent(CALL, yield* callTool(source, CALL, ctx));
    } as Agent,
    { resumable: true, continues: true },
  );
  const first = createRunner({ log, agents: { caller } });
  await first.submit(turn);
  const read: Entry[] = [];
  for await (const entry of log.read('run', 0)) {
    read.push(entry);
    if (entry.type === 'tool.progress') break;
  }
  await first[Symbol.asyncDispose]();
  const second = scope.use(createRunner({ log, agents: { caller } }));
  expect(second).toBeDefined();
  await expect.poll(() => called).toBe(2);
  finish();
  const entries = await toArray(log.read('run', 0));
  expect(entries.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
  expect(runs).toBe(1);
  expect(new Set(taskIn(entries)).size).toBe(1);
});
