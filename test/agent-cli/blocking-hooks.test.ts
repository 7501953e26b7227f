import { describe, expect, test } from 'vitest';
import { query } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { AGENT, RawHost, requestOf, Workspace } from './workspace.ts';

const call = { tools: [{ name: 'mcp__calc__add' }] };
const SECRET = 'the secret result';

/** One turn with a blocking hook whose callback fails, or never answers. */
async function turnWith(
  event: string,
  failure: 'throws' | 'times out',
): Promise<{ readonly host: RawHost; readonly result: JsonObject } & AsyncDisposable> {
  const ws = await Workspace.open();
  const model = await ws.script([call, { text: 'the model saw: {{last}}' }, { text: 'more' }]);
  const host = new RawHost(ws, ['--model', model, '--allowed-tools', 'mcp__calc__*']);
  host.respond('hook_callback', (_, { request_id }) => {
    if (failure === 'throws')
      host.send({
        type: 'control_response',
        response: { subtype: 'error', request_id, error: 'the policy service is down' },
      });
    return undefined;
  });
  const timeout = failure === 'times out' ? { timeout: 0.05 } : {};
  const hooks = { [event]: [{ hookCallbackIds: ['h'], onFailure: 'block', ...timeout }] };
  host.serve([{ name: 'add' }], () => SECRET, { hooks });
  host.prompt('go');
  const result = await host.result();
  const close = async (): Promise<void> => {
    await host[Symbol.asyncDispose]();
    await ws[Symbol.asyncDispose]();
  };
  return { host, result, [Symbol.asyncDispose]: close };
}

const called = (host: RawHost): boolean =>
  host.seen.some(({ request }) => JSON.stringify(request ?? {}).includes('"tools/call"'));

describe.each(['throws', 'times out'] as const)('a blocking hook that %s', (failure) => {
  const why = failure === 'throws' ? 'the policy service is down' : 'timed out after';

  test('on UserPromptSubmit prevents the model call', async () => {
    await using run = await turnWith('UserPromptSubmit', failure);
    expect(run.result).toMatchObject({ subtype: 'error_during_execution', is_error: true });
    expect(String(run.result['errors'])).toContain(why);
    expect(run.host.types()).not.toContain('assistant');
  });

  test('on PreToolUse prevents the tool call', async () => {
    await using run = await turnWith('PreToolUse', failure);
    expect(called(run.host)).toBe(false);
    expect(run.result['result']).toContain(why);
  });

  test('on PostToolUse withholds the result from the model and from the host', async () => {
    await using run = await turnWith('PostToolUse', failure);
    expect(called(run.host)).toBe(true);
    expect(run.result['result']).toContain(why);
    const messages = run.host.seen.filter(({ type }) => type !== 'control_request');
    expect(JSON.stringify(messages)).not.toContain(SECRET);
  });

  test.each(['PostToolBatch', 'Stop'])('on %s ends the turn with an error', async (event) => {
    await using run = await turnWith(event, failure);
    expect(run.result).toMatchObject({ subtype: 'error_during_execution', is_error: true });
    expect(String(run.result['errors'])).toContain(why);
  });
});

test.each(['SessionStart', 'SessionEnd', 'Notification', 'PreCompact', 'PermissionRequest'])(
  "onFailure: 'block' on %s, where this CLI cannot block, is refused and no turn runs",
  async (event) => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'ran' }])]);
    const hooks = { [event]: [{ hookCallbackIds: ['h'], onFailure: 'block' }] };
    host.request('init', 'initialize', { hooks });
    host.prompt('go');
    expect(await host.answered('init')).toMatchObject({
      subtype: 'error',
      error: expect.stringContaining(event) as string,
    });
    expect(await host.result()).toMatchObject({ is_error: true });
    expect(host.types()).not.toContain('assistant');
  },
);

test('a hook without onFailure that times out is reported, and the turn continues', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'ran' }])]);
  const hooks = { UserPromptSubmit: [{ hookCallbackIds: ['h'], timeout: 0.05 }] };
  host.request('init', 'initialize', { hooks });
  host.prompt('go');
  expect(requestOf(await host.asked('hook_callback'))).toMatchObject({ callback_id: 'h' });
  expect(await host.type('system', 'informational')).toMatchObject({
    content: 'UserPromptSubmit hook timed out after 50 ms: no response of the host',
    tag: 'hook_callback_failed',
  });
  expect(await host.result()).toMatchObject({ result: 'ran' });
});

