import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { query } from '../../src/host/index.ts';
import { KINDS } from '../../src/host/options/option-kinds.ts';
import type { QueryOptions } from '../../src/host/options/options.ts';
import type { JsonObject } from '../../src/json.ts';
import { AGENT, RawHost, Workspace } from './workspace.ts';

type Name = keyof QueryOptions;

/** Asked for without effect here: the run goes on, and the message lane says so by these words. */
const ANNOUNCED: Partial<Record<Name, readonly [value: unknown, words: string]>> = {
  agent: ['x', '--agent'],
  agentProgressSummaries: [true, 'agentProgressSummaries'],
  agents: [{ a: { description: 'd', prompt: 'p' } }, 'agents'],
  betas: [['b'], '--betas'],
  debug: [true, '--debug'],
  debugFile: ['/tmp/x', '--debug-file'],
  enableFileCheckpointing: [true, 'enableFileCheckpointing'],
  forwardSubagentText: [true, 'forwardSubagentText'],
  includeHookEvents: [true, '--include-hook-events'],
  maxBudgetUsd: [2, '--max-budget-usd has no effect'],
  perTaskStopAffordance: [true, 'perTaskStopAffordance'],
  planModeInstructions: ['p', 'planModeInstructions'],
  plugins: [[{ type: 'local', path: '/p' }], '--plugin-dir'],
  projectConfigRoot: ['/r', '--project-config-root'],
  promptSuggestions: [true, 'promptSuggestions'],
  settingSources: [['project'], 'CLAUDE.md of the setting sources project'],
  skills: [['s'], 'skills'],
  supportedDialogKinds: [['x'], 'supportedDialogKinds'],
  taskBudget: [{ total: 9 }, '--task-budget'],
  title: ['t', 'title'],
  toolAliases: [{ a: 'b' }, 'toolAliases'],
  toolConfig: [{ askUserQuestion: { previewFormat: 'html' } }, 'toolConfig'],
};

/** Options that cannot be ignored, since the session would have another history: nothing runs. */
const REFUSED: Partial<Record<Name, readonly [value: unknown, words: string]>> = {
  resumeDropsTurn: ['t', '--resume-drops-turn'],
};

/** In force, with the test that shows it. */
const IN_FORCE: Partial<Record<Name, string>> = {
  additionalDirectories: 'test/agent-cli/tools.test.ts',
  approvalEdits: 'src/host/callbacks/permission-handler.test.ts',
  allowDangerouslySkipPermissions: 'src/agent-cli/command-line/flags.test.ts',
  allowedTools: 'test/agent-cli/notices.test.ts',
  ask: 'test/agent-cli/options.test.ts',
  canUseTool: 'test/agent-cli/scenarios-control.test.ts',
  continue: 'test/agent-cli/scenarios-ends.test.ts',
  disallowedTools: 'test/agent-cli/options.test.ts',
  effort: 'test/agent-cli/models.test.ts',
  env: 'src/host/options/options.effects.test.ts',
  extraArgs: 'src/host/options/options.effects.test.ts',
  fallbackModel: 'test/agent-cli/scenarios-ends.test.ts',
  forkSession: 'test/agent-cli/scenarios-ends.test.ts',
  hooks: 'test/agent-cli/blocking-hooks.test.ts',
  includePartialMessages: 'test/agent-cli/scenarios-turns.test.ts',
  inheritEnv: 'src/host/options/options.test.ts',
  managedSettings: 'test/agent-cli/options.test.ts',
  maxThinkingTokens: 'test/agent-cli/models.test.ts',
  maxTurns: 'test/agent-cli/scenarios-ends.test.ts',
  mcpServers: 'test/agent-cli/dialled.test.ts',
  model: 'test/agent-cli/raw.test.ts',
  onElicitation: 'test/agent-cli/scenarios-ends.test.ts',
  onUserDialog: 'src/host/options/options.effects.test.ts',
  outputFormat: 'test/agent-cli/scenarios-ends.test.ts',
  permissionMode: 'test/agent-cli/tools.test.ts',
  permissionPromptToolName: 'test/agent-cli/initialize.test.ts',
  permissionPrompts: 'test/agent-cli/options.test.ts',
  persistSession: 'test/agent-cli/scenarios-ends.test.ts',
  resume: 'test/agent-cli/scenarios-ends.test.ts',
  resumeSessionAt: 'test/agent-cli/scenarios-ends.test.ts',
  sandbox: 'test/agent-cli/sandbox.test.ts',
  sessionId: 'test/agent-cli/raw.test.ts',
  sessionStore: 'test/agent-cli/scenarios-ends.test.ts',
  settings: 'test/agent-cli/options.test.ts',
  streamCloseTimeoutMs: 'src/host/options/options.effects.test.ts',
  strictMcpConfig: 'src/agent-cli/command-line/flags.test.ts',
  systemPrompt: 'test/agent-cli/options.test.ts',
  thinking: 'test/agent-cli/models.test.ts',
  tools: 'test/agent-cli/tools.test.ts',
  verbatimPrompts: 'src/host/options/options.effects.test.ts',
};

