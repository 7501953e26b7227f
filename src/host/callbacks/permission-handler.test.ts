import { describe, expect, test } from 'vitest';
import { collect, playedSession } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Answer, InputRequest } from '../../ask.ts';
import type { JsonObject } from '../../json.ts';
import { HOOK_EVENTS, type HookCallback } from '../sdk-types/hook-types.ts';
import type { SessionOptions } from '../options/options.ts';

const bash = (more: JsonObject = {}): JsonObject => ({
  subtype: 'can_use_tool',
  tool_name: 'Bash',
  tool_use_id: 'toolu_1',
  input: { command: 'ls' },
  ...more,
});

async function decided(options: SessionOptions, more?: JsonObject): Promise<JsonObject> {
  const { cli, session } = await playedSession(options);
  await using _ = session;
  const answer = await cli.answerTo(cli.request(bash(more)));
  expect(session.decisions).toHaveLength(1);
  return { ...(answer['response'] as JsonObject), decision: session.decisions[0] };
}

describe('can_use_tool', () => {
  verifies(['S79', 'S85'], 'is decided by the callback: allow, deny, changed input', async () => {
    expect(await decided({ canUseTool: () => ({ behavior: 'allow' }) })).toMatchObject({
      behavior: 'allow',
      updatedInput: { command: 'ls' },
      toolUseID: 'toolu_1',
      decision: { toolName: 'Bash', behavior: 'allow', by: 'canUseTool', reason: 'allowed' },
    });
    expect(
      await decided({ canUseTool: () => ({ behavior: 'deny', message: 'not today' }) }),
    ).toMatchObject({ behavior: 'deny', message: 'not today', decision: { reason: 'not today' } });
    const updatedInput = { command: 'pwd' };
    expect(
      await decided({ canUseTool: () => ({ behavior: 'allow', updatedInput }) }),
    ).toMatchObject({ updatedInput });
  });

  test.each([
    [
      { command: 'rm -rf ~', description: 'Lists the files' },
      'May Bash run? {"command":"rm -rf ~"}',
    ],
    [{ command: 'ls\n\u202e rm' }, 'May Bash run? {"command":"ls\\n\\u202e rm"}'],
    [{ command: 'a\u3164\u{e0041}' }, 'May Bash run? {"command":"a\\u3164\\udb40\\udc41"}'],
    [{ command: `ls ${' '.repeat(5000)}; rm -rf ~` }, '; rm -rf ~"}'],
  ])(
    'a person is asked about what runs, not about what the model says of it: %j',
    async (input, expected) => {
      const asked: string[] = [];
      const ask = async ({ id, message = '' }: InputRequest): Promise<Answer> => {
        asked.push(message);
        return { id, action: 'decline' };
      };
      await decided({ ask }, { input, description: 'Lists the files' });
      expect(asked).toEqual([expect.stringContaining(expected)]);
      expect(asked[0]?.startsWith('May Bash run?')).toBe(true);
      expect(asked[0]?.length).toBeLessThan(2000);
      expect(asked[0]).toContain('described as "Lists the files"');
    },
  );

  test('treats an undefined updatedInput as absent', async () => {
    const answer = { behavior: 'allow', updatedInput: undefined } as never;
    expect(await decided({ canUseTool: () => answer })).toMatchObject({
      updatedInput: { command: 'ls' },
    });
  });

  test('passes the fields of the request and a signal to the callback', async () => {
    const seen: unknown[] = [];
    await decided(
      {
        canUseTool: (name, input, options) => {
          seen.push(name, input, options);
          return { behavior: 'allow' };
        },
      },
      {
        blocked_path: '/x',
        permission_suggestions: [{ type: 'addRules' }],
        title: 'T',
        agent_id: 'a',
      },
    );
    expect(seen).toEqual([
      'Bash',
      { command: 'ls' },
      {
        signal: expect.any(AbortSignal) as AbortSignal,
        toolUseID: 'toolu_1',
        requestId: 'cli_1',
        blockedPath: '/x',
        suggestions: [{ type: 'addRules' }],
        title: 'T',
        agentID: 'a',
      },
    ]);
  });

  test('an invalid result of the callback denies with the reason', async () => {
    const bad: readonly [unknown, string][] = [
      [undefined, 'expected an object, got undefined'],
      [true, 'expected an object, got boolean'],
      [{ allow: true }, "behavior must be 'allow' or 'deny'"],
      [{ behavior: 'deny' }, 'deny must have a message'],
      [{ behavior: 'allow', updatedInput: 'x' }, 'updatedInput must be an object'],
      [{ behavior: 'allow', updatedPermissions: {} }, 'updatedPermissions must be an array'],
    ];
    for (const [answer, why] of bad) {
      expect(await decided({ canUseTool: () => answer as never })).toMatchObject({
        behavior: 'deny',
        message: expect.stringContaining(why) as string,
        decision: { behavior: 'deny', reason: expect.stringContaining(why) as string },
      });
    }
    const thrown = await decided({
      canUseTool: () => {
        throw new Error('exploded');
      },
    });
    expect(thrown).toMatchObject({
      behavior: 'deny',
      message: expect.stringMatching(/exploded/) as string,
    });
  });

  test('goes to ask without a callback: accept, edited, decline, cancel', async () => {
    const asked: InputRequest[] = [];
    const answering = (
      action: 'accept' | 'decline' | 'cancel',
      content?: unknown,
    ): SessionOptions => ({
      ask: async (request) => {
        asked.push(request);
        return { id: request.id, action, ...(content !== undefined && { content }) };
      },
    });
    expect(await decided(answering('accept'))).toMatchObject({
      behavior: 'allow',
      updatedInput: { command: 'ls' },
    });
    expect(await decided(answering('accept', { command: 'pwd' }))).toMatchObject({
      updatedInput: { command: 'pwd' },
      decision: { by: 'ask', reason: 'accepted with changes' },
    });
    expect(await decided(answering('decline'))).toMatchObject({
      behavior: 'deny',
      decision: { reason: 'declined' },
    });
    expect(await decided(answering('cancel'))).toMatchObject({ behavior: 'deny', interrupt: true });
    expect(asked[0]).toMatchObject({
      id: 'toolu_1/permission',
      kind: 'approval',
      callId: 'toolu_1',
      data: { toolName: 'Bash', input: { command: 'ls' } },
    });
  });

  test.each([
    [
      'with another input',
      { toolName: 'Bash', input: { command: 'pwd' } },
      { behavior: 'allow', updatedInput: { command: 'pwd' } },
    ],
    [
      'unchanged',
      { toolName: 'Bash', input: { command: 'ls' } },
      { behavior: 'allow', updatedInput: { command: 'ls' } },
    ],
    ['with another tool', { toolName: 'Write', input: {} }, { behavior: 'deny' }],
    ['with an input that is a list', { toolName: 'Bash', input: ['pwd'] }, { behavior: 'deny' }],
  ])('the answer may be the data of the question, as the page sends it: %s', async (...row) => {
    const [, content, expected] = row;
    const ask = async ({ id }: InputRequest): Promise<Answer> => ({
      id,
      action: 'accept',
      content,
    });
    expect(await decided({ ask })).toMatchObject(expected);
  });

  test('an answer that changes the input denies when approvalEdits is false', async () => {
    const accept = (content?: unknown) => ({
      approvalEdits: false,
      ask: async () => ({ id: 'x', action: 'accept' as const, content }),
    });
    expect(await decided(accept({ command: 'touch x' }))).toMatchObject({
      behavior: 'deny',
      message: expect.stringContaining('approvalEdits'),
    });
    expect(await decided(accept())).toMatchObject({ behavior: 'allow' });
    expect(await decided({ ...accept({ command: 'touch x' }), approvalEdits: true })).toMatchObject(
      {
        behavior: 'allow',
        updatedInput: { command: 'touch x' },
      },
    );
  });

  verifies('S80', 'is denied without a callback', async () => {
    expect(await decided({})).toMatchObject({ behavior: 'deny', decision: { by: 'nobody' } });
  });

  verifies(
    'S83',
    'waits for a person while tools run, and is reported on the message lane',
    async () => {
      let allow = (): void => {};
      const { cli, session } = await playedSession({
        canUseTool: () => new Promise((resolve) => (allow = () => resolve({ behavior: 'allow' }))),
      });
      await using _ = session;
      await cli.initialize();
      const asked = cli.request(bash());
      await expect.poll(() => session.holding).toEqual(['permission for Bash']);
      expect(await cli.answerTo(cli.request({ subtype: 'odd' }))).toMatchObject({
        subtype: 'error',
      });
      allow();
      expect(await cli.answerTo(asked)).toMatchObject({ response: { behavior: 'allow' } });
      await session.send('x');
      cli.say(cli.result());
      expect((await collect(session.response()))[0]).toMatchObject({
        subtype: 'permission_decision',
        tool_name: 'Bash',
        behavior: 'allow',
        by: 'canUseTool',
      });
    },
  );

  test('a request that the CLI withdraws aborts the callback', async () => {
    let reason: unknown;
    const { cli, session } = await playedSession({
      canUseTool: (_name, _input, { signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            reason = signal.reason;
            resolve({ behavior: 'deny', message: 'gone' });
          }),
        ),
    });
    await using _ = session;
    const asked = cli.request(bash());
    await expect.poll(() => session.holding).toContain('permission for Bash');
    cli.say({ type: 'control_cancel_request', request_id: asked });
    await expect.poll(() => reason).toMatchObject({ code: 'canceled' });
  });
});

