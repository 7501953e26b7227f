import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { JsonObject } from '../../src/json.ts';
import {
  type AgentSdk,
  blocks,
  ofType,
  options,
  Prompts,
  type Query,
  readAll,
  resultOf,
  said,
  scenarios,
  server,
  toolResults,
} from './drivers.ts';
import { Workspace } from './workspace.ts';

const calc = (sdk: AgentSdk): unknown =>
  server(
    sdk,
    'calc',
    'add',
    { a: z.number(), b: z.number() },
    async ({ a, b }: { a: number; b: number }) => said(String(a + b)),
  );
const add = (a: number, b: number): JsonObject => ({ name: 'mcp__calc__add', input: { a, b } });

/** Stores the manifests of the servers, writes one result, and exits at the end of input. */
const LISTENER = `
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
createInterface({ input: process.stdin }).on('line', (line) => {
  const { type, request_id, request } = JSON.parse(line);
  const say = (frame) => console.log(JSON.stringify(frame));
  if (type === 'user')
    say({ type: 'result', subtype: 'success', is_error: false, result: '', session_id: 's', uuid: 'u' });
  if (request?.subtype !== 'initialize') return;
  writeFileSync('manifests.json', JSON.stringify(request.sdkMcpServerManifests));
  say({ type: 'control_response', response: { subtype: 'success', request_id, response: {} } });
});`;

scenarios('tool manifests for the CLI', (sdk) => {
  test('search hints and annotations have their names of the wire', async () => {
    await using ws = await Workspace.open();
    const cli = join(ws.cwd, 'listener.mjs');
    await writeFile(cli, LISTENER);
    const extras = { searchHint: 'find me', annotations: { readOnlyHint: true } };
    const tools = [
      sdk.tool('hinted', 'A tool', {}, async () => said(''), { ...extras, alwaysLoad: false }),
      sdk.tool('plain', 'A tool', {}, async () => said('')),
    ];
    const s = sdk.createSdkMcpServer({ name: 's', tools, alwaysLoad: true });
    const more = { pathToClaudeCodeExecutable: cli, mcpServers: { s } };
    await readAll(sdk.query({ prompt: 'go', options: options(ws, 'any', more) }));
    const manifests = await readFile(join(ws.cwd, 'manifests.json'), 'utf8');
    const listed = (JSON.parse(manifests) as { s: { toolsListResult: { tools: JsonObject[] } } }).s
      .toolsListResult.tools;
    expect(listed.map(({ name, annotations, _meta }) => ({ name, annotations, _meta }))).toEqual([
      {
        name: 'hinted',
        annotations: { readOnlyHint: true },
        _meta: { 'anthropic/searchHint': 'find me', 'anthropic/alwaysLoad': expect.any(Boolean) },
      },
      { name: 'plain', _meta: { 'anthropic/alwaysLoad': true } },
    ]);
  });
});

