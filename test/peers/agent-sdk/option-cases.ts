import { z } from 'zod';
import type { JsonObject } from '../../../src/json.ts';
import type { Case } from './run-case.ts';

const option = (name: string, options: JsonObject): Case => ({ name, options: () => options });

const AGENT = { description: 'reviews', prompt: 'You review.' };
const SESSION = '22222222-2222-4222-8222-222222222222';

/** Programs that set one option, or two that belong together. */
const VALUES: readonly Case[] = [
  option('none', {}),
  option('additionalDirectories', { additionalDirectories: ['/a', '/b'] }),
  option('projectConfigRoot', { projectConfigRoot: '/p' }),
  option('agent', { agent: 'reviewer', agents: { reviewer: AGENT } }),
  option('agents', { agents: { reviewer: { ...AGENT, tools: ['Read'], model: 'sonnet' } } }),
  option('allowedTools', { allowedTools: ['Read', 'Bash(ls:*)'] }),
  option('allowedTools empty', { allowedTools: [] }),
  option('disallowedTools', { disallowedTools: ['Bash'] }),
  option('continue', { continue: true }),
  option('toolAliases', { toolAliases: { Bash: 'mcp__s__bash' } }),
  option('tools list', { tools: ['Read', 'Edit'] }),
  option('tools empty', { tools: [] }),
  option('tools preset', { tools: { type: 'preset', preset: 'claude_code' } }),
  option('env', { env: { OWN: '1', NODE_OPTIONS: '--no-warnings', DEBUG: '1' } }),
  option('env entrypoint', { env: { CLAUDE_CODE_ENTRYPOINT: 'mine' } }),
  option('executable', { executable: 'node' }),
  option('executableArgs', { executableArgs: ['--no-warnings'] }),
  option('extraArgs', { extraArgs: { 'max-turns': '3', 'some-flag': null } }),
  option('fallbackModel', { model: 'a', fallbackModel: 'b' }),
  option('enableFileCheckpointing', { enableFileCheckpointing: true }),
  option('toolConfig', { toolConfig: { askUserQuestion: { previewFormat: 'html' } } }),
  option('toolConfig empty', { toolConfig: {} }),
  option('forkSession', { resume: SESSION, forkSession: true }),
  option('betas', { betas: ['context-1m-2025-08-07'] }),
  option('supportedDialogKinds', { supportedDialogKinds: ['wanted'], onUserDialog: () => ({}) }),
  option('supportedDialogKinds alone', { supportedDialogKinds: ['wanted'] }),
  option('perTaskStopAffordance', { perTaskStopAffordance: true }),
  option('persistSession false', { persistSession: false }),
  option('persistSession true', { persistSession: true }),
  option('includeHookEvents', { includeHookEvents: true }),
  option('includePartialMessages', { includePartialMessages: true }),
  option('forwardSubagentText', { forwardSubagentText: true }),
  option('verbatimPrompts', { verbatimPrompts: true }),
  option('verbatimPrompts false', { verbatimPrompts: false }),
  option('thinking adaptive', { thinking: { type: 'adaptive' } }),
  option('thinking display', { thinking: { type: 'adaptive', display: 'summarized' } }),
  option('thinking enabled', { thinking: { type: 'enabled', budgetTokens: 2000 } }),
  option('thinking enabled bare', { thinking: { type: 'enabled' } }),
  option('thinking disabled', { thinking: { type: 'disabled' } }),
  option('effort', { effort: 'high' }),
  option('maxThinkingTokens', { maxThinkingTokens: 1000 }),
  option('maxThinkingTokens zero', { maxThinkingTokens: 0 }),
  option('maxTurns', { maxTurns: 3 }),
  option('maxBudgetUsd', { maxBudgetUsd: 0.5 }),
  option('taskBudget', { taskBudget: { total: 50_000 } }),
  option('mcpServers stdio', { mcpServers: { s: { command: 'node', args: ['x.js'] } } }),
  option('mcpServers http', { mcpServers: { h: { type: 'http', url: 'http://127.0.0.1:9/' } } }),
  option('mcpServers sse', { mcpServers: { h: { type: 'sse', url: 'http://127.0.0.1:9/' } } }),
  option('strictMcpConfig', { strictMcpConfig: true }),
  option('model', { model: 'sonnet' }),
  option('outputFormat', { outputFormat: { type: 'json_schema', schema: { type: 'object' } } }),
  option('permissionMode', { permissionMode: 'acceptEdits' }),
  option('permissionMode bypass', {
    permissionMode: 'bypassPermissions',
    allowDangerouslySkipPermissions: true,
  }),
  option('allowDangerouslySkipPermissions', { allowDangerouslySkipPermissions: true }),
  option('planModeInstructions', { planModeInstructions: 'plan well', permissionMode: 'plan' }),
  option('permissionPromptToolName', { permissionPromptToolName: 'mcp__s__ask' }),
  option('permissionPrompts none', { permissionPrompts: 'none' }),
  option('permissionPrompts host', { permissionPrompts: 'host' }),
  option('plugins', { plugins: [{ type: 'local', path: '/plugin' }] }),
  option('plugins skipMcpDiscovery', {
    plugins: [{ type: 'local', path: '/plugin', skipMcpDiscovery: true }],
  }),
  option('pluginDelivery argv', {
    plugins: [{ type: 'local', path: '/plugin' }],
    pluginDelivery: 'argv',
  }),
  option('pluginDelivery initialize', {
    plugins: [{ type: 'local', path: '/plugin', skipMcpDiscovery: true }],
    pluginDelivery: 'initialize',
  }),
  option('pluginDelivery without plugins', { pluginDelivery: 'initialize' }),
  option('promptSuggestions', { promptSuggestions: true }),
  option('agentProgressSummaries', { agentProgressSummaries: true }),
  option('resume', { resume: SESSION }),
  option('sessionId', { sessionId: SESSION }),
  option('resumeSessionAt', { resume: SESSION, resumeSessionAt: 'm-1' }),
  option('resumeDropsTurn', { resume: SESSION, resumeSessionAt: 'm-1', resumeDropsTurn: 'm-2' }),
  option('sandbox', { sandbox: { enabled: true } }),
  option('sandbox open', { sandbox: { enabled: true, failIfUnavailable: false } }),
  option('sandbox disabled', { sandbox: { enabled: false } }),
  option('sandbox without enabled', { sandbox: { network: { allowLocalBinding: true } } }),
  option('sandbox in settings', {
    settings: { model: 'a', sandbox: { enabled: false, network: { allowLocalBinding: true } } },
    sandbox: { enabled: true, network: { allowedDomains: ['x.example'] } },
  }),
  option('sandbox and settings text', { settings: '{"model":"a"}', sandbox: { enabled: true } }),
  option('settings path', { settings: '/s.json' }),
  option('settings object', { settings: { model: 'a' } }),
  option('managedSettings', { managedSettings: { permissions: { deny: ['Bash'] } } }),
  option('settingSources', { settingSources: ['user', 'project'] }),
  option('settingSources empty', { settingSources: [] }),
  option('skills all', { skills: 'all' }),
  option('skills list', { skills: ['pdf', 'docx'], allowedTools: ['Read'] }),
  option('skills empty', { skills: [] }),
  option('debug', { debug: true }),
  option('debugFile', { debugFile: '/tmp/debug.log' }),
  option('systemPrompt text', { systemPrompt: 'Be brief.' }),
  option('systemPrompt list', { systemPrompt: ['One.', 'Two.'] }),
  option('systemPrompt preset', { systemPrompt: { type: 'preset', preset: 'claude_code' } }),
  option('systemPrompt append', {
    systemPrompt: { type: 'preset', preset: 'claude_code', append: 'More.' },
  }),
  option('systemPrompt excludeDynamicSections', {
    systemPrompt: { type: 'preset', preset: 'claude_code', excludeDynamicSections: true },
  }),
  option('systemPrompt preset snapshot', {
    systemPrompt: { type: 'preset', preset: 'claude_code', snapshot: true },
  }),
  option('systemPrompt custom', { systemPrompt: { type: 'custom', prompt: 'Be brief.' } }),
  option('systemPrompt custom list', {
    systemPrompt: { type: 'custom', prompt: ['One.', 'Two.'], snapshot: true },
  }),
  option('title', { title: 'A title' }),
];

