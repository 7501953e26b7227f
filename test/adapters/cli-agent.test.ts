import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { cli } from '../../src/adapters/cli-agent.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { Agent, AgentEvent, Turn } from '../../src/event/types.ts';
import { createSdkMcpServer, tool, type SessionOptions } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { agentContract, contextFor, newTask } from '../contracts/agent.contract.ts';
import { STUB_CLI, stubEnv, type StubStep } from '../support/stub-cli.ts';
import { verifies } from '../verifies.ts';

// The adapter over the open CLI as built into dist; the model is test/fixtures/path-model.mjs.

const home = mkdtempSync(join(tmpdir(), 'duolane-cli-'));
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));

const MODEL = `module:${fileURLToPath(new URL('../fixtures/path-model.mjs', import.meta.url))}`;
const schema = { type: 'object', properties: { word: { type: 'string' } } };
const notes = createSdkMcpServer({
  name: 'notes',
  tools: [
    tool('lookup', 'Looks up', schema, async ({ word }) => `${String(word)}: found`),
    tool('approve', 'Asks', schema, async ({ word }, ctx) => {
      const { action } = await ctx.ask({ id: 'review', kind: 'approval' });
      return `${String(word)}: ${action}`;
    }),
  ],
});
const options: SessionOptions = {
  cwd: home,
  env: { HOME: home, CLAUDE_CONFIG_DIR: join(home, 'config') },
  inheritEnv: ['PATH'],
  model: MODEL,
  mcpServers: { notes },
  allowedTools: ['mcp__notes__*'],
};

/** The adapter, which sends this text whatever the turn contains. */
const told =
  (text: string, more: SessionOptions = {}): (() => Agent) =>
  () => {
    const agent = cli({ ...options, ...more });
    return Object.assign(
      (turn: Turn, ctx: Parameters<Agent>[1]) => agent({ ...turn, parts: [{ text }] }, ctx),
      { continues: true },
    );
  };

agentContract('the CLI adapter', {
  normal: told('count 3'),
  endless: told('count 100000'),
  failing: told('count 3', { pathToClaudeCodeExecutable: join(home, 'nowhere') }),
  tools: told('lookup lane'),
  asking: told('approve lane'),
  graceMs: 10_000,
});

async function run(agent: Agent): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  const { ctx } = contextFor(newTask());
  for await (const event of normalizeAgent(agent)({ ...newTask().turns[0]! }, ctx))
    events.push(event);
  return events;
}

verifies(
  ['S76', 'S231'],
  'a run shows its tool calls under the model’s names, and both lanes',
  async () => {
    const events = await run(told('lookup lane')());
    expect(checkLaws(events)).toEqual([]);
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'tool.called',
        name: 'mcp__notes__lookup',
        args: { word: 'lane' },
      }),
    );
    const frames = events.flatMap((event) => (event.type === 'frame' ? [event] : []));
    expect(frames.some(({ frame }) => frame.direction === 'in')).toBe(true);
    expect(frames.some(({ frame }) => frame.direction === 'out')).toBe(true);
    const call = frames.find(({ callId }) => callId !== undefined);
    expect(call?.callId).toBe(events.find((event) => event.type === 'tool.called')?.callId);
    expect(events.at(-1)).toMatchObject({
      outcome: 'completed',
      text: expect.stringContaining('lane: found') as string,
    });
  },
);

test('the text of a run is yielded once, streamed or not', async () => {
  const events = await run(told('count 5')());
  const text = events.map((event) => (event.type === 'text.delta' ? event.delta : '')).join('');
  expect(text).toBe('w0 w1 w2 w3 w4');
});

test('the text and calls of a sub-agent stay separate from those of the agent', async () => {
  const by = (call: string | null, frame: JsonObject): StubStep => ({
    send: { parent_tool_use_id: call, session_id: 's', ...frame },
  });
  const raw = (call: string | null, event: JsonObject): StubStep =>
    by(call, { type: 'stream_event', event });
  const open = (call: string | null, id: string): readonly StubStep[] => [
    raw(call, { type: 'message_start', message: { id, usage: { input_tokens: 1 } } }),
    raw(call, { type: 'content_block_start', index: 0, content_block: { type: 'text' } }),
  ];
  const say = (call: string | null, text: string): StubStep =>
    raw(call, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  const close = (call: string | null): readonly StubStep[] => [
    raw(call, { type: 'content_block_stop', index: 0 }),
    raw(call, { type: 'message_stop' }),
  ];
  const task = { type: 'tool_use', id: 'task_1', name: 'Task', input: { prompt: 'Find it.' } };
  const inner = { type: 'tool_use', id: 'read_1', name: 'Read', input: { file_path: 'a' } };
  const use = (call: string | null, block: JsonObject): StubStep =>
    by(call, { type: 'assistant', message: { id: `use-${String(call)}`, content: [block] } });
  const result = (call: string | null, id: string, content: string): StubStep => {
    const block = { type: 'tool_result', tool_use_id: id, content };
    return by(call, { type: 'user', message: { role: 'user', content: [block] } });
  };
  const steps: readonly StubStep[] = [
    use(null, task),
    ...open(null, 'main'),
    ...open('task_1', 'sub'),
    say(null, 'I '),
    say('task_1', 'Found '),
    say(null, 'wait. '),
    use('task_1', inner),
    result('task_1', 'read_1', 'A file.'),
    say('task_1', 'it.'),
    ...close('task_1'),
    say(null, 'Done.'),
    ...close(null),
    result(null, 'task_1', 'Found it.'),
    { result: { result: 'I wait. Done.' } },
  ];
  const events = await run(
    cli({
      cwd: home,
      env: { ...stubEnv({ turns: [steps] }), HOME: home },
      pathToClaudeCodeExecutable: STUB_CLI,
    }),
  );
  expect(checkLaws(events)).toEqual([]);
  const said = (path?: string): string =>
    events
      .filter((event) => event.path?.[0] === path)
      .map((event) => (event.type === 'text.delta' ? event.delta : ''))
      .join('');
  expect([said(), said('task_1')]).toEqual(['I wait. Done.', 'Found it.']);
  const calls = events.flatMap((event) => (event.type === 'tool.completed' ? [event] : []));
  expect(calls.map(({ name, path }) => [name, path?.[0]])).toEqual([
    ['Read', 'task_1'],
    ['Task', undefined],
  ]);
  expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'I wait. Done.' });
});

test('a question does not overtake its call, however slowly the run is read', async () => {
  const block = { type: 'tool_use', id: 'toolu_9', name: 'Bash', input: { command: 'ls' } };
  const message = { id: 'msg', role: 'assistant', content: [block] };
  const words = Array.from({ length: 20 }, (_, i): StubStep => ({ say: `word ${i}` }));
  const steps: readonly StubStep[] = [
    ...words,
    { send: { type: 'assistant', message, parent_tool_use_id: null, session_id: 's' } },
    { permission: { tool: 'Bash', input: block.input, id: 'toolu_9' } },
  ];
  const agent = cli({
    cwd: home,
    env: { ...stubEnv({ turns: [steps] }), HOME: home },
    pathToClaudeCodeExecutable: STUB_CLI,
  });
  const { ctx } = contextFor(newTask(), async ({ id }) => ({ id, action: 'accept' }));
  const seen: string[] = [];
  for await (const { type } of normalizeAgent(agent)({ ...newTask().turns[0]! }, ctx)) {
    seen.push(type);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(seen.indexOf('tool.called')).toBeGreaterThan(0);
  expect(seen.indexOf('input.required')).toBeGreaterThan(seen.indexOf('tool.called'));
});