scenarios('permissions', (sdk) => {
  const withCanUseTool = async (
    canUseTool?: (name: string, input: JsonObject, options: JsonObject) => unknown,
    script: JsonObject[] = [{ tools: [add(1, 1)] }, { text: 'end: {{last}}' }],
    more: JsonObject = {},
  ) => {
    await using ws = await Workspace.open();
    const model = await ws.script(script);
    return await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { calc: calc(sdk) },
          ...(canUseTool && { canUseTool }),
          ...more,
        }),
      }),
    );
  };

  test('canUseTool allows', async () => {
    const asked: unknown[] = [];
    const run = await withCanUseTool(async (name, input, { suggestions, toolUseID }) => {
      asked.push([name, input, toolUseID, suggestions]);
      return { behavior: 'allow', updatedInput: input };
    });
    expect(asked).toEqual([
      [
        'mcp__calc__add',
        { a: 1, b: 1 },
        'toolu_script_1',
        [
          {
            type: 'addRules',
            rules: [{ toolName: 'mcp__calc__add' }],
            behavior: 'allow',
            destination: 'session',
          },
        ],
      ],
    ]);
    expect(resultOf(run)).toMatchObject({ result: 'end: 2', permission_denials: [] });
  });

  test('canUseTool denies with a message, and the turn continues', async () => {
    const run = await withCanUseTool(async () => ({ behavior: 'deny', message: 'not this one' }));
    expect(run.error).toBeUndefined();
    expect(toolResults(run)[0]).toMatchObject({ is_error: true, content: 'not this one' });
    expect(resultOf(run)).toMatchObject({
      result: 'end: not this one',
      permission_denials: [
        { tool_name: 'mcp__calc__add', tool_use_id: 'toolu_script_1', tool_input: { a: 1, b: 1 } },
      ],
    });
  });

  test('canUseTool changes the arguments', async () => {
    const run = await withCanUseTool(async () => ({
      behavior: 'allow',
      updatedInput: { a: 30, b: 30 },
    }));
    expect(resultOf(run)).toMatchObject({ result: 'end: 60' });
  });

  test('a canUseTool that throws is a denial', async () => {
    const run = await withCanUseTool(async () => {
      throw new Error('callback exploded');
    });
    expect(toolResults(run)[0]).toMatchObject({
      is_error: true,
      content: expect.stringContaining('callback exploded'),
    });
    expect(resultOf(run)['permission_denials']).toHaveLength(1);
  });

  test('deny with interrupt ends the turn', async () => {
    const run = await withCanUseTool(async () => ({
      behavior: 'deny',
      message: 'stop',
      interrupt: true,
    }));
    expect(resultOf(run)).toMatchObject({
      subtype: 'error_during_execution',
      terminal_reason: 'aborted_tools',
      is_error: true,
    });
    expect(run.error?.message).toContain('returned an error result');
  });

  test('updatedPermissions: the second call needs no request', async () => {
    let asked = 0;
    const run = await withCanUseTool(
      async (_, input, { suggestions }) => {
        asked++;
        return { behavior: 'allow', updatedInput: input, updatedPermissions: suggestions };
      },
      [{ tools: [add(1, 1)] }, { tools: [add(2, 2)] }, { text: 'end: {{last}}' }],
    );
    expect(asked).toBe(1);
    expect(resultOf(run)).toMatchObject({ result: 'end: 4' });
  });

  test('without a permission handler, a tool without an allow rule is denied', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [add(1, 1)] }, { text: 'I was denied.' }]);
    const run = await readAll(
      sdk.query({ prompt: 'go', options: options(ws, model, { mcpServers: { calc: calc(sdk) } }) }),
    );
    expect(ofType(run, 'system', 'permission_denied')).toHaveLength(1);
    expect(toolResults(run)[0]).toMatchObject({ is_error: true });
    expect(resultOf(run)['permission_denials']).toHaveLength(1);
  });

  test('disallowedTools wins over allowedTools', async () => {
    const run = await withCanUseTool(
      async (_, input) => ({ behavior: 'allow', updatedInput: input }),
      undefined,
      {
        allowedTools: ['mcp__calc__*'],
        disallowedTools: ['mcp__calc__add'],
      },
    );
    expect(toolResults(run)[0]).toMatchObject({ is_error: true });
    expect(ofType(run, 'system', 'permission_denied')).toHaveLength(1);
  });

  test('bypassPermissions runs everything', async () => {
    const run = await withCanUseTool(undefined, undefined, {
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: true,
    });
    expect(resultOf(run)).toMatchObject({ result: 'end: 2' });
  });

  test('dontAsk denies calls without an allow rule', async () => {
    let asked = 0;
    const run = await withCanUseTool(
      async (_, input) => {
        asked++;
        return { behavior: 'allow', updatedInput: input };
      },
      undefined,
      { settings: { permissions: { defaultMode: 'dontAsk' } } },
    );
    expect(asked).toBe(0);
    expect(toolResults(run)[0]).toMatchObject({ is_error: true });
  });
});