const noted =
  (seen: unknown[], answer: unknown) =>
  (...args: unknown[]): unknown => {
    seen.push(args.map(visible));
    return answer;
  };

/** An argument of a callback as plain data; a signal shows as its class. */
const visible = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value ?? null, (_, member: unknown) =>
      member instanceof AbortSignal ? 'AbortSignal' : member,
    ),
  ) as unknown;

const PERMISSION = {
  subtype: 'can_use_tool',
  tool_name: 'Bash',
  input: { command: 'ls' },
  tool_use_id: 'toolu_1',
  permission_suggestions: [{ type: 'setMode', mode: 'acceptEdits', destination: 'session' }],
  blocked_path: '/etc',
  decision_reason: 'outside',
  decision_reason_type: 'workingDir',
  mcp_server: { name: 's', source: 'sdk' },
  title: 'Run ls?',
  display_name: 'Bash',
  description: 'lists',
  agent_id: 'a1',
  requires_user_interaction: true,
  matched_ask_rule: { tool_name: 'Bash', rule_content: 'ls', source: 'userSettings' },
  suppress_always_allow_rule: true,
  default_to_no: true,
};

const permission = (name: string, answer: unknown): Case => ({
  name: `canUseTool ${name}`,
  requests: [{ ...PERMISSION, mayStayOpen: answer === null }],
  options: (_, seen) => ({ canUseTool: noted(seen, Promise.resolve(answer)) }),
});