describe('contradictions', () => {
  const canUseTool = (): { behavior: 'allow' } => ({ behavior: 'allow' });
  for (const [name, options] of Object.entries({
    'another prompt tool': { canUseTool, permissionPromptToolName: 'mcp__x__ask' },
    'prompts that are off': { canUseTool, permissionPrompts: 'none' },
    'bypass without leave': {
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: false,
    },
    'resume and continue': { resume: 'a', continue: true },
    'an unknown hook event': { hooks: { PreTool: [] } },
    'a negative number': { maxTurns: -1 },
    'an empty server': { mcpServers: { x: {} } },
    'an sdk server without instance': { mcpServers: { x: { type: 'sdk', name: 'x' } } },
    'an instance that is not a server': {
      mcpServers: { x: { type: 'sdk', name: 'x', instance: {} } },
    },
    'one option under two names': { systemPrompt: 'a', system_prompt: 'b' },
  })) {
    test(`are rejected with the fix: ${name}`, async () => {
      await expect(playedSession(options as SessionOptions)).rejects.toMatchObject({
        code: 'invalid',
      });
    });
  }
});

test('null of canUseTool leaves the request open: another client decides it', async () => {
  let called = (): void => {};
  const calling = new Promise<void>((resolve) => (called = resolve));
  const { cli, session } = await playedSession({
    canUseTool: async () => {
      called();
      return null;
    },
  });
  cli.request(bash());
  await calling;
  const later = cli.request({ subtype: 'from_the_future' });
  expect((await cli.until('control_response')).response.request_id).toBe(later);
  expect(session.decisions).toEqual([]);
  await session[Symbol.asyncDispose]();
  for (let frame = await cli.next(); frame; frame = await cli.next())
    expect(frame.type).not.toBe('control_response');
});