/** Of the host alone; `src/host/options/options.effects.test.ts` names the test of each. */
const HOST: readonly Name[] = [
  'abortController',
  'cwd',
  'diskBytes',
  'executable',
  'executableArgs',
  'exitMs',
  'graceMs',
  'interruptMs',
  'killMs',
  'lanes',
  'loadTimeoutMs',
  'logger',
  'maxLineBytes',
  'memoryBytes',
  'onFrame',
  'oneshot',
  'pathToClaudeCodeExecutable',
  'pluginDelivery',
  'readyMs',
  'sessionStoreFlush',
  'spawnClaudeCodeProcess',
  'stall',
  'stderr',
  'trace',
  'transport',
];

/** Flags that are not written as their option is. */
const SPELLED: Partial<Record<Name, string>> = {
  additionalDirectories: 'add-dir',
  permissionPromptToolName: 'permission-prompt-tool',
};

test('every option has an effect, is refused or is announced', () => {
  const named = [ANNOUNCED, REFUSED, IN_FORCE].flatMap((table) => Object.keys(table));
  expect([...named, ...HOST].toSorted()).toEqual(Object.keys(KINDS).toSorted());
  for (const [name, file] of Object.entries(IN_FORCE)) {
    const source = readFileSync(join(import.meta.dirname, '../..', file), 'utf8');
    const kebab = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const flag = SPELLED[name as Name] ?? kebab;
    expect(source, `${file} names ${name}`).toMatch(new RegExp(`\\b(?:${name}|${flag})\\b`));
  }
});

interface Run {
  readonly messages: readonly JsonObject[];
  readonly error: string;
}

/** One run of our CLI under our host, read to its end. */
async function run(ws: Workspace, options: JsonObject, answers = [{ text: 'ran' }]): Promise<Run> {
  const messages: JsonObject[] = [];
  try {
    const all = {
      pathToClaudeCodeExecutable: AGENT,
      cwd: ws.cwd,
      env: ws.env,
      model: await ws.script(answers),
      ...options,
    };
    for await (const message of query({ prompt: 'go', options: all }))
      messages.push(message as unknown as JsonObject);
    return { messages, error: '' };
  } catch (error) {
    return { messages, error: String(error) };
  }
}

const said = ({ messages }: Run): string =>
  messages
    .filter(({ subtype, tag }) => subtype === 'informational' && tag === 'option_ignored')
    .map(({ content }) => String(content))
    .join('\n');
const hasRun = ({ messages }: Run): boolean => messages.some(({ type }) => type === 'assistant');

describe('is announced on the message lane:', () => {
  test.each(Object.entries(ANNOUNCED))('%s', async (name, [value, words]) => {
    await using ws = await Workspace.open();
    const onUserDialog = (): JsonObject => ({ behavior: 'cancelled' });
    const needed = name === 'supportedDialogKinds' ? { onUserDialog } : {};
    const result = await run(ws, { ...needed, [name]: value });
    expect(said(result)).toContain(words);
    expect(hasRun(result)).toBe(true);
  });

  test('without such an option nothing is announced', async () => {
    await using ws = await Workspace.open();
    expect(said(await run(ws, {}))).toBe('');
  });

  test('a hook on an event that this CLI never fires', async () => {
    await using ws = await Workspace.open();
    const result = await run(ws, { hooks: { PreCompact: [{ hooks: [() => ({})] }] } });
    expect(said(result)).toContain('PreCompact');
    expect(hasRun(result)).toBe(true);
  });
});

const hook = { PreToolUse: [{ hooks: [{ type: 'command', command: 'exit 2' }] }] };

