import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { collect, FakeCli, playedSession } from '../../../test/support/fake-cli.ts';
import type { JsonObject } from '../../json.ts';
import { openSession } from '../index.ts';
import { KINDS } from './option-kinds.ts';
import type {
  Launch,
  OnUserDialog,
  QueryOptions,
  SessionOptions,
  SystemPrompt,
} from './options.ts';

/** What a CLI gets for an option: arguments, variables, or fields of `initialize`. */
interface Effect {
  readonly value: unknown;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly initialize?: JsonObject;
  /** Other options that it needs. */
  readonly with?: SessionOptions;
}

const flag = (value: unknown, ...args: string[]): Effect => ({ value, args });
const field = (value: unknown, initialize: JsonObject): Effect => ({ value, initialize });
const yes = (): never => {
  throw new Error('not called');
};
const url = 'http://127.0.0.1:9/mcp';
const ID = '00000000-0000-4000-8000-000000000000';

/** Options that take effect in the CLI: each must reach it in the form of the official SDK. */
const TOLD: Partial<Record<keyof QueryOptions, Effect>> = {
  additionalDirectories: flag(['/a', '/b'], '--add-dir=/a', '--add-dir=/b'),
  agent: flag('x', '--agent=x'),
  agentProgressSummaries: field(true, { agentProgressSummaries: true }),
  agents: field(
    { a: { description: 'd', prompt: 'p' } },
    { agents: { a: { description: 'd', prompt: 'p' } } },
  ),
  allowDangerouslySkipPermissions: flag(true, '--allow-dangerously-skip-permissions'),
  allowedTools: flag(['A', 'B'], '--allowedTools=A,B'),
  ask: flag(yes, '--permission-prompt-tool=stdio'),
  betas: flag(['b'], '--betas=b'),
  canUseTool: flag(yes, '--permission-prompt-tool=stdio'),
  continue: flag(true, '--continue'),
  debug: flag(true, '--debug'),
  debugFile: flag('/x', '--debug-file=/x'),
  disallowedTools: flag(['A'], '--disallowedTools=A'),
  effort: flag('low', '--effort=low'),
  enableFileCheckpointing: {
    value: true,
    env: { CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: 'true' },
  },
  env: { value: { A: 'b' }, env: { A: 'b' } },
  extraArgs: flag({ x: 'y', z: null }, '--x', 'y', '--z'),
  fallbackModel: flag('f', '--fallback-model=f'),
  forkSession: flag(true, '--fork-session'),
  forwardSubagentText: field(true, { forwardSubagentText: true }),
  hooks: field(
    { Stop: [{ hooks: [yes], timeout: 3, onFailure: 'block' }] },
    { hooks: { Stop: [{ hookCallbackIds: ['hook_0'], timeout: 3, onFailure: 'block' }] } },
  ),
  includeHookEvents: flag(true, '--include-hook-events'),
  includePartialMessages: flag(true, '--include-partial-messages'),
  inheritEnv: { value: false, env: { CLAUDE_CODE_ENTRYPOINT: 'sdk-ts' }, with: { env: {} } },
  managedSettings: flag({ a: 1 }, '--managed-settings', '{"a":1}'),
  maxBudgetUsd: flag(2, '--max-budget-usd=2'),
  maxThinkingTokens: flag(7, '--max-thinking-tokens=7'),
  maxTurns: flag(3, '--max-turns=3'),
  mcpServers: flag(
    { s: { type: 'http', url } },
    '--mcp-config',
    JSON.stringify({ mcpServers: { s: { type: 'http', url } } }),
  ),
  model: flag('m', '--model=m'),
  outputFormat: field(
    { type: 'json_schema', schema: { type: 'object' } },
    { jsonSchema: { type: 'object' } },
  ),
  permissionMode: flag('plan', '--permission-mode=plan'),
  permissionPromptToolName: flag('stdio', '--permission-prompt-tool=stdio'),
  permissionPrompts: flag('none', '--permission-prompts=none'),
  perTaskStopAffordance: field(true, { perTaskStopAffordance: true }),
  persistSession: flag(false, '--no-session-persistence'),
  planModeInstructions: field('p', { planModeInstructions: 'p' }),
  pluginDelivery: {
    value: 'initialize',
    args: ['--await-initialize'],
    initialize: { plugins: [{ type: 'local', path: '/p' }] },
    with: { plugins: [{ type: 'local', path: '/p' }] },
  },
  plugins: flag([{ type: 'local', path: '/p' }], '--plugin-dir=/p'),
  projectConfigRoot: flag('/r', '--project-config-root=/r'),
  promptSuggestions: field(true, { promptSuggestions: true }),
  resume: flag(ID, `--resume=${ID}`),
  resumeDropsTurn: flag('t', '--resume-drops-turn=t'),
  resumeSessionAt: flag('u', '--resume-session-at=u'),
  sandbox: flag(
    { enabled: true },
    '--settings',
    JSON.stringify({ sandbox: { enabled: true, failIfUnavailable: true } }),
  ),
  sessionId: flag(ID, `--session-id=${ID}`),
  sessionStore: flag({ append: yes, load: yes }, '--session-mirror'),
  settingSources: flag(['project'], '--setting-sources=project'),
  settings: flag({ a: 1 }, '--settings', '{"a":1}'),
  skills: field(['s'], { skills: ['s'] }),
  streamCloseTimeoutMs: { value: 5, env: { CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: '5' } },
  strictMcpConfig: flag(true, '--strict-mcp-config'),
  supportedDialogKinds: {
    value: ['x'],
    initialize: { supportedDialogKinds: ['x'] },
    with: { onUserDialog: () => ({ behavior: 'cancelled' }) },
  },
  systemPrompt: field('s', { systemPrompt: ['s'] }),
  taskBudget: flag({ total: 9 }, '--task-budget=9'),
  thinking: flag({ type: 'disabled' }, '--thinking=disabled'),
  title: field('t', { title: 't' }),
  toolConfig: {
    value: { askUserQuestion: { previewFormat: 'html' } },
    env: { CLAUDE_CODE_QUESTION_PREVIEW_FORMAT: 'html' },
  },
  toolAliases: field({ a: 'b' }, { toolAliases: { a: 'b' } }),
  tools: flag(['Read'], '--tools=Read'),
};

