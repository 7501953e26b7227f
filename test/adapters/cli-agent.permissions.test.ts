import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Answer, InputRequest } from '../../src/ask.ts';
import { cli, type CliOptions } from '../../src/adapters/cli-agent.ts';
import { advance } from '../../src/event/fold/advance.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import { truncateEvent } from '../../src/event/truncate-event.ts';
import type { AgentEvent, Snapshot } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { contextFor, foldRun, newTask } from '../contracts/agent.contract.ts';
import { numbered, turnOf } from '../support/arbitraries.ts';
import { STUB_CLI, stubEnv } from '../support/stub-cli.ts';
import { turn, until } from '../task/replica-world.ts';

// A run that was suspended by a permission request, and continues in another process. The answer of
// the person decides there as it does in the process that asked.

/** A bank whose only tool notes what it was called with. */
function bank(): { readonly paid: unknown[]; readonly options: CliOptions } {
  const paid: unknown[] = [];
  const pay = tool('pay', 'Pays', { type: 'object' }, async (args, ctx) => {
    if (args['review'] === true) await ctx.ask({ id: 'review', kind: 'approval' });
    paid.push(args);
    return 'paid';
  });
  const server = createSdkMcpServer({ name: 'bank', tools: [pay] });
  return { paid, options: { permissionMode: 'default', mcpServers: { bank: server } } };
}

function tempHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'duolane-permissions-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  return home;
}

/** Makes all calls in one message, then says that it is done. */
const modelOf = (inputs: readonly object[]): string => `
  export default async function* model({ messages }) {
    const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    if (blocks.some(({ type }) => type === 'tool_result')) return yield 'done';
    for (const [i, input] of ${JSON.stringify(inputs)}.entries()) {
      yield { type: 'tool_use', id: 'toolu_' + (i + 1), name: 'mcp__bank__pay' };
      yield { type: 'tool_input', json: JSON.stringify(input) };
    }
  }
`;

const MALLORY = { to: 'mallory' };
const ALICE = { to: 'alice' };
const HUGE = { to: 'bob', note: 'x'.repeat(2_000_000) };
type Reply = Omit<Answer, 'id'>;

test.each<[string, readonly object[], Reply, CliOptions, readonly object[]]>([
  ['declined does not run', [MALLORY], { action: 'decline' }, {}, []],
  ['cancelled does not run', [MALLORY], { action: 'cancel' }, {}, []],
  ['approved runs', [MALLORY], { action: 'accept' }, {}, [MALLORY]],
  [
    'approved with changes runs with the changes',
    [MALLORY],
    { action: 'accept', content: ALICE },
    {},
    [ALICE],
  ],
  [
    'approved with changes does not run if changes are not accepted',
    [MALLORY],
    { action: 'accept', content: ALICE },
    { approvalEdits: false },
    [],
  ],
  ['approved allows no other call', [ALICE, MALLORY], { action: 'accept' }, {}, [ALICE]],
])('after a restart, a call that was %s', async (_, calls, reply, more, expected) => {
  const home = tempHome();
  writeFileSync(join(home, 'model.mjs'), modelOf(calls));
  const { paid, options } = bank();
  const agent = cli({
    cwd: home,
    env: { HOME: home, CLAUDE_CONFIG_DIR: join(home, 'config') },
    inheritEnv: ['PATH'],
    model: `module:${join(home, 'model.mjs')}`,
    ...options,
    ...more,
  });
  await using log = memoryLog();
  const first = createRunner({ log, agents: { a: agent } });
  await first.submit(turn('a', 't1', { parts: [{ text: 'go' }] }));
  const { pending } = await until(log, 't1', (task) => task.pending.length === 1);
  const [asked] = pending;
  await first[Symbol.asyncDispose]();
  await using second = createRunner({ log, agents: { a: agent } });
  const answers = [{ id: asked?.id ?? '', ...reply }];
  await second.submit(turn('a', 't1', { messageId: 'm2', parts: [], answers }));
  await until(
    log,
    't1',
    (task) =>
      ['completed', 'failed', 'canceled'].includes(task.state) ||
      (task.pending.length > 0 && task.pending[0]?.id !== asked?.id),
  );
  expect(paid).toEqual(expected);
});

