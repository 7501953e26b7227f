import { statSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { spawnProcess } from '../../src/process/index.ts';
import { noWindows, testIf, verifies } from '../verifies.ts';
import { AGENT, RawHost, requestOf, STREAM_FLAGS, Workspace } from './workspace.ts';

const SESSION = '6f1c3f0e-51a0-4c76-9b3e-2f4a8f3c9d10';

/** Runs the command by hand: what it prints, what it says on stderr, how it ends. */
async function runCommand(
  ws: Workspace,
  args: readonly string[],
  env: Record<string, string> = {},
  input?: string,
) {
  const transport = spawnProcess({
    command: process.execPath,
    args: [AGENT, ...args],
    cwd: ws.cwd,
    env: { ...ws.env, ...env },
  });
  if (input !== undefined) transport.write(input);
  transport.endInput();
  let out = '';
  for await (const chunk of transport.output) out += Buffer.from(chunk).toString('utf8');
  const { code, stderr } = await transport.exited;
  return { out, code, stderr };
}

test('initialize and a prompt in one write: the response to initialize comes first', async () => {
  await using ws = await Workspace.open({ CLAUDE_CODE_SDK_READS_SESSION_STATE: '1' });
  await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'hi' }])]);
  host.send(
    {
      type: 'control_request',
      request_id: '1',
      request: { subtype: 'initialize', systemPrompt: [''] },
    },
    { type: 'user', message: { role: 'user', content: 'hello' } },
    { type: 'keep_alive' },
    { type: 'something_new' },
  );
  await host.result();
  expect(await host.end()).toBe(0);
  expect(host.noise).toEqual([]);
  expect(host.types()).toEqual([
    'control_response',
    'system/session_state_changed',
    'system/init',
    'assistant',
    'result/success',
    'system/session_state_changed',
  ]);
  expect(host.seen.at(-1)).toMatchObject({ state: 'idle', sdk_host_only: true });
});

test('a prompt without initialize works, and end of input without a prompt exits with 0', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([{ text: 'hi' }]);
  await using host = new RawHost(ws, ['--model', model]);
  host.prompt('hello');
  expect(await host.end()).toBe(0);
  expect(host.types()).toContain('result/success');
  await using idle = new RawHost(ws, ['--model', model]);
  expect(await idle.end()).toBe(0);
  expect(idle.seen).toEqual([]);
});

test.each([
  ['a line that is not JSON', 'nonsense\n', 'not JSON'],
  [
    'a control request without a request',
    '{"type":"control_request","request_id":"1"}\n',
    'without a request',
  ],
  [
    'a user line of another role',
    '{"type":"user","message":{"role":"assistant","content":"x"}}\n',
    'user line',
  ],
])('%s ends the process with exit code 1 and an error on stderr', async (_, line, text) => {
  await using ws = await Workspace.open();
  const { code, out, stderr } = await runCommand(
    ws,
    [...STREAM_FLAGS, '--model', await ws.script([])],
    {},
    line,
  );
  expect({ code, out }).toEqual({ code: 1, out: '' });
  expect(stderr).toContain(text);
});

test.each([
  [['--max-turns', 'many'], 'invalid --max-turns "many": expected a whole number'],
  [['--permission-mode=bogus'], 'invalid --permission-mode "bogus": expected default'],
  [['--json-schema', '{'], 'invalid --json-schema "{": expected a JSON object'],
  [['--mcp-config', '{"mcpServers":'], 'invalid --mcp-config: expected a JSON object'],
  [['--settings', '{}', '--mcp-config', '{bad'], 'invalid --mcp-config: expected a JSON object'],
  [['--output-format', 'stream-json'], 'must be given together with --verbose'],
  [['--model', 'script:./missing.json'], 'cannot read script'],
  [['--model', 'script:[{"text":}]'], 'cannot read inline script'],
  [['--model', 'claude-sonnet-5'], 'unknown model "claude-sonnet-5"'],
])('an invalid value ends the process with exit code 1: %j', async (args, text) => {
  await using ws = await Workspace.open();
  const model = args.includes('--model') ? [] : ['--model', await ws.script([])];
  const { code, out, stderr } = await runCommand(ws, ['-p', 'hi', ...model, ...args]);
  expect({ code, out }).toEqual({ code: 1, out: '' });
  expect(stderr).toContain(text);
  expect(stderr).not.toMatch(/^\s+at /m);
});