const hookRequest = (input: JsonObject): JsonObject => ({
  subtype: 'hook_callback',
  callback_id: 'hook_0',
  tool_use_id: 'toolu_1',
  input,
});

const ELICITATION = {
  subtype: 'elicitation',
  mcp_server_name: 's',
  message: 'Your name?',
  mode: 'form',
  requested_schema: { type: 'object', properties: { name: { type: 'string' } } },
  property_order: ['name'],
  elicitation_id: 'e1',
  title: 'Name',
  display_name: 'Name of you',
  description: 'asks',
};

const DIALOG = {
  subtype: 'request_user_dialog',
  dialog_kind: 'wanted',
  payload: { a: 1 },
  tool_use_id: 'toolu_1',
};

const dialog = (name: string, answer: unknown, request: JsonObject = DIALOG): Case => ({
  name: `onUserDialog ${name}`,
  requests: [request],
  options: (_, seen) => ({
    supportedDialogKinds: ['wanted'],
    onUserDialog: noted(seen, Promise.resolve(answer)),
  }),
});

const inProcess = (name: string, extra: JsonObject, requests?: readonly JsonObject[]): Case => ({
  name,
  ...(requests && { requests }),
  options: ({ createSdkMcpServer, tool }, seen) => ({
    mcpServers: {
      calc: createSdkMcpServer({
        name: 'calc',
        version: '1.2.3',
        tools: [
          tool('add', 'Adds', { a: z.number() }, async (args: unknown) => {
            seen.push(args);
            return { content: [{ type: 'text', text: '5' }] };
          }),
        ],
        ...extra,
      }),
    },
  }),
});

const message = (request_id: unknown, id: number, body: JsonObject): JsonObject =>
  ({
    ...(request_id !== undefined && { request_id }),
    subtype: 'mcp_message',
    server_name: 'calc',
    message: { jsonrpc: '2.0', id, ...body },
  }) as JsonObject;

const ADD = { method: 'tools/call', params: { name: 'add', arguments: { a: 2 } } };
const INITIALIZE = {
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'c', version: '1' },
  },
};