scenarios('hooks', (sdk) => {
  const hooked = async (hooks: JsonObject, script: JsonObject[]) => {
    await using ws = await Workspace.open();
    const model = await ws.script(script);
    return await readAll(
      sdk.query({
        prompt: 'go',
        options: options(ws, model, {
          mcpServers: { calc: calc(sdk) },
          allowedTools: ['mcp__calc__*'],
          hooks,
        }),
      }),
    );
  };
  const one = (callback: (input: JsonObject) => unknown, more: JsonObject = {}): JsonObject[] => [
    { hooks: [async (input: JsonObject) => callback(input)], ...more },
  ];
  const script = [{ tools: [add(2, 3)] }, { text: 'end: {{last}}' }];

  test('PreToolUse changes the arguments', async () => {
    const run = await hooked(
      {
        PreToolUse: one(
          () => ({
            hookSpecificOutput: {
              hookEventName: 'PreToolUse',
              permissionDecision: 'allow',
              updatedInput: { a: 100, b: 1 },
            },
          }),
          { matcher: 'mcp__calc__add' },
        ),
      },
      script,
    );
    expect(resultOf(run)).toMatchObject({ result: 'end: 101' });
  });

  test('PreToolUse denies', async () => {
    const run = await hooked(
      {
        PreToolUse: one(() => ({
          hookSpecificOutput: {
            hookEventName: 'PreToolUse',
            permissionDecision: 'deny',
            permissionDecisionReason: 'no sums',
          },
        })),
      },
      script,
    );
    expect(toolResults(run)[0]).toMatchObject({
      is_error: true,
      content: expect.stringContaining('no sums'),
    });
    expect(resultOf(run)['permission_denials']).toHaveLength(1);
  });

  test('a PreToolUse hook that times out blocks the call', async () => {
    const run = await hooked(
      { PreToolUse: one(() => new Promise(() => {}), { timeout: 1 }) },
      script,
    );
    expect(toolResults(run)[0]).toMatchObject({
      is_error: true,
      content: expect.stringContaining('timed out'),
    });
  });

  test('a hook that throws is reported, and the call continues', async () => {
    const run = await hooked(
      {
        PreToolUse: one(() => {
          throw new Error('hook exploded');
        }),
      },
      script,
    );
    expect(ofType(run, 'system', 'informational')[0]).toMatchObject({
      tag: 'hook_callback_failed',
    });
    expect(resultOf(run)).toMatchObject({ result: 'end: 5' });
  });

  test('PostToolUse replaces the output', async () => {
    const run = await hooked(
      {
        PostToolUse: one(() => ({
          hookSpecificOutput: { hookEventName: 'PostToolUse', updatedToolOutput: 'replaced' },
        })),
      },
      script,
    );
    expect(resultOf(run)).toMatchObject({ result: 'end: replaced' });
  });

  test('hooks are called in the order of the turn', async () => {
    const order: unknown[] = [];
    const log = one(({ hook_event_name }) => {
      order.push(hook_event_name);
      return {};
    });
    const events = [
      'SessionStart',
      'UserPromptSubmit',
      'PreToolUse',
      'PostToolUse',
      'PostToolUseFailure',
      'PostToolBatch',
      'Stop',
    ];
    const run = await hooked(Object.fromEntries(events.map((event) => [event, log])), [
      { tools: [add(2, 3)] },
      { tools: [{ name: 'mcp__calc__add', input: { a: 'x' } }] },
      { text: 'done' },
    ]);
    expect(run.error).toBeUndefined();
    expect(order).toEqual([
      'SessionStart',
      'UserPromptSubmit',
      'PreToolUse',
      'PostToolUse',
      'PostToolBatch',
      'PreToolUse',
      'PostToolUseFailure',
      'PostToolBatch',
      'Stop',
    ]);
  });

  test('UserPromptSubmit adds context, and can block', async () => {
    const context = {
      hookSpecificOutput: {
        hookEventName: 'UserPromptSubmit',
        additionalContext: 'the secret is 42',
      },
    };
    const added = await hooked({ UserPromptSubmit: one(() => context) }, [
      { when: 'secret is 42', text: 'known' },
    ]);
    expect(resultOf(added)).toMatchObject({ result: 'known' });
    const blocked = await hooked(
      { UserPromptSubmit: one(() => ({ decision: 'block', reason: 'not today' })) },
      [],
    );
    expect(resultOf(blocked)).toMatchObject({ num_turns: 0, terminal_reason: 'hook_stopped' });
  });

  test('Stop can make the agent continue once', async () => {
    const active: unknown[] = [];
    const run = await hooked(
      {
        Stop: one(({ stop_hook_active }) => {
          active.push(stop_hook_active);
          return stop_hook_active ? {} : { decision: 'block', reason: 'once more' };
        }),
      },
      [{ text: 'first' }, { when: 'once more', text: 'second' }],
    );
    expect(active).toEqual([false, true]);
    expect(blocks(run, 'assistant').map(({ text }) => text)).toEqual(['first', 'second']);
    expect(resultOf(run)).toMatchObject({ result: 'second', num_turns: 2 });
  });

  test('continue false ends the turn', async () => {
    const run = await hooked(
      { PostToolUse: one(() => ({ continue: false, stopReason: 'enough' })) },
      script,
    );
    expect(resultOf(run)).toMatchObject({ subtype: 'success', terminal_reason: 'hook_stopped' });
  });
});