describe('is refused, and nothing runs:', () => {
  test.each<[string, JsonObject, string]>([
    ...Object.entries(REFUSED).map(([name, [value, words]]): [string, JsonObject, string] => [
      name,
      { [name]: value },
      words,
    ]),
    ['a command hook in settings', { settings: { hooks: hook } }, 'hooks of --settings'],
    [
      'a command hook in managedSettings',
      { managedSettings: { hooks: hook } },
      'hooks of --managed',
    ],
    [
      'a rule about bypassing in managedSettings',
      { managedSettings: { permissions: { disableBypassPermissionsMode: 'disable' } } },
      'permissions.disableBypassPermissionsMode',
    ],
    [
      'a PermissionRequest hook',
      { hooks: { PermissionRequest: [{ hooks: [() => ({})] }] } },
      'PermissionRequest',
    ],
    [
      'deny rules that are no list',
      { settings: { permissions: { deny: 'Bash' } } },
      'invalid setting "permissions.deny"',
    ],
    [
      'permissions that are no object',
      { managedSettings: { permissions: ['Bash'] } },
      'invalid setting "permissions"',
    ],
    ['a rule that is not closed', { allowedTools: ['Bash(git *'] }, 'invalid permission rule'],
    ['a rule that is not closed', { disallowedTools: ['Read(a'] }, 'invalid permission rule'],
    ['an Elicitation hook', { hooks: { Elicitation: [{ hooks: [() => ({})] }] } }, 'Elicitation'],
  ])('%s', async (_, options, words) => {
    await using ws = await Workspace.open();
    const result = await run(ws, options);
    expect(hasRun(result)).toBe(false);
    expect(JSON.stringify(result.messages) + result.error).toContain(words);
    expect(result.error).not.toBe('');
  });

  test.each([
    ['a command hook', { hooks: hook }, 'hooks of '],
    ['a sandbox', { sandbox: { enabled: true } }, 'sandbox of '],
  ])('%s in a settings file of settingSources', async (_, settings, words) => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, '.claude', 'settings.json');
    await mkdir(dirname(file));
    await writeFile(file, JSON.stringify(settings));
    const result = await run(ws, { settingSources: ['project'] });
    expect(hasRun(result)).toBe(false);
    expect(JSON.stringify(result.messages)).toContain(words);
  });

  test('a settings file that cannot be read', async () => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, '.claude', 'settings.json');
    await mkdir(dirname(file));
    await writeFile(file, '{ "permissions": ');
    expect(hasRun(await run(ws, { settingSources: ['project'] }))).toBe(false);
  });

  test('a settings file that is a pipe, without waiting for its other end', async () => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, '.claude', 'settings.json');
    await mkdir(dirname(file));
    execFileSync('mkfifo', [file]);
    expect(hasRun(await run(ws, { settingSources: ['project'] }))).toBe(false);
  });

  test('apply_flag_settings with hooks', async () => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([])]);
    host.request('a', 'apply_flag_settings', { settings: { hooks: hook } });
    expect(await host.answered('a')).toMatchObject({ subtype: 'error' });
  });
});

describe('apply_flag_settings:', () => {
  test.each([
    ['deny rules that are no list', { permissions: { deny: 'Bash' } }],
    ['a rule that is not closed', { permissions: { deny: ['Bash(rm *'] } }],
  ])('%s are refused, and none of the settings is applied', async (_, settings) => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([])]);
    host.request('a', 'apply_flag_settings', { settings: { effortLevel: 'low', ...settings } });
    expect(await host.answered('a')).toMatchObject({ subtype: 'error' });
    host.request('b', 'get_settings');
    expect(await host.answered('b')).toMatchObject({ response: { applied: { effort: null } } });
  });

  test('settings without effect are announced', async () => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'x' }])]);
    const permissions = { defaultMode: 'plan', additionalDirectories: ['/srv'] };
    host.request('a', 'apply_flag_settings', { settings: { permissions, passEnv: ['A'] } });
    expect(await host.answered('a')).toMatchObject({ subtype: 'success' });
    host.prompt('go');
    await host.result();
    const said = JSON.stringify(host.seen);
    for (const name of ['permissions.defaultMode', 'permissions.additionalDirectories', 'passEnv'])
      expect(said).toContain(`${name} of apply_flag_settings is not supported`);
  });
});

test.each<[string, JsonObject, string]>([
  [
    'a default mode that does not exist',
    { settings: { permissions: { defaultMode: 'Plan' } } },
    'permissions.defaultMode of --settings',
  ],
  ['passEnv of managedSettings', { managedSettings: { passEnv: ['A'] } }, 'passEnv of --managed'],
  ['a deny rule for no tool', { disallowedTools: ['bash(rm *)'] }, 'has no effect: unknown tool'],
])('is announced: %s', async (_, options, words) => {
  await using ws = await Workspace.open();
  const result = await run(ws, options);
  expect(hasRun(result)).toBe(true);
  expect(JSON.stringify(result.messages)).toContain(words);
});

const READS_SECRET = [
  { tools: [{ name: 'Read', input: { file_path: 'secret.txt' } }] },
  { text: 'saw: {{last}}' },
] as unknown as { text: string }[];