/** In force on our side of the pipe, with the test in this folder's parent that shows it. */
const OURS: Partial<Record<keyof QueryOptions, string>> = {
  abortController: 'session/agent-session.promises.test.ts',
  approvalEdits: 'callbacks/permission-handler.test.ts',
  cwd: 'options/options.effects.test.ts',
  diskBytes: 'options/options.effects.test.ts',
  executable: 'options/options.test.ts',
  executableArgs: 'options/options.test.ts',
  exitMs: '../../test/host/end-times.test.ts',
  graceMs: '../../test/host/end-times.test.ts',
  interruptMs: 'session/agent-session.test.ts',
  killMs: '../../test/host/end-times.test.ts',
  lanes: 'frames/frame-queue.test.ts',
  loadTimeoutMs: 'options/options.effects.test.ts',
  logger: 'session/agent-session.broken-seams.test.ts',
  maxLineBytes: 'options/options.effects.test.ts',
  memoryBytes: 'frames/frame-queue.test.ts',
  onElicitation: 'callbacks/mcp-bridge.test.ts',
  onFrame: 'frames/frame-queue.test.ts',
  onUserDialog: 'options/options.effects.test.ts',
  oneshot: 'frames/frame-queue.test.ts',
  pathToClaudeCodeExecutable: 'options/options.test.ts',
  readyMs: 'callbacks/mcp-bridge.test.ts',
  // Taken for programs that have it: entries go to the store as they come.
  sessionStoreFlush: 'options/options.effects.test.ts',
  spawnClaudeCodeProcess: 'query/query.test.ts',
  stall: 'options/options.effects.test.ts',
  stderr: 'query/query.bad-input.test.ts',
  trace: 'transcripts/transcript-files.test.ts',
  transport: 'session/agent-session.promises.test.ts',
  verbatimPrompts: 'options/options.effects.test.ts',
};

