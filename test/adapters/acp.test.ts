import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { acp } from '../../src/adapters/acp/acp-agent.ts';
import type { AcpOptions } from '../../src/adapters/acp/acp-options.ts';
import type { Ask } from '../../src/ask.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { Agent, AgentEvent, Frame, Snapshot } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { contextFor, newTask } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { eventually } from '../support/busy.ts';
import { only } from './adapter.contract.ts';

const COMMAND = fileURLToPath(new URL('../fixtures/acp-agent.mjs', import.meta.url));

const agentOf = (scene: JsonObject, options: AcpOptions = {}): Agent =>
  acp(COMMAND, { args: [JSON.stringify(scene)], env: {}, inheritEnv: ['PATH'], ...options });

interface RunOptions {
  readonly ask?: Ask;
  readonly task?: Snapshot;
  readonly parts?: Parameters<typeof turnOf>[1];
}

async function run(agent: Agent, { ask, task = newTask(), parts = {} }: RunOptions = {}) {
  const events: AgentEvent[] = [];
  const { ctx } = contextFor(task, ask);
  for await (const event of normalizeAgent(agent, { graceMs: 10_000 })(turnOf('m1', parts), ctx))
    events.push(event);
  expect(checkLaws(events, { calls: task.calls })).toEqual([]);
  const end = only(events, 'run.finished')[0];
  return { events, end, text: end?.text ?? '', error: end?.error };
}

const rpc = (code: number, message: string, data?: unknown): JsonObject => ({
  code,
  message,
  data,
});