/** Programs with callbacks, which the CLI calls. */
const CALLBACKS: readonly Case[] = [
  permission('allow', { behavior: 'allow', updatedInput: { command: 'ls' } }),
  permission('allow changed', { behavior: 'allow', updatedInput: { command: 'pwd' } }),
  permission('allow bare', { behavior: 'allow' }),
  permission('allow with permissions', {
    behavior: 'allow',
    updatedInput: {},
    updatedPermissions: [{ type: 'setMode', mode: 'plan', destination: 'session' }],
    decisionClassification: 'user_temporary',
  }),
  permission('deny', { behavior: 'deny', message: 'no', interrupt: true }),
  permission('null', null),
  {
    name: 'canUseTool throws',
    requests: [PERMISSION],
    options: () => ({ canUseTool: () => Promise.reject(new Error('mine')) }),
  },
  {
    name: 'hooks',
    requests: [hookRequest({ hook_event_name: 'PreToolUse', tool_name: 'Bash' })],
    options: (_, seen) => ({
      hooks: {
        PreToolUse: [{ matcher: 'Bash', hooks: [noted(seen, { continue: true })], timeout: 5 }],
        Stop: [{ hooks: [() => ({})] }],
      },
    }),
  },
  {
    name: 'hooks onFailure',
    options: () => ({ hooks: { PreToolUse: [{ hooks: [() => ({})], onFailure: 'block' }] } }),
  },
  {
    name: 'onElicitation',
    requests: [ELICITATION],
    options: (_, seen) => ({
      onElicitation: noted(seen, Promise.resolve({ action: 'accept', content: { name: 'x' } })),
    }),
  },
  {
    name: 'onElicitation url',
    requests: [
      { ...ELICITATION, mode: 'url', url: 'http://127.0.0.1/', requested_schema: undefined },
    ],
    options: (_, seen) => ({ onElicitation: noted(seen, Promise.resolve({ action: 'decline' })) }),
  },
  { name: 'onElicitation absent', requests: [ELICITATION] },
  dialog('completed', { behavior: 'completed', result: { b: 2 } }),
  dialog('cancelled', { behavior: 'cancelled' }),
  dialog(
    'other kind',
    { behavior: 'completed', result: 1 },
    { ...DIALOG, dialog_kind: 'other', mayStayOpen: true },
  ),
  {
    name: 'onUserDialog absent',
    requests: [{ ...DIALOG, dialog_kind: 'other', mayStayOpen: true }],
  },
  inProcess('mcpServers sdk', {}, [message(undefined, 7, ADD)]),
  inProcess('mcpServers sdk timeout', { timeout: 5000 }),
  inProcess('mcpServers sdk alwaysLoad', { alwaysLoad: true, instructions: 'Use it.' }),
  inProcess('request_id is a number', {}, [message(5, 7, ADD)]),
  inProcess('a handshake of the CLI', {}, [message(undefined, 0, INITIALIZE)]),
  { name: 'an unknown request', requests: [{ subtype: 'from_the_future', a: 1 }] },
  {
    name: 'sessionStore',
    options: ({ InMemorySessionStore }) => ({ sessionStore: new InMemorySessionStore() }),
  },
  {
    name: 'sessionStoreFlush',
    options: ({ InMemorySessionStore }) => ({
      sessionStore: new InMemorySessionStore(),
      sessionStoreFlush: 'eager',
      loadTimeoutMs: 1000,
    }),
  },
  {
    name: 'stderr',
    options: (_, seen) => ({ stderr: noted(seen, undefined) }),
  },
];

/** How a run ends. */
const ENDS: readonly Case[] = [
  { name: 'an error result', end: 'error' },
  { name: 'an exit with code 7', end: 'exit' },
  {
    name: 'an abort during the turn',
    end: 'hang',
    requests: [{ ...PERMISSION, mayStayOpen: true }],
    options: (_, seen) => {
      const abortController = new AbortController();
      return {
        abortController,
        canUseTool: () => {
          seen.push('called');
          abortController.abort();
          return Promise.resolve(null);
        },
      };
    },
  },
  {
    name: 'an aborted controller',
    options: () => {
      const abortController = new AbortController();
      abortController.abort();
      return { abortController };
    },
  },
];

export const OPTION_CASES: readonly Case[] = [...VALUES, ...CALLBACKS, ...ENDS];