test('every option is in one of the two tables', () => {
  const named = [...Object.keys(TOLD), ...Object.keys(OURS)];
  expect(named.toSorted()).toEqual(Object.keys(KINDS).toSorted());
});

test.each(Object.entries(OURS))('the test of %s is in %s', (name, file) => {
  const source = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
  expect(source).toMatch(new RegExp(`\\b${name}\\b`));
});

test('onUserDialog answers request_user_dialog', async () => {
  const asked: unknown[] = [];
  const onUserDialog: OnUserDialog = (request, { requestId }) => {
    asked.push(request, requestId);
    return { behavior: 'completed', result: 'blue' };
  };
  const { cli, session } = await playedSession({ onUserDialog });
  await using _ = session;
  await cli.initialize();
  const payload = { shades: 3 };
  const id = cli.request({
    subtype: 'request_user_dialog',
    dialog_kind: 'color',
    payload,
    tool_use_id: 't1',
  });
  expect(await cli.answerTo(id)).toMatchObject({
    subtype: 'success',
    response: { behavior: 'completed', result: 'blue' },
  });
  expect(asked).toEqual([{ dialogKind: 'color', payload, toolUseID: 't1' }, id]);
});

test('kinds of dialogs without a callback that answers them are rejected', async () => {
  await expect(openSession({ supportedDialogKinds: ['x'] })).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('onUserDialog') as string,
  });
});

test('verbatimPrompts marks every message as composed by a program', async () => {
  const { cli, session } = await playedSession({ verbatimPrompts: true });
  await using _ = session;
  await session.send('/not-a-command');
  expect(await cli.until('user')).toMatchObject({ client_composed: true });
});

test('NODE_OPTIONS and DEBUG never reach the CLI, also if env has them', async () => {
  const { launch } = await started({ env: { A: 'b', NODE_OPTIONS: '--inspect', DEBUG: '*' } });
  expect(launch.env).toMatchObject({ A: 'b' });
  expect(launch.env).not.toHaveProperty('NODE_OPTIONS');
  expect(launch.env).not.toHaveProperty('DEBUG');
});

test('maxThinkingTokens: 0 disables thinking', async () => {
  const { launch } = await started({ maxThinkingTokens: 0 });
  expect(launch.args).toContain('--thinking=disabled');
});

test.each<[SessionOptions, string[]]>([
  [
    { plugins: [{ type: 'local', path: '/p', skipMcpDiscovery: true }] },
    ['--plugin-dir-no-mcp=/p'],
  ],
  [{ plugins: [{ type: 'local', path: '/p' }], pluginDelivery: 'argv' }, ['--plugin-dir=/p']],
  [{ pluginDelivery: 'initialize' }, []],
])('plugins on the command line: %j', async (options, expected) => {
  const { launch, initialize } = await started(options);
  expect(launch.args.filter((arg) => /plugin|await/.test(arg))).toEqual(expected);
  expect(initialize).not.toHaveProperty('plugins');
});

const PRESET = { type: 'preset', preset: 'claude_code' } as const;

test.each<[SystemPrompt, JsonObject]>([
  [PRESET, {}],
  [{ ...PRESET, append: 'a' }, { appendSystemPrompt: 'a' }],
  [{ ...PRESET, excludeDynamicSections: true }, { excludeDynamicSections: true }],
  [{ ...PRESET, snapshot: true }, { systemPromptSnapshot: true }],
  [{ type: 'custom', prompt: 'p' }, { systemPrompt: ['p'] }],
  [
    { type: 'custom', prompt: ['p', 'q'], snapshot: true },
    { systemPrompt: ['p', 'q'], systemPromptSnapshot: true },
  ],
])('systemPrompt %j', async (systemPrompt, expected) => {
  const { initialize } = await started({ systemPrompt });
  expect(initialize).toEqual({ subtype: 'initialize', ...expected });
});

test('loadTimeoutMs limits how long a store may take to load a session', async () => {
  const load = (): Promise<never> => new Promise(() => {});
  const sessionStore = { append: yes, load };
  const opened = openSession({ sessionStore, resume: ID, loadTimeoutMs: 5 });
  await expect(opened).rejects.toMatchObject({
    code: 'timeout',
    message: expect.stringContaining('5 ms') as string,
  });
});