describe('an agent that does not start', () => {
  test.each<[string, JsonObject, AcpOptions, { code: string; message: RegExp }]>([
    [
      'exits',
      { exit: 3, stderr: 'no licence\n' },
      {},
      { code: 'peer_exited', message: /exited with code 3; end of its stderr: no licence$/ },
    ],
    [
      'speaks another version',
      { responses: { initialize: { protocolVersion: 9 } } },
      {},
      { code: 'unsupported', message: /speaks version 9 .*expected 1; install a version/ },
    ],
    [
      'requires authentication',
      {
        authMethods: [{ id: 'key', name: 'API key' }],
        errors: { 'session/new': rpc(-32000, 'Authentication required') },
      },
      {},
      { code: 'unauthorized', message: /set auth to one of "key" \(API key\) and its key in env$/ },
    ],
    [
      'does not respond',
      { silent: ['initialize'] },
      { startTimeoutMs: 50 },
      { code: 'timeout', message: /^initialize timed out after 50 ms: .*increase startTimeoutMs/ },
    ],
    [
      'has no such mode',
      {
        session: { modes: { currentModeId: 'ask', availableModes: [{ id: 'ask', name: 'Ask' }] } },
      },
      { mode: 'code' },
      { code: 'invalid', message: /unknown mode "code": expected one of the agent's modes "ask"/ },
    ],
    [
      'has no MCP over HTTP',
      {},
      { mcpServers: { files: { type: 'http', url: 'http://127.0.0.1:1/' } } },
      { code: 'unsupported', message: /does not support MCP servers over http, such as "files"/ },
    ],
  ])('because it %s: a failure with the fix', async (_, scene, options, { code, message }) => {
    const { end, error } = await run(agentOf(scene, options));
    expect(end).toMatchObject({ outcome: 'failed', error: { code } });
    expect(error?.message).toMatch(message);
  });

  test('because its command does not exist', async () => {
    const { error } = await run(acp('no-such-agent', { env: { PATH: '/nowhere' } }));
    expect(error).toMatchObject({ code: 'not_found' });
    expect(error?.message).toContain('no-such-agent');
  });

  test('because its terminals are incomplete', () => {
    expect(() => acp('x', { methods: { 'terminal/create': async () => ({}) } })).toThrow(
      /methods lacks terminal\/output/,
    );
  });
});

const toolCall = {
  toolCallId: 'c1',
  title: 'rm x',
  kind: 'execute',
  rawInput: { command: 'rm x' },
};
const permission = {
  request: {
    method: 'session/request_permission',
    params: {
      sessionId: 's1',
      toolCall,
      options: [
        { optionId: 'o1', name: 'Yes', kind: 'allow_once' },
        { optionId: 'o2', name: 'Yes, and do not ask again', kind: 'allow_always' },
        { optionId: 'o3', name: 'No', kind: 'reject_once' },
      ],
    },
  },
};

describe('what the agent asks', () => {
  test('a permission: what the person chose, and nothing more', async () => {
    const answers = [
      { action: 'accept' },
      { action: 'accept', content: { choice: 'Yes, and do not ask again' } },
      { action: 'accept', content: { choice: 'Sure' } },
      { action: 'accept', content: { command: 'rm y' } },
      { action: 'decline' },
      { action: 'decline', content: 'Yes' },
      { action: 'cancel' },
    ] as const;
    const asked: unknown[] = [];
    const { text, events } = await run(agentOf({ prompt: answers.map(() => permission) }), {
      ask: async (request) => ({
        id: request.id,
        ...(answers[asked.push(request) - 1] as (typeof answers)[0]),
      }),
    });
    expect(asked[0]).toMatchObject({
      kind: 'approval',
      message: 'Allow rm x?',
      callId: 'c1',
      data: { name: 'execute', args: { command: 'rm x' } },
    });
    const chosen = text.match(/o\d|cancelled/g);
    expect(chosen).toEqual(['o1', 'o2', 'o3', 'o3', 'o3', 'o3', 'cancelled']);
    expect(only(events, 'tool.called')).toMatchObject([
      { callId: 'c1', args: { command: 'rm x' } },
    ]);
  });

  test('only a permission that lasts: a plain yes does not give it', async () => {
    const { params } = permission.request;
    const options = params.options.filter(({ kind }) => kind !== 'allow_once');
    const request = { ...permission.request, params: { ...params, options } };
    const { text } = await run(agentOf({ prompt: [{ request }] }), {
      ask: async ({ id }) => ({ id, action: 'accept' }),
    });
    expect(text).toContain('"o3"');
  });

  const read = {
    request: { method: 'fs/read_text_file', params: { sessionId: 's1', path: '/x' } },
  };

  test('a file: refused by name, unless the user provides it', async () => {
    const refused = await run(agentOf({ prompt: [read] }));
    expect(refused.text).toContain('"code":-32601');
    expect(refused.text).toContain('fs/read_text_file is not provided');
    const methods = {
      'fs/read_text_file': async ({ path }: JsonObject) => ({ content: `of ${String(path)}` }),
    };
    const given = await run(agentOf({ prompt: [read] }, { methods }));
    expect(given.text).toBe('{"content":"of /x"}');
  });

  test('a form is a question to a person', async () => {
    const requestedSchema = { type: 'object', properties: { city: { type: 'string' } } };
    const params = { mode: 'form', sessionId: 's1', message: 'Where?', requestedSchema };
    const { text } = await run(
      agentOf({ prompt: [{ request: { method: 'elicitation/create', params } }] }),
      {
        ask: async ({ id, kind }) => ({
          id,
          action: 'accept',
          content: { city: `Paris (${kind})` },
        }),
      },
    );
    expect(text).toBe('{"action":"accept","content":{"city":"Paris (question)"}}');
  });
});

test('what the agent reports: calls with their names, plans, modes, notices, files, usage', async () => {
  const { events, end } = await run(
    agentOf({
      noise: 'Welcome!',
      prompt: [
        { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'Hm.' } },
        {
          sessionUpdate: 'plan',
          entries: [{ content: 'Edit', priority: 'high', status: 'pending' }],
        },
        { sessionUpdate: 'current_mode_update', currentModeId: 'code' },
        { sessionUpdate: 'notice', severity: 'warning', title: 'Slow' },
        {
          sessionUpdate: 'tool_call',
          toolCallId: 'c1',
          title: 'Edit /a',
          kind: 'edit',
          rawInput: {},
        },
        { sessionUpdate: 'tool_call_update', toolCallId: 'c1', rawInput: { path: '/a' } },
        { sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'in_progress' },
        {
          sessionUpdate: 'tool_call_update',
          toolCallId: 'c1',
          status: 'completed',
          content: [{ type: 'diff', path: '/a', oldText: 'x', newText: 'y' }],
        },
        { sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: 'failed' },
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Done.' } },
        {
          sessionUpdate: 'agent_message_chunk',
          content: { type: 'image', data: 'UE5H', mimeType: 'image/png' },
        },
        {
          sessionUpdate: 'usage_update',
          used: 10,
          size: 100,
          cost: { amount: 0.5, currency: 'USD' },
        },
      ],
      end: { usage: { totalTokens: 3, inputTokens: 2, outputTokens: 1 } },
    }),
  );
  expect(events[0]).toMatchObject({ type: 'run.started', sessionId: 's1' });
  expect(only(events, 'tool.started')).toMatchObject([{ callId: 'c1', name: 'edit' }]);
  expect(only(events, 'tool.called')).toMatchObject([{ callId: 'c1', args: { path: '/a' } }]);
  expect(only(events, 'tool.completed')).toMatchObject([
    { output: [{ type: 'diff', newText: 'y' }] },
  ]);
  expect(only(events, 'tool.failed')).toEqual([]);
  expect(only(events, 'custom').map(({ name }) => name)).toEqual([
    'acp.plan',
    'acp.current_mode_update',
    'acp.usage_update',
  ]);
  expect(only(events, 'status').map(({ message }) => message)).toContain('Slow');
  expect(only(events, 'artifact')).toMatchObject([{ parts: [{ mediaType: 'image/png' }] }]);
  expect(only(events, 'step.finished').map(({ reason }) => reason)).toEqual(['tool-calls', 'stop']);
  expect(end).toMatchObject({ outcome: 'completed', text: 'Done.' });
  expect(end?.usage).toEqual({ inputTokens: 2, outputTokens: 1, costUsd: 0.5 });
});