test('-p prints the text of the model, or the result as JSON', async () => {
  await using ws = await Workspace.open();
  const answers = [{ thinking: 'hm', text: 'Plain words.' }];
  const plain = await runCommand(ws, [
    '-p',
    'question',
    '--model',
    await ws.script(answers),
    '--no-such-flag',
  ]);
  expect(plain).toMatchObject({ out: 'Plain words.\n', code: 0 });
  expect(plain.stderr).toContain('--no-such-flag');
  const json = await runCommand(
    ws,
    ['-p', '--output-format=json', `--model=${await ws.script(answers)}`],
    {},
    'from stdin',
  );
  expect(JSON.parse(json.out)).toMatchObject({ type: 'result', result: 'Plain words.' });
  const env = { DUOLANE_MODEL: await ws.script([{ error: { status: 401, message: 'no key' } }]) };
  expect(await runCommand(ws, ['-p', 'x'], env)).toMatchObject({
    out: 'API Error: 401 no key\n',
    code: 1,
  });
});

const call = { tools: [{ name: 'mcp__calc__add', input: { a: 1 } }] };

verifies(
  'S80',
  'a tool of the host without an allow rule is denied, even if it is marked as read-only',
  async () => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([call, { text: 'denied' }])]);
    let calls = 0;
    host.serve([{ name: 'add', annotations: { readOnlyHint: true } }], () => `${++calls}`);
    host.prompt('go');
    expect(await host.type('system', 'permission_denied')).toMatchObject({
      tool_name: 'mcp__calc__add',
    });
    expect(await host.result()).toMatchObject({
      result: 'denied',
      permission_denials: [{ tool_name: 'mcp__calc__add' }],
    });
    expect(calls).toBe(0);
  },
);

verifies(
  ['S65', 'S72', 'S76', 'S77'],
  'tools of a server are listed with a prefix, allowed by the name of their server, and called',
  async () => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, 'model.mjs');
    // A model that says what it was given, and calls each tool once.
    await writeFile(
      file,
      `export default ({ messages, tools }) => {
       const results = messages.flatMap(({ content }) => content).filter(({ type }) => type === 'tool_result');
       if (results.length > 0) return JSON.stringify(results.map(({ content }) => content[0].text));
       return { tools: tools.map(({ name }) => ({ name })) };
     };`,
    );
    await using host = new RawHost(ws, [
      '--model',
      `module:${file}`,
      '--allowedTools=mcp__calc__*',
    ]);
    const called: unknown[] = [];
    host.serve([{ name: 'add' }, { name: 'sub' }], ({ name }) => {
      called.push(name);
      return `${String(name as string)} done`;
    });
    host.prompt('go');
    expect(await host.type('system', 'init')).toMatchObject({
      tools: ['mcp__calc__add', 'mcp__calc__sub'],
    });
    expect(await host.result()).toMatchObject({
      result: '["add done","sub done"]',
      permission_denials: [],
    });
    expect(called).toEqual(['add', 'sub']);
    const shown = host.seen.flatMap(({ type, message }) =>
      type === 'assistant' ? (message as { content: JsonObject[] }).content : [],
    );
    expect(shown.map(({ name }) => name).filter(Boolean)).toEqual([
      'mcp__calc__add',
      'mcp__calc__sub',
    ]);
  },
);

verifies('S215', 'with a limit of four turns the model is called at most four times', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, call, call, call, { text: 'the fifth' }]);
  await using host = new RawHost(ws, [
    '--model',
    model,
    '--allowedTools',
    'mcp__calc__*',
    '--max-turns',
    '4',
  ]);
  let calls = 0;
  host.serve([{ name: 'add' }], () => `${++calls}`);
  host.prompt('go');
  expect(await host.result()).toMatchObject({
    subtype: 'error_max_turns',
    is_error: true,
    num_turns: 5,
  });
  expect(calls).toBe(4);
  expect(JSON.stringify(host.seen)).not.toContain('the fifth');
  expect(await host.end()).toBe(1);
});