test('cwd is where the CLI is started', async () => {
  const { launch } = await started({ cwd: '/srv/project' });
  expect(launch.cwd).toBe('/srv/project');
});

test('maxLineBytes limits a line of the CLI, also one that is a message', async () => {
  const { cli, session } = await playedSession({ maxLineBytes: 500 });
  await using _ = session;
  await session.send('go');
  cli.say(cli.assistant('x'.repeat(1000)), cli.result());
  const seen = await collect(session.response());
  expect(seen.map(({ subtype, type }) => subtype ?? type)).toEqual(['noise', 'success']);
});

test('stall reports a silent CLI and ends it', async () => {
  const { cli, session } = await playedSession({ stall: { afterMs: 20, failMs: 20 } });
  await using _ = session;
  await cli.initialize();
  await session.send('go');
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const { subtype } of session.messages()) seen.push(subtype);
  })();
  await expect(reading).rejects.toMatchObject({ code: 'timeout' });
  expect(seen).toContain('stalled');
});

test('diskBytes limits the disk space of unread messages', async () => {
  const { cli, session } = await playedSession({ memoryBytes: 1000, diskBytes: 50_000 });
  await using _ = session;
  await cli.initialize();
  for (let n = 0; n < 1000; n++) cli.say(cli.assistant('x'.repeat(1000)));
  await expect(collect(session.messages())).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringContaining('exceeds diskBytes (50000)') as string,
  });
});

/** What a CLI was started with, and its `initialize`. */
async function started(
  options: SessionOptions,
): Promise<{ readonly launch: Launch; readonly initialize: JsonObject }> {
  const cli = new FakeCli();
  void cli.ended.then(() => cli.peer.exit());
  let launch: Launch | undefined;
  await using _ = await openSession({
    ...options,
    transport: (given) => {
      launch = given;
      return cli.transport;
    },
  });
  const { request } = await cli.until('control_request', 'initialize');
  if (!launch) throw new Error('nothing was started');
  return { launch, initialize: request };
}

describe('the CLI gets', () => {
  test.each(Object.entries(TOLD))('%s', async (name, effect) => {
    const options = { ...effect.with, [name]: effect.value };
    if (name === 'sessionStore') options['sessionStore'] = { append: yes, load: yes };
    const { launch, initialize } = await started(options);
    const { args = [], env = {} } = effect;
    for (const arg of args) expect(launch.args).toContain(arg);
    expect(launch.env).toMatchObject(env);
    expect(initialize).toMatchObject(effect.initialize ?? {});
  });
});

test("skills: 'all' allows the Skill tool and declares no list, which a CLI would reject", async () => {
  const { launch, initialize } = await started({ skills: 'all' });
  expect(launch.args).toContain('--allowedTools=Skill');
  expect(initialize).not.toHaveProperty('skills');
});

test.each<[string, SessionOptions, JsonObject]>([
  [
    'is joined to that of the settings',
    { settings: { sandbox: { network: 1 }, a: 1 } },
    { network: 1 },
  ],
  [
    'has parts of the same name as that of the settings',
    {
      settings: { sandbox: { network: { a: 1, b: [1] } } },
      sandbox: { enabled: true, network: { b: [2] } },
    },
    { network: { a: 1, b: [2] } },
  ],
  [
    'says so itself',
    { sandbox: { enabled: true, failIfUnavailable: false } },
    { failIfUnavailable: false },
  ],
  [
    'leaves it to the settings',
    { settings: { sandbox: { failIfUnavailable: false } } },
    { failIfUnavailable: false },
  ],
])('a sandbox that %s', async (_, options, expected) => {
  const { launch } = await started({ sandbox: { enabled: true }, ...options });
  const settings = launch.args[launch.args.indexOf('--settings') + 1] ?? '';
  expect((JSON.parse(settings) as JsonObject)['sandbox']).toEqual({
    enabled: true,
    failIfUnavailable: true,
    ...expected,
  });
});