/**
 * A turn whose tool, while it runs, gets the host to send a further message, which joins the turn.
 */
async function joiningTurn(
  answer: (prompt: string) => JsonObject | undefined,
): Promise<{ readonly host: RawHost; readonly result: JsonObject } & AsyncDisposable> {
  const ws = await Workspace.open();
  const model = await ws.script([call, { text: 'the model saw: {{last}}' }]);
  const host = new RawHost(ws, ['--model', model, '--allowed-tools', 'mcp__calc__*']);
  host.respond('hook_callback', (request, { request_id }) => {
    const response = answer(String((request['input'] as JsonObject)['prompt']));
    if (!response)
      host.send({
        type: 'control_response',
        response: { subtype: 'error', request_id, error: 'the policy service is down' },
      });
    return response;
  });
  const hooks = { UserPromptSubmit: [{ hookCallbackIds: ['h'], onFailure: 'block' }] };
  host.serve(
    [{ name: 'add' }],
    () => {
      host.prompt('launch the rockets');
      return 'sum';
    },
    { hooks },
  );
  host.prompt('go');
  const result = await host.result();
  const close = async (): Promise<void> => {
    await host[Symbol.asyncDispose]();
    await ws[Symbol.asyncDispose]();
  };
  return { host, result, [Symbol.asyncDispose]: close };
}

test('UserPromptSubmit can block a message that joins a running turn', async () => {
  const prompts: string[] = [];
  await using run = await joiningTurn((prompt) => {
    prompts.push(prompt);
    return prompt.includes('rockets') ? { decision: 'block', reason: 'no rockets' } : {};
  });
  expect(prompts).toEqual(['go', 'launch the rockets']);
  expect(run.result['result']).toContain('sum');
  expect(run.result['result']).not.toContain('rockets');
});

test('a blocking UserPromptSubmit hook that fails blocks a message that joins a running turn', async () => {
  await using run = await joiningTurn((prompt) => (prompt === 'go' ? {} : undefined));
  expect(run.result).toMatchObject({ subtype: 'error_during_execution', is_error: true });
  expect(String(run.result['errors'])).toContain('the policy service is down');
  expect(JSON.stringify(run.host.seen)).not.toContain('the model saw');
});

test('a PreToolUse hook that allows a call does not override an ask or a deny rule', async () => {
  await using workspace = await Workspace.open();
  const model = await workspace.script([
    {
      tools: ['a', 'b', 'c'].map((name) => ({ name: 'Bash', input: { command: `echo ${name}` } })),
    },
    { text: 'done' },
  ]);
  const asked: unknown[] = [];
  const run = query({
    prompt: 'go',
    options: {
      pathToClaudeCodeExecutable: AGENT,
      cwd: workspace.cwd,
      env: workspace.env,
      model,
      tools: ['Bash'],
      settings: { permissions: { ask: ['Bash(echo b)'], deny: ['Bash(echo c)'] } },
      hooks: {
        PreToolUse: [
          {
            hooks: [
              async () => ({
                hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'allow' },
              }),
            ],
          },
        ],
      },
      canUseTool: async (_name, { command }) => {
        asked.push(command);
        return { behavior: 'deny', message: 'no' };
      },
    },
  });
  const results: unknown[] = [];
  for await (const message of run) {
    const { content } = (message as unknown as { message?: { content?: unknown } }).message ?? {};
    if (message.type === 'user' && Array.isArray(content))
      results.push(...content.map((block: { is_error?: boolean }) => block.is_error === true));
  }
  expect(asked).toEqual(['echo b']);
  expect(results).toEqual([false, true, true]);
});

test('a PreToolUse hook that ends the turn prevents its call and those behind it', async () => {
  await using ws = await Workspace.open();
  const calls = { tools: [{ name: 'mcp__calc__add' }, { name: 'mcp__calc__other' }] };
  const model = await ws.script([calls, { text: 'the model went on' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowed-tools', 'mcp__calc__*']);
  host.respond('hook_callback', () => ({ continue: false, stopReason: 'out of hours' }));
  const hooks = { PreToolUse: [{ matcher: 'mcp__calc__add', hookCallbackIds: ['h'] }] };
  host.serve([{ name: 'add' }, { name: 'other' }], () => SECRET, { hooks });
  host.prompt('go');
  expect(await host.result()).toMatchObject({ terminal_reason: 'hook_stopped' });
  expect(called(host)).toBe(false);
  expect(JSON.stringify(host.seen)).toContain('out of hours');
});