test('canUseTool gets every member of the request under its official name', async () => {
  const options: unknown[] = [];
  await decided(
    {
      canUseTool: (_name, _input, given) => {
        options.push(given);
        return { behavior: 'allow' };
      },
    },
    {
      decision_reason_type: 'rule',
      requires_user_interaction: true,
      suppress_always_allow_rule: true,
      default_to_no: true,
      matched_ask_rule: { source: 'userSettings', tool_name: 'Bash', rule_content: 'ls' },
    },
  );
  expect(options).toMatchObject([
    {
      toolUseID: 'toolu_1',
      decisionReasonType: 'rule',
      requiresUserInteraction: true,
      suppressAlwaysAllowRule: true,
      defaultToNo: true,
      matchedAskRule: { source: 'userSettings', toolName: 'Bash', ruleContent: 'ls' },
    },
  ]);
});

test('canUseTool is accepted with a mode that does not ask, since the mode may change', async () => {
  for (const permissionMode of ['bypassPermissions', 'dontAsk'] as const) {
    const canUseTool = (): { behavior: 'allow' } => ({ behavior: 'allow' });
    const { cli, session } = await playedSession({ canUseTool, permissionMode });
    await using _ = session;
    const asked = cli.request({ subtype: 'can_use_tool', tool_name: 'Bash', input: {} });
    expect(await cli.answerTo(asked)).toMatchObject({ response: { behavior: 'allow' } });
  }
});