test('an unknown control request is refused, and the session continues', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'hi' }])]);
  host.request('1', 'remote_control');
  expect(await host.answered('1')).toMatchObject({
    subtype: 'error',
    error_code: 'unsupported_request',
  });
  host.prompt('hello');
  expect(await host.result()).toMatchObject({ result: 'hi' });
});

test('an interrupt is acknowledged before anything that it causes', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([{ text: 'a b c d e f g h', delayMs: 200 }]);
  await using host = new RawHost(ws, ['--model', model, '--include-partial-messages']);
  host.prompt('one', { uuid: 'u1' });
  await host.next(
    (frame) => (frame['event'] as JsonObject | undefined)?.['type'] === 'content_block_delta',
  );
  host.prompt('two', { uuid: 'u2' });
  host.request('i', 'interrupt', { cancel_queued: true });
  expect(await host.answered('i')).toMatchObject({
    response: { still_queued: [], cancelled: ['u2'] },
  });
  const receipt = host.seen.findIndex(({ type }) => type === 'control_response');
  const aborted = await host.type('assistant');
  expect(aborted).toMatchObject({ aborted: true });
  expect(host.seen.indexOf(aborted)).toBeGreaterThan(receipt);
  expect(await host.type('user')).toMatchObject({
    message: { content: [{ text: '[Request interrupted by user]' }] },
  });
  expect(await host.result()).toMatchObject({
    subtype: 'error_during_execution',
    num_turns: 2,
    user_message_uuids: ['u1'],
  });
  expect(await host.end()).toBe(1);
});

test('end of input during a call of the host ends the turn, and the call is repeated on resume', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, { text: 'never' }]);
  const flags = ['--model', model, '--allowedTools', 'mcp__calc__*', '--session-id', SESSION];
  await using host = new RawHost(ws, flags);
  host.serve([{ name: 'add' }], () => {
    host.transport.endInput();
    return undefined;
  });
  host.prompt('go');
  const errors = [expect.stringContaining('resume the session to continue')];
  expect(await host.result()).toMatchObject({ subtype: 'error_during_execution', errors });
  expect(await host.end()).toBe(1);
  expect(JSON.stringify(host.seen)).not.toContain('tool_result');

  const rest = await ws.script([{ text: 'end: {{last}}' }]);
  const again = ['--model', rest, '--allowedTools', 'mcp__calc__*', '--resume', SESSION];
  await using next = new RawHost(ws, again);
  next.serve([{ name: 'add' }], () => 'five');
  next.prompt('go on');
  expect(await next.type('user')).toMatchObject({
    message: { content: [{ type: 'tool_result', content: [{ text: 'five' }] }] },
  });
  expect(await next.result()).toMatchObject({ subtype: 'success' });
});

test('an interrupt during a call cancels it at the server, is acknowledged, and ends the turn', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, [
    '--model',
    await ws.script([call]),
    '--allowedTools',
    'mcp__calc__*',
  ]);
  host.serve([{ name: 'add' }], () => {
    host.request('i', 'interrupt');
    return undefined;
  });
  host.prompt('go');
  await host.answered('i');
  expect(await host.type('user')).toMatchObject({
    message: { content: [{ type: 'tool_result', is_error: true }] },
  });
  expect(await host.result()).toMatchObject({ terminal_reason: 'aborted_tools', num_turns: 3 });
  expect(await host.end()).toBe(1);
  const methods = host.seen.map(
    (frame) => (requestOf(frame)['message'] as JsonObject | undefined)?.['method'],
  );
  expect(methods).toContain('notifications/cancelled');
});