scenarios('runtime control', (sdk) => {
  /** Runs `work` between two turns of a session. */
  const between = async (
    work: (query: Query, ws: Workspace) => Promise<void>,
    more: JsonObject = {},
  ) => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { when: 'one', text: 'first' },
      { repeat: true, text: 'second' },
    ]);
    const prompts = new Prompts();
    prompts.send('one');
    const query = sdk.query({ prompt: prompts, options: options(ws, model, more) });
    let turns = 0;
    let failure: unknown;
    const run = await readAll(query, ({ type }) => {
      if (type !== 'result') return;
      if (++turns === 2) prompts.end();
      else {
        void work(query, ws)
          .catch((error: unknown) => (failure = error))
          .finally(() => prompts.send('two'));
      }
    });
    if (failure) throw failure;
    expect(run.error).toBeUndefined();
    return run;
  };

  test('setPermissionMode changes and reports the mode; an invalid one is refused', async () => {
    const run = await between(async (query) => {
      await query.setPermissionMode('acceptEdits');
      await expect(query.setPermissionMode('bogus')).rejects.toThrow('Cannot set permission mode');
    });
    expect(ofType(run, 'system', 'status').at(-1)).toMatchObject({ permissionMode: 'acceptEdits' });
    expect(ofType(run, 'system', 'init').at(-1)).toMatchObject({ permissionMode: 'acceptEdits' });
  });

  test('setModel changes the model of the next turn', async () => {
    const run = await between(async (query, ws) =>
      query.setModel(await ws.script([{ text: 'from the other model' }])),
    );
    expect(resultOf(run)).toMatchObject({ result: 'from the other model' });
  });

  test('mcpServerStatus, toggle and reconnect', async () => {
    const states: unknown[] = [];
    const note = async (query: Query): Promise<void> => {
      const [status] = await query.mcpServerStatus();
      states.push([
        status?.['status'],
        (status?.['tools'] as JsonObject[] | undefined)?.map(({ name }) => name),
      ]);
    };
    const run = await between(
      async (query) => {
        await note(query);
        await query.toggleMcpServer('calc', false);
        await note(query);
        await query.toggleMcpServer('calc', true);
        await note(query);
        await expect(query.reconnectMcpServer('ghost')).rejects.toThrow('Server not found: ghost');
      },
      { mcpServers: { calc: calc(sdk) } },
    );
    expect(states).toEqual([
      ['connected', ['add']],
      ['disabled', undefined],
      ['connected', ['add']],
    ]);
    expect(ofType(run, 'system', 'init').at(-1)).toMatchObject({ tools: ['mcp__calc__add'] });
  });

  test('setMcpServers replaces the servers inside the host', async () => {
    let answer: JsonObject = {};
    const run = await between(
      async (query) => {
        answer = await query.setMcpServers({
          late: server(sdk, 'late', 'ping', {}, async () => said('pong')),
        });
      },
      { mcpServers: { calc: calc(sdk) } },
    );
    expect(answer).toMatchObject({ added: ['late'], removed: ['calc'], errors: {} });
    expect(ofType(run, 'system', 'init').at(-1)).toMatchObject({ tools: ['mcp__late__ping'] });
  });

  test('the information requests of the SDK are answered', async () => {
    await between(async (query) => {
      expect(await query.supportedModels()).toHaveLength(1);
      expect(await query.supportedCommands()).toEqual([]);
      expect(await query.accountInfo()).toMatchObject({ apiKeySource: 'none' });
      expect((await query.getContextUsage())['totalTokens']).toBeGreaterThan(0);
      expect(await query.initializationResult()).toMatchObject({
        current_permission_mode: 'default',
      });
      await query.setMaxThinkingTokens(1000);
      await query.applyFlagSettings({ effortLevel: 'low' });
      await query.stopTask('nothing');
    });
  });
});