describe('hooks', () => {
  test('there are 33 events', () => {
    expect(new Set(HOOK_EVENTS).size).toBe(33);
  });

  verifies(
    ['S36', 'S45'],
    'are registered by id and called with input, tool id and signal',
    async () => {
      const calls: unknown[][] = [];
      const note: HookCallback = (...args) => {
        calls.push(args);
        return { decision: 'approve' };
      };
      const { cli, session } = await playedSession({
        hooks: {
          PreToolUse: [
            { hooks: [note] },
            { matcher: 'Bash|Write', hooks: [note, note], timeout: 5 },
          ],
          Stop: [{ hooks: [note], onFailure: 'continue' }],
          Notification: [],
        },
      });
      await using _ = session;
      const { request } = await cli.initialize();
      expect(request['hooks']).toEqual({
        PreToolUse: [
          { hookCallbackIds: ['hook_0'] },
          { matcher: 'Bash|Write', hookCallbackIds: ['hook_1', 'hook_2'], timeout: 5 },
        ],
        Stop: [{ hookCallbackIds: ['hook_3'], onFailure: 'continue' }],
      });
      const input = { hook_event_name: 'PreToolUse' };
      const asked = cli.request({
        subtype: 'hook_callback',
        callback_id: 'hook_1',
        input,
        tool_use_id: 't',
      });
      expect(await cli.answerTo(asked)).toMatchObject({ response: { decision: 'approve' } });
      expect(calls).toEqual([[input, 't', { signal: expect.any(AbortSignal) as AbortSignal }]]);
    },
  );

  test('a hook that throws, returns an invalid result or is unknown gives an error response', async () => {
    const { cli, session } = await playedSession({
      hooks: {
        Stop: [
          {
            hooks: [
              () => {
                throw new Error('boom');
              },
              () => 'yes' as never,
              () => undefined as never,
              async () => ({ async: true, asyncTimeout: 5 }),
            ],
          },
        ],
      },
    });
    await using _ = session;
    const ask = (id: string): Promise<JsonObject> =>
      cli.answerTo(cli.request({ subtype: 'hook_callback', callback_id: id, input: {} }));
    expect(await ask('hook_0')).toMatchObject({ subtype: 'error', error: 'boom' });
    expect(await ask('hook_1')).toMatchObject({
      subtype: 'error',
      error: expect.stringContaining('expected an object') as string,
    });
    expect(await ask('hook_2')).toMatchObject({ subtype: 'success', response: {} });
    expect(await ask('hook_3')).toMatchObject({ response: { async: true, asyncTimeout: 5 } });
    expect(await ask('hook_9')).toMatchObject({
      subtype: 'error',
      error: 'hook "hook_9" not found; it was never registered',
    });
  });

  test('a blocking hook delays the prompt until the CLI reports support for it', async () => {
    const hooks = { PreToolUse: [{ hooks: [() => ({})], onFailure: 'block' as const }] };
    const able = await playedSession({ hooks });
    await using _able = able.session;
    const sending = able.session.send('go');
    const frame = await able.cli.until('control_request', 'initialize');
    able.cli.answer(frame.request_id, { hook_on_failure_supported: true });
    await sending;
    expect(await able.cli.next()).toMatchObject({ type: 'user' });
    const unable = await playedSession({ hooks });
    await using _unable = unable.session;
    await unable.cli.initialize();
    await expect(unable.session.send('go')).rejects.toMatchObject({ code: 'unsupported' });
  });
});

describe('elicitation and dialogs', () => {
  const question: JsonObject = {
    subtype: 'elicitation',
    mcp_server_name: 'st',
    message: 'Your name?',
    mode: 'form',
    requested_schema: { type: 'object' },
  };
  const answered = async (options: SessionOptions): Promise<JsonObject> => {
    const { cli, session } = await playedSession(options);
    await using _ = session;
    return await cli.answerTo(cli.request(question));
  };

  test('goes to its callback, else to ask, else is declined', async () => {
    const content = { name: 'Ada' };
    expect(await answered({ onElicitation: () => ({ action: 'accept', content }) })).toMatchObject({
      response: { action: 'accept', content },
    });
    expect(await answered({ onElicitation: () => 'no' as never })).toMatchObject({
      subtype: 'error',
    });
    const ask: NonNullable<SessionOptions['ask']> = async ({ id, kind, schema }) => {
      expect({ kind, schema }).toEqual({ kind: 'approval', schema: { type: 'object' } });
      return { id, action: 'accept', content };
    };
    expect(await answered({ ask })).toMatchObject({ response: { action: 'accept', content } });
    expect(await answered({})).toMatchObject({ response: { action: 'decline' } });
  });

  test('a question names its server, and the server cannot choose the question id', async () => {
    const { cli, session } = await playedSession({
      ask: async (request) => {
        asked.push(request);
        return { id: request.id, action: 'decline' };
      },
    });
    await using _ = session;
    const asked: InputRequest[] = [];
    const elicitation_id = 'toolu_1';
    for (const mcp_server_name of ['st', 'other'])
      await cli.answerTo(cli.request({ ...question, mcp_server_name, elicitation_id }));
    expect(asked.map(({ message }) => message)).toEqual([
      'The tool server "st" asks: Your name?',
      'The tool server "other" asks: Your name?',
    ]);
    const [first, second] = asked.map(({ id }) => id);
    expect(first).not.toMatch(/^toolu_1/);
    expect(second).not.toBe(first);
  });

  test('a dialog without a handler stays unanswered and does not hold stdin', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await cli.initialize();
    cli.request({ subtype: 'request_user_dialog', dialog_kind: 'x' });
    const next = cli.request({ subtype: 'odd' });
    expect((await cli.until('control_response')).response.request_id).toBe(next);
    expect(session.holding).toEqual([]);
  });
});