test('a call of a message that is retried is not made', async () => {
  await using ws = await Workspace.open({ DUOLANE_RETRY_BASE_MS: '1' });
  const model = await ws.script([{ ...call, cut: true }, { text: 'without it' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowedTools', 'mcp__calc__*']);
  let calls = 0;
  host.serve([{ name: 'add' }], () => `${++calls}`);
  host.prompt('go');
  const retry = await host.type('system', 'api_retry');
  const before = host.seen.slice(0, host.seen.indexOf(retry));
  const voided = before.filter(({ type }) => type === 'assistant').map(({ uuid }) => uuid);
  expect(retry).toMatchObject({ discard: true, discarded_uuids: voided });
  expect(await host.result()).toMatchObject({ result: 'without it', num_turns: 1 });
  expect(calls).toBe(0);
});

test('a call that has started makes its message final, even if the connection is lost', async () => {
  await using ws = await Workspace.open({ DUOLANE_RETRY_BASE_MS: '1' });
  const model = await ws.script([{ ...call, cut: true }, { text: 'end: {{last}}' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowedTools', 'mcp__calc__*']);
  host.serve([{ name: 'add', annotations: { readOnlyHint: true } }], () => 'made');
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'end: made' });
  expect(host.types()).not.toContain('system/api_retry');
});

test('end_session calls SessionEnd hooks and exits with 0; initialize may be repeated', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([])]);
  const hooks = { SessionEnd: [{ hookCallbackIds: ['bye'] }] };
  for (const id of ['1', '2']) {
    host.request(id, 'initialize', { hooks });
    expect(await host.answered(id)).toMatchObject({
      subtype: 'success',
      response: { hooks_applied: 1 },
    });
  }
  host.respond('hook_callback', () => ({}));
  host.request('e', 'end_session');
  expect(await host.answered('e')).toMatchObject({ subtype: 'success' });
  expect(requestOf(await host.asked('hook_callback'))).toMatchObject({ callback_id: 'bye' });
  expect((await host.transport.exited).code).toBe(0);
});

test('SIGTERM: the SessionEnd hook is called and answered before the exit', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([])]);
  host.request('1', 'initialize', { hooks: { SessionEnd: [{ hookCallbackIds: ['bye'] }] } });
  await host.answered('1');
  let answered = false;
  host.respond('hook_callback', () => {
    answered = true;
    return {};
  });
  process.kill(host.transport.pid as number, 'SIGTERM');
  expect(requestOf(await host.asked('hook_callback'))).toMatchObject({
    callback_id: 'bye',
    input: { hook_event_name: 'SessionEnd' },
  });
  expect(await host.transport.exited).toMatchObject({ code: 143 });
  expect(answered).toBe(true);
});

test('requests about features that this CLI does not have get an empty response', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([])]);
  const hooks = { Stop: [{ hookCallbackIds: ['a', 'b'] }], PreToolUse: [{ matcher: 'Bash' }] };
  host.serve([{ name: 'add' }], () => 'ok');
  host.request('h', 'initialize', { hooks });
  await host.answered('h');
  const ask = async (subtype: string, fields: JsonObject = {}): Promise<JsonObject> => {
    host.request(subtype, subtype, fields);
    return host.answered(subtype);
  };
  expect(await ask('get_hooks_listing')).toMatchObject({
    response: {
      events: ['Stop', 'PreToolUse'],
      hooks: [
        { event: 'Stop', matcher: '', callbacks: 2 },
        { event: 'PreToolUse', matcher: 'Bash', callbacks: 0 },
      ],
    },
  });
  expect(await ask('reload_skills')).toMatchObject({ response: { skills: [] } });
  expect(await ask('reload_plugins')).toMatchObject({ response: { plugins: [] } });
  expect(await ask('reload_output_styles')).toMatchObject({
    response: { output_styles: ['default'] },
  });
  for (const [serverName, mode, answer] of [
    ['calc', 'default', { subtype: 'success' }],
    ['calc', 'auto', { response: { warning: expect.stringContaining('not supported') } }],
    ['ghost', 'default', { subtype: 'error', error: 'Server not found: ghost' }],
  ] as const)
    expect(await ask('set_mcp_permission_mode_override', { serverName, mode })).toMatchObject(
      answer,
    );
  expect(await ask('claim_session')).toMatchObject({ error_code: 'unsupported_request' });
});