test.each([
  ['refusal', 'failed', 'content_filter'],
  ['cancelled', 'canceled', undefined],
  ['bored', 'failed', 'malformed'],
])('the stop reason %s: %s', async (stopReason, outcome, code) => {
  const { end, error } = await run(agentOf({ end: { stopReason } }));
  expect([end?.outcome, error?.code]).toEqual([outcome, code]);
});

test('an agent that exits in a turn, and one whose message is too long, fail the run', async () => {
  const exited = await run(agentOf({ prompt: [{ exit: 1 }] }));
  expect(exited.error).toMatchObject({ code: 'peer_exited' });
  const long = await run(agentOf({ prompt: [{ long: 5000 }] }, { maxBytes: 2000 }));
  expect(long.error).toMatchObject({ code: 'too_large' });
});

test('a cancel that the agent ignores ends its processes', async () => {
  const { ctx, abort } = contextFor();
  const frames: Frame[] = [];
  const agent = agentOf(
    { stubborn: true, prompt: [{ pid: true }, { hang: true }] },
    { cancelTimeoutMs: 10, graceMs: 10, killMs: 10, onFrame: (frame) => void frames.push(frame) },
  );
  let pid = 0;
  let end: AgentEvent | undefined;
  for await (const event of normalizeAgent(agent, { graceMs: 10_000 })(turnOf('m1'), ctx)) {
    if (event.type === 'text.delta') {
      pid = Number(event.delta);
      abort('canceled');
    }
    end = event;
  }
  expect(end).toMatchObject({ outcome: 'canceled' });
  expect(frames.some(({ data }) => data['method'] === 'session/cancel')).toBe(true);
  await eventually(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'));
});

test('both lanes are observed, without the keys of tool servers', async () => {
  const frames: Frame[] = [];
  const { events } = await run(
    agentOf(
      {},
      {
        mcpServers: { files: { command: 'x', env: { KEY: 'secret-1' } } },
        onFrame: (frame) => void frames.push(frame),
      },
    ),
  );
  expect(frames.map(({ lane, direction }) => `${lane} ${direction}`)).toEqual([
    'control out',
    'control in',
    'control out',
    'control in',
    'message out',
    'message in',
  ]);
  expect(only(events, 'frame')).toHaveLength(4);
  expect(JSON.stringify(frames)).toContain('(hidden)');
  expect(JSON.stringify([frames, events])).not.toContain('secret-1');
});

describe('a run that was interrupted', () => {
  const user = { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'hi' } };
  const half = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Half. ' } };
  const interrupted: Snapshot = {
    ...newTask(),
    attempt: 1,
    sessionId: 's1',
    current: turnOf('m1'),
  };

  test('continues with what the agent has of it', async () => {
    const scene = { capabilities: { loadSession: true }, history: [user, half], echo: true };
    const { text } = await run(agentOf(scene), { task: interrupted });
    expect(text).toBe('Half. [{"type":"text","text":"Continue."}]');
  });

  test('gets its message again if the agent does not have it', async () => {
    const scene = { capabilities: { loadSession: true }, history: [], echo: true };
    const { text } = await run(agentOf(scene), { task: interrupted });
    expect(text).not.toContain('Continue.');
  });

  test('fails if the agent cannot load its session', async () => {
    const { error } = await run(agentOf({ echo: true }), { task: interrupted });
    expect(error).toMatchObject({ code: 'interrupted' });
  });
});

test('a run that is never read, or was stopped before, starts no process', async () => {
  let started = 0;
  const options = {
    get args() {
      started++;
      return [COMMAND];
    },
  };
  const agent = acp(process.execPath, options);
  const { ctx } = contextFor(newTask());
  await agent(turnOf('m1'), ctx)[Symbol.asyncIterator]().return?.();
  const signal = AbortSignal.abort(new Error('stopped'));
  const stopped = agent(turnOf('m1'), { ...ctx, signal })[Symbol.asyncIterator]();
  await expect(stopped.next()).rejects.toThrow('stopped');
  expect(started).toBe(0);
});
