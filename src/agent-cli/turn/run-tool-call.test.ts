import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { type CallEnd, runToolCall as runAnyCall } from './run-tool-call.ts';
import { History } from '../session/history.ts';
import { parseFlags } from '../command-line/flags.ts';
import { HookDispatcher } from '../permissions/hook-dispatcher.ts';
import { ControlLink } from '../../wire/control-link.ts';
import { scriptModel } from '../models/script.ts';
import { PromptQueue } from '../session/prompt-queue.ts';
import { CliSession } from '../session/cli-session.ts';
import { Transcript } from '../session/transcript.ts';
import { readSettings } from '../command-line/settings.ts';
import { McpServers } from '../tools/mcp/mcp-servers.ts';
import { type AgentTool, success, type ToolRun } from '../tools/types.ts';
import { TurnInterrupted, TurnState } from './turn-state.ts';

/** A call of which a result is expected. */
async function runCall(...args: Parameters<typeof runAnyCall>): Promise<CallEnd> {
  const end = await runAnyCall(...args);
  if (!end) throw new Error('the call was left open');
  return end;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A session without a process: what it would have written is in `written`. */
function openSession(argv: readonly string[]) {
  const written: JsonObject[] = [];
  const write = (message: JsonObject): void => void written.push(message);
  const flags = parseFlags(argv);
  const settings = readSettings({}, flags, {});
  const lane = new ControlLink({ side: 'agent', write, handle: () => ({ ok: true }) });
  const never = (): never => {
    throw new Error('not in this test');
  };
  const session = new CliSession({
    id: 's',
    cwd: '/work',
    flags,
    settings,
    choices: {
      model: { model: scriptModel('script:x', []), id: 'x' },
      policy: settings.policy,
      directories: ['/work'],
      thinkingTokens: undefined,
      systemPrompt: '',
      effort: undefined,
    },
    history: new History(),
    transcript: new Transcript({ file: '', sessionId: 's', cwd: '/work', persist: false }),
    lane,
    hooks: new HookDispatcher({ lane, base: () => ({}), onFailure: never }),
    servers: new McpServers({
      lane,
      events: { elicit: never, log: never },
      help: {
        cwd: '/work',
        env: {},
        clientInfo: { name: 'x', version: '0' },
        maySample: never,
        onRequest: never,
      },
    }),
    queue: new PromptQueue(),
    fallback: undefined,
    builtins: Promise.resolve([]),
    guards: () => [],
    write,
    drained: () => Promise.resolve(),
    reportsState: false,
  });
  return { session, written, lane };
}

const tool = (call: (run: ToolRun) => Promise<ReturnType<typeof success>>): AgentTool => ({
  spec: { name: 'mcp__s__t', description: '', input_schema: {} },
  readOnly: false,
  server: { name: 's', source: 'sdk', tool: 't', title: 'T' },
  facts: () => ({ edit: false }),
  call: (_, run) => call(run),
});
const block = { type: 'tool_use', id: 'toolu_1', name: 'mcp__s__t', input: { a: 1 } };
const allowed = ['--allowedTools', 'mcp__s__t'];

test('a long call has a heartbeat every 30 s, and progress in between', async () => {
  const { session, written } = openSession(allowed);
  const slow = tool(async (run) => {
    run.progress({ progress: 1, total: 3, message: 'one' });
    await new Promise((resolve) => setTimeout(resolve, 65_000));
    return success('done');
  });
  const ended = runCall(session, new TurnState([]), block, slow);
  await vi.advanceTimersByTimeAsync(66_000);
  expect(await ended).toMatchObject({ result: { tool_use_id: 'toolu_1', content: 'done' } });
  expect(written).toMatchObject([
    { subtype: 'policy_decision', decision: 'allow', by: 'rule', rule: 'mcp__s__t' },
    { type: 'tool_progress', tool_use_id: 'toolu_1', progress: 1, total: 3, message: 'one' },
    {
      type: 'tool_progress',
      tool_use_id: 'toolu_1-heartbeat-0',
      parent_tool_use_id: 'toolu_1',
      heartbeat: true,
    },
    { type: 'tool_progress', tool_use_id: 'toolu_1-heartbeat-1' },
  ]);
  expect(vi.getTimerCount()).toBe(0);
});

test('an interrupt does not wait for a tool that ignores its signal', async () => {
  const { session } = openSession(allowed);
  const turn = new TurnState([]);
  const ended = runCall(
    session,
    turn,
    block,
    tool(() => new Promise(() => {})),
  );
  await vi.advanceTimersByTimeAsync(10);
  turn.controller.abort(new TurnInterrupted('user', 'stop'));
  expect((await ended)?.result).toMatchObject({
    is_error: true,
    content: expect.stringContaining('may have had effects'),
  });
  const late = await runCall(
    session,
    turn,
    block,
    tool(async () => success('never')),
  );
  expect(late?.result).toMatchObject({
    is_error: true,
    content: expect.stringContaining('not executed'),
  });
  expect(vi.getTimerCount()).toBe(0);
});

test('a tool that throws, an unknown tool and invalid arguments each give a failed result', async () => {
  const { session } = openSession(allowed);
  const turn = new TurnState([]);
  const thrown = await runCall(
    session,
    turn,
    block,
    tool(() => Promise.reject(new Error('kaboom'))),
  );
  expect(thrown?.result).toMatchObject({ is_error: true, content: 'kaboom' });
  expect((await runCall(session, turn, block, undefined))?.result).toMatchObject({
    is_error: true,
  });
  const bad = { ...block, input: { __malformed_input: '{"a":' } };
  const malformed = await runCall(
    session,
    turn,
    bad,
    tool(async () => success('never')),
  );
  expect(malformed?.result).toMatchObject({
    content: expect.stringContaining('expected a JSON object'),
  });
});

test('a permission request to a host that closed the input is denied', async () => {
  const { session, lane, written } = openSession(['--permission-prompt-tool=stdio']);
  const turn = new TurnState([]);
  const ended = runCall(
    session,
    turn,
    block,
    tool(async () => success('never')),
  );
  await vi.advanceTimersByTimeAsync(1);
  expect(written).toMatchObject([
    { subtype: 'policy_decision', decision: 'ask', by: 'default' },
    { type: 'control_request', request: { subtype: 'can_use_tool' } },
  ]);
  lane.end(new DuolaneError('closed', 'the host has gone'));
  expect((await ended)?.result).toMatchObject({
    is_error: true,
    content: expect.stringContaining('the host has gone'),
  });
  expect(turn.denials).toHaveLength(1);
});

test('an invalid response to a permission request is a denial', async () => {
  const { session, lane } = openSession(['--permission-prompt-tool=stdio']);
  const ended = runCall(
    session,
    new TurnState([]),
    block,
    tool(async () => success('never')),
  );
  await vi.advanceTimersByTimeAsync(1);
  lane.receive({
    type: 'control_response',
    response: { subtype: 'success', request_id: 'agent_1', response: { ok: true } },
  });
  expect((await ended)?.result).toMatchObject({
    is_error: true,
    content: expect.stringContaining('is invalid'),
  });
});