test('new tools of a server are available in the next model call', async () => {
  await using ws = await Workspace.open();
  const late = { tools: [{ name: 'mcp__calc__late' }] };
  const model = await ws.script([call, late, { text: 'end: {{last}}' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowedTools', 'mcp__calc__*']);
  const tools = [{ name: 'add' }];
  host.serve(tools, ({ name }) => {
    if (name === 'late') return 'found';
    tools.push({ name: 'late' });
    const message = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
    host.request('m', 'mcp_message', { server_name: 'calc', message });
    return 'added';
  });
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'end: found' });
});

test('SIGTERM while the model streams: an error result, exit code 143', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, [
    '--model',
    await ws.script([{ text: 'a b c d e f', delayMs: 500 }]),
  ]);
  host.prompt('go');
  await host.type('system', 'init');
  process.kill(host.transport.pid ?? 0, 'SIGTERM');
  expect(await host.result()).toMatchObject({
    is_error: true,
    errors: [expect.stringContaining('SIGTERM')],
  });
  expect((await host.transport.exited).code).toBe(143);
});

test('SIGTERM ends the agent even if its host does not read', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([{ text: 'x'.repeat(20_000_000), chunks: 4 }]);
  const args = [AGENT, ...STREAM_FLAGS, '--include-partial-messages', '--model', model];
  const child = spawn(process.execPath, args, {
    cwd: ws.cwd,
    env: ws.env,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  child.stdin.write('{"type":"user","message":{"role":"user","content":"go"}}\n');
  await once(child.stdout, 'readable'); // and never read: the pipe fills up
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([143, null]);
});

test('a host that stops reading stdout ends the agent', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([{ text: 'word '.repeat(2000), delayMs: 1 }]);
  const command = `"${process.execPath}" "${AGENT}" -p go --model ${model} | head -c 10; exit "\${PIPESTATUS[0]}"`;
  const transport = spawnProcess({
    command: 'bash',
    args: ['-c', command],
    cwd: ws.cwd,
    env: ws.env,
  });
  for await (const _ of transport.output);
  expect(await transport.exited).toMatchObject({ code: 1, stderr: '' });
});

test('a full disk: an error result, exit code 1', async () => {
  await using ws = await Workspace.open();
  const id = '77777777-7777-4777-8777-777777777777';
  const folder = join(ws.config, 'projects', ws.cwd.replace(/[^A-Za-z0-9]/g, '-'));
  await mkdir(folder, { recursive: true });
  await symlink('/dev/full', join(folder, `${id}.jsonl`));
  await using host = new RawHost(ws, [
    '--model',
    await ws.script([{ text: 'hi' }]),
    '--session-id',
    id,
  ]);
  host.prompt('go');
  expect(await host.result()).toMatchObject({
    is_error: true,
    errors: [expect.stringContaining('ENOSPC')],
  });
  expect(await host.end()).toBe(1);
});

test('an unavailable MCP server fails with an error, and the session continues', async () => {
  await using ws = await Workspace.open();
  const mcpServers = {
    dead: { command: process.execPath, args: ['-e', 'process.exit(3)'] },
    missing: { command: 'no-such-command' },
    web: { type: 'http', url: 'http://127.0.0.1:9/mcp' },
  };
  await using host = new RawHost(ws, [
    '--model',
    await ws.script([{ text: 'hi' }]),
    '--mcp-config',
    JSON.stringify({ mcpServers }),
  ]);
  host.prompt('go');
  const init = await host.type('system', 'init');
  expect(init['mcp_servers']).toEqual(
    ['dead', 'missing', 'web'].map((name) => ({ name, status: 'failed', source: 'flag' })),
  );
  expect(await host.result()).toMatchObject({ result: 'hi' });
  host.request('s', 'mcp_status');
  const { mcpServers: failed } = (await host.answered('s'))['response'] as {
    mcpServers: JsonObject[];
  };
  for (const { error } of failed) expect(error).toBeTypeOf('string');
});