/** The task of a run that was suspended with open calls, and these answers. */
function suspended(
  calls: readonly object[],
  requests: readonly InputRequest[],
  answers: readonly Answer[],
  ids: readonly string[] = [],
): Snapshot {
  const events: AgentEvent[] = [
    { type: 'run.started', sessionId: '5f0a2f1c-6f0c-4f9e-9a4e-000000000000', at: 0 },
    ...calls.map((args, i): AgentEvent => {
      const callId = ids[i] ?? `c${i + 1}`;
      return { type: 'tool.called', callId, name: 'mcp__bank__pay', args, at: 0 };
    }),
    ...requests.map((request): AgentEvent => ({ type: 'input.required', request, at: 0 })),
    { type: 'run.finished', outcome: 'input-required', text: '', at: 0 },
  ];
  const asleep = foldRun(newTask(), events.map(truncateEvent));
  const next = turnOf('m2', { parts: [], answers: [...answers] });
  return advance(asleep, numbered({ type: 'turn.submitted', turn: next }, asleep.seq + 1));
}

const permission = (callId: string, input: object): InputRequest => ({
  id: `${callId}/permission`,
  kind: 'approval',
  callId,
  data: { toolName: 'mcp__bank__pay', input },
});
const review: InputRequest = { id: 'c1/review', kind: 'approval', callId: 'c1' };
const accept = (id: string, content?: unknown): Answer => ({
  id,
  action: 'accept',
  ...(content !== undefined && { content }),
});

test.each<
  [
    string,
    readonly object[],
    readonly InputRequest[],
    readonly Answer[],
    readonly object[],
    ids?: readonly string[],
  ]
>([
  [
    'that was declined does not run',
    [MALLORY],
    [permission('c1', MALLORY)],
    [{ id: 'c1/permission', action: 'decline' }],
    [],
  ],
  [
    'that was approved runs as it was shown',
    [MALLORY],
    [permission('c1', ALICE)],
    [accept('c1/permission')],
    [ALICE],
  ],
  [
    'that was approved with changes runs with them',
    [MALLORY],
    [permission('c1', MALLORY)],
    [accept('c1/permission', ALICE)],
    [ALICE],
  ],
  ['that asked a question itself runs', [MALLORY], [review], [accept('c1/review')], [MALLORY]],
  [
    'that was never decided does not run',
    [ALICE, MALLORY],
    [permission('c1', ALICE)],
    [accept('c1/permission')],
    [ALICE],
  ],
  [
    'that was too large for the log does not run with what is left of it',
    [HUGE],
    [permission('c1', HUGE)],
    [accept('c1/permission')],
    [],
  ],
  [
    'whose id begins that of an approved call does not run',
    [MALLORY, ALICE],
    [permission('c1/x', ALICE)],
    [accept('c1/x/permission')],
    [ALICE],
    ['c1', 'c1/x'],
  ],
  [
    'whose id begins that of a call with its own question does not run',
    [MALLORY, ALICE],
    [{ ...permission('c1/permission', ALICE) }],
    [accept('c1/permission/permission')],
    [ALICE],
    ['c1', 'c1/permission'],
  ],
])(
  'of a CLI that cannot repeat it, a call %s',
  async (_, calls, requests, answers, expected, ids) => {
    const home = tempHome();
    const { paid, options } = bank();
    const agent = cli({
      cwd: home,
      env: { ...stubEnv({ turns: [[{ result: { result: 'done' } }]] }), HOME: home },
      pathToClaudeCodeExecutable: STUB_CLI,
      ...options,
    });
    const task = suspended(calls, requests, answers, ids);
    const { ctx } = contextFor(task);
    const events: AgentEvent[] = [];
    for await (const event of normalizeAgent(agent)(turnOf('m1'), ctx)) events.push(event);
    expect(checkLaws(events, { calls: task.calls })).toEqual([]);
    expect(events.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
    expect(paid).toEqual(expected);
    const failed = events.filter(({ type }) => type === 'tool.failed');
    expect(failed).toHaveLength(calls.length - expected.length);
  },
);