describe('denies a call:', () => {
  const deny = { permissions: { deny: ['Read'] } };
  test.each<[string, JsonObject]>([
    ['settings', { settings: deny }],
    ['managedSettings', { managedSettings: deny }],
    ['managedSettings with a secret', { managedSettings: { ...deny, env: { TOKEN: 'secret' } } }],
    ['disallowedTools', { disallowedTools: ['Read'] }],
  ])('%s', async (_, options) => {
    await using ws = await Workspace.open();
    await writeFile(join(ws.cwd, 'secret.txt'), 'the-secret');
    const allowed = await run(ws, { tools: ['Read'] }, READS_SECRET);
    expect(JSON.stringify(allowed.messages)).toContain('the-secret');
    const denied = await run(ws, { tools: ['Read'], ...options }, READS_SECRET);
    expect(denied.messages.some(({ type }) => type === 'result')).toBe(true);
    expect(JSON.stringify(denied.messages)).not.toContain('the-secret');
  });

  test.each([
    ['user', (ws: Workspace) => join(ws.config, 'settings.json')],
    ['project', (ws: Workspace) => join(ws.cwd, '.claude', 'settings.json')],
    ['local', (ws: Workspace) => join(ws.cwd, '.claude', 'settings.local.json')],
  ] as const)('settingSources %s', async (source, place) => {
    await using ws = await Workspace.open();
    await writeFile(join(ws.cwd, 'secret.txt'), 'the-secret');
    await mkdir(dirname(place(ws)), { recursive: true });
    await writeFile(place(ws), JSON.stringify(deny));
    const denied = await run(ws, { tools: ['Read'], settingSources: [source] }, READS_SECRET);
    expect(denied.messages.some(({ type }) => type === 'result')).toBe(true);
    expect(JSON.stringify(denied.messages)).not.toContain('the-secret');
  });
});

/** A model that repeats the system prompt that it was given. */
async function echo(ws: Workspace): Promise<string> {
  const file = join(ws.root, 'echo.mjs');
  await writeFile(file, 'export default ({ system }) => `prompt: ${system}`;');
  return `module:${file}`;
}

test.each<[string, unknown, string]>([
  ['a text', 'Be brief.', 'prompt: Be brief.'],
  ['several', ['Be brief.', 'Be kind.'], 'prompt: Be brief.\n\nBe kind.'],
  ['none', undefined, 'prompt: '],
])('systemPrompt reaches the model: %s', async (_, systemPrompt, expected) => {
  await using ws = await Workspace.open();
  const result = await run(ws, { model: await echo(ws), systemPrompt });
  expect(result.messages.at(-1)).toMatchObject({ type: 'result', result: expected });
});

test('--system-prompt and --append-system-prompt reach the model', async () => {
  await using ws = await Workspace.open();
  const flags = ['--system-prompt', 'Be brief.', '--append-system-prompt', 'Be kind.'];
  await using host = new RawHost(ws, ['--model', await echo(ws), ...flags]);
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'prompt: Be brief.\n\nBe kind.' });
});

test('with permissionPrompts none the call is denied without a request', async () => {
  await using ws = await Workspace.open();
  await writeFile(join(ws.cwd, 'secret.txt'), 'the-secret');
  const decisions = async (more: JsonObject): Promise<unknown[]> => {
    const settings = { permissions: { ask: ['Read'] } };
    const asks = { tools: ['Read'], settings, permissionPromptToolName: 'stdio', ...more };
    const { messages } = await run(ws, asks, READS_SECRET);
    expect(JSON.stringify(messages)).not.toContain('the-secret');
    return messages
      .filter(({ subtype }) => subtype === 'policy_decision')
      .map(({ decision }) => decision);
  };
  expect(await decisions({})).toEqual(['ask', 'deny']);
  expect(await decisions({ permissionPrompts: 'none' })).toEqual(['deny']);
});

test.each(['accept', 'decline'] as const)('ask decides about a call: %s', async (action) => {
  await using ws = await Workspace.open();
  await writeFile(join(ws.cwd, 'secret.txt'), 'the-secret');
  const asked: unknown[] = [];
  const ask = async ({ id, data }: { id: string; data?: unknown }): Promise<JsonObject> => {
    asked.push(data);
    return { id, action };
  };
  const settings = { permissions: { ask: ['Read'] } };
  const result = await run(ws, { tools: ['Read'], settings, ask }, READS_SECRET);
  expect(asked).toMatchObject([{ toolName: 'Read' }]);
  expect(JSON.stringify(result.messages).includes('the-secret')).toBe(action === 'accept');
});

test('the docs name everything that is announced or refused', () => {
  const docs = readFileSync(new URL('../../docs/reference/agent-cli.md', import.meta.url), 'utf8');
  for (const name of [...Object.keys(ANNOUNCED), ...Object.keys(REFUSED)])
    expect(docs).toContain(`\`${name}\``);
});