test('a call that was open when the process was killed is repeated under its id', async () => {
  await using ws = await Workspace.open();
  const flags = ['--allowedTools', 'mcp__calc__*', '--model'];
  const ids: unknown[] = [];
  const open = async (
    more: string[],
    answers: JsonObject[],
    text: string | undefined,
  ): Promise<RawHost> => {
    const host = new RawHost(ws, [...flags, await ws.script(answers), ...more]);
    host.serve([{ name: 'add' }], ({ _meta: meta }) => {
      ids.push((meta as JsonObject)['claudecode/toolUseId']);
      return text;
    });
    return host;
  };
  await using first = await open([], [call], undefined);
  first.prompt('go');
  const { session_id: id } = await first.type('assistant');
  await first.next(
    (frame) => (requestOf(frame)['message'] as JsonObject | undefined)?.['method'] === 'tools/call',
  );
  process.kill(first.transport.pid ?? 0, 'SIGKILL');
  await first.transport.exited;
  await using second = await open(
    ['--resume', String(id)],
    [{ text: 'end: {{last}}' }],
    'approved',
  );
  second.prompt('go on');
  expect(await second.type('user')).toMatchObject({
    message: { content: [{ tool_use_id: ids[0], content: [{ text: 'approved' }] }] },
  });
  expect(await second.result()).toMatchObject({
    result: expect.stringContaining('approved'),
    session_id: id,
  });
  expect(ids).toEqual(['toolu_script_1', 'toolu_script_1']);
});

test('a call whose result the host sends itself is not repeated', async () => {
  await using ws = await Workspace.open();
  const flags = ['--allowedTools', 'mcp__calc__*', '--model'];
  await using first = new RawHost(ws, [...flags, await ws.script([call])]);
  first.serve([{ name: 'add' }], () => undefined);
  first.prompt('go');
  const { session_id: id } = await first.type('assistant');
  await first.next(
    (frame) => (requestOf(frame)['message'] as JsonObject | undefined)?.['method'] === 'tools/call',
  );
  process.kill(first.transport.pid ?? 0, 'SIGKILL');
  await first.transport.exited;
  await using second = new RawHost(ws, [
    ...flags,
    await ws.script([{ text: 'end: {{last}}' }]),
    '--resume',
    String(id),
  ]);
  second.prompt([
    { type: 'tool_result', tool_use_id: 'toolu_script_1', content: 'done by the host' },
  ]);
  expect(await second.result()).toMatchObject({ result: 'end: done by the host' });
});

test('an incomplete line at the end of a transcript is skipped on resume', async () => {
  await using ws = await Workspace.open();
  const first = await runCommand(ws, [
    '-p',
    'remember blue',
    '--output-format',
    'json',
    '--model',
    await ws.script([{ text: 'noted' }]),
  ]);
  const id = String((JSON.parse(first.out) as JsonObject)['session_id']);
  const file = join(ws.config, 'projects', ws.cwd.replace(/[^A-Za-z0-9]/g, '-'), `${id}.jsonl`);
  await writeFile(file, (await readFile(file, 'utf8')) + '{"type":"assistant","uu');
  const again = ['-p', 'and?', '--resume', id, '--model', await ws.script([{ text: 'here' }])];
  expect(await runCommand(ws, again)).toMatchObject({ out: 'here\n', code: 0 });
  const lines = (await readFile(file, 'utf8')).trim().split('\n');
  expect(lines.filter((line) => line.startsWith('{') && line.endsWith('}'))).toHaveLength(4);
});

test('a request with a numeric id is answered under that number', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([])]);
  host.send({ type: 'control_request', request_id: 12, request: { subtype: 'get_settings' } });
  const frame = await host.type('control_response');
  expect(frame['response']).toMatchObject({ request_id: 12, subtype: 'success' });
});

testIf(noWindows, 'the built command can be started by its path', () => {
  expect(statSync(AGENT).mode & 0o111).toBe(0o111);
});

test('a message has one uuid on the message lane and in the transcript', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([{ text: 'hello' }]);
  await using host = new RawHost(ws, [
    '--model',
    model,
    '--replay-user-messages',
    '--session-mirror',
  ]);
  host.prompt('go'); // without a uuid, so that the CLI creates one
  await host.result();
  const mirrored = host.seen
    .filter(({ type }) => type === 'transcript_mirror')
    .flatMap(({ entries }) => entries as JsonObject[]);
  const sent = host.seen.filter(({ type }) => type === 'user' || type === 'assistant');
  expect(sent.map(({ type }) => type)).toEqual(['user', 'assistant']);
  expect(mirrored.map(({ uuid }) => uuid)).toEqual(sent.map(({ uuid }) => uuid));
});
