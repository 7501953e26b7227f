import { DuolaneError } from '../../errors.ts';
import {
  asObject,
  asString,
  asStrings,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';
import { isPermissionMode, PERMISSION_MODES } from '../command-line/flags.ts';
import type { AgentLoop } from './agent-loop.ts';
import { blocksOf } from '../models/types.ts';
import { applyUpdate, type PolicyUpdate } from '../permissions/permission-policy.ts';
import { formatRule, parseRule } from '../permissions/permission-rules.ts';
import type { CliSession } from '../session/cli-session.ts';
import { permissionsOf as permissionsIn, readNames } from '../command-line/settings.ts';
import { serverNotFound } from '../tools/mcp/mcp-servers.ts';
import { CAPABILITIES, userLine } from '../turn/sdk-messages.ts';
import { VERSION } from '../version.ts';
import { ignoredFields, ignoredSettings } from '../command-line/unsupported-options.ts';

/** The parts of the agent loop that control requests use. */
type LoopControls = Pick<
  AgentLoop,
  'session' | 'interrupt' | 'cancelPrompt' | 'chooseModel' | 'endSession' | 'started'
>;

type Handler = (
  request: ControlRequest,
  loop: LoopControls,
) => ControlResponse | Promise<ControlResponse>;

const ok = (response?: unknown, envelope?: JsonObject): ControlResponse => ({
  ok: true,
  ...omitUndefined({ response, envelope }),
});
const no = (error: string, errorCode?: string): ControlResponse => ({
  ok: false,
  ...omitUndefined({ error, errorCode }),
});

/**
 * Handles a control request of the host. A handler returns its response synchronously if it can, so
 * that the response to an interrupt is written before anything that the interrupt causes.
 */
export function serveControl(
  request: ControlRequest,
  loop: LoopControls,
): ControlResponse | Promise<ControlResponse> {
  const handler = Object.hasOwn(HANDLERS, request.subtype) ? HANDLERS[request.subtype] : undefined;
  if (!handler) {
    return no(`Unsupported control request subtype: ${request.subtype}`, 'unsupported_request');
  }
  return handler(request, loop);
}

const HANDLERS: Readonly<Record<string, Handler>> = {
  initialize,
  interrupt: (request, loop) => {
    const cancelQueued = request['cancel_queued'] === true;
    const { stillQueued, cancelled } = loop.interrupt({ cancelQueued });
    return ok({ still_queued: stillQueued, ...(cancelQueued && { cancelled }) });
  },
  cancel_async_message: ({ message_uuid }, loop) =>
    ok({ cancelled: loop.cancelPrompt(asString(message_uuid)) }),
  set_permission_mode: setPermissionMode,
  set_model: setModel,
  set_max_thinking_tokens: ({ max_thinking_tokens }, { session }) => {
    session.parts.choices.thinkingTokens =
      typeof max_thinking_tokens === 'number' ? max_thinking_tokens : undefined;
    return ok();
  },
  apply_flag_settings: applySettings,
  get_settings: (_, { session }) => ok(settingsOf(session)),
  list_permission_rules: (_, { session }) => ok({ rules: permissionsOf(session) }),
  mcp_status: (_, { session }) => ok({ mcpServers: session.parts.servers.describe() }),
  mcp_set_servers: async ({ servers }, { session }) =>
    ok(await session.parts.servers.replace(asObject(servers))),
  mcp_toggle: async ({ serverName, enabled }, { session }) =>
    ok(await session.parts.servers.toggle(asString(serverName), enabled === true)),
  mcp_reconnect: async ({ serverName }, { session }) =>
    ok(await session.parts.servers.reconnect(asString(serverName))),
  mcp_message: ({ server_name, message }, { session }) => {
    if (!isObject(message)) return no('the host sent mcp_message without a message');
    session.parts.servers.receive(asString(server_name), message);
    return ok();
  },
  mcp_call: mcpCall,
  get_context_usage: (_, { session }) => ok(contextUsage(session)),
  get_session_cost: (_, { session }) => ok({ total_cost_usd: session.totals.costUsd }),
  get_usage: (_, { session: { totals } }) =>
    ok({
      session: {
        total_cost_usd: totals.costUsd,
        total_api_duration_ms: Math.round(totals.apiMs),
        usage: totals.usage,
      },
    }),
  get_binary_version: () => ok({ version: VERSION }),
  list_models: (_, { session }) => ok({ models: modelsOf(session) }),
  read_file: async (request, { session: { parts } }) => {
    const { readFileForHost } = await import('./host-read-file.ts');
    const { cwd, choices } = parts;
    return ok(await readFileForHost(request, { cwd, directories: choices.directories }));
  },
  set_mcp_permission_mode_override: ({ serverName, mode }, { session }) => {
    if (!session.parts.servers.has(asString(serverName)))
      return no(serverNotFound(asString(serverName)));
    if (mode !== 'auto') return ok();
    return ok({
      warning:
        'mode "auto" is not supported; mode "default" is used, which asks before each call that no rule allows',
    });
  },
  get_hooks_listing: (_, { session }) => ok(session.parts.hooks.listing),
  // This CLI has no skills, plugins and styles to load: the lists are empty.
  reload_skills: () => ok({ skills: [] }),
  reload_plugins: () => ok({ commands: [], agents: [], plugins: [], mcpServers: [] }),
  reload_output_styles: () => ok({ output_styles: ['default'] }),
  rewind_files: () => ok({ canRewind: false, error: 'File rewinding is not supported.' }),
  stop_task: () => ok({}),
  background_tasks: () => ok({}),
  set_has_subscribers: () => ok(),
  end_session: (_, loop) => {
    loop.endSession();
    return ok();
  },
};

function initialize(request: ControlRequest, loop: LoopControls): ControlResponse {
  const { session } = loop;
  // The prompt may be in the pipe already. After an error response no turn must run.
  session.refusal = session.parts.hooks.refusal(request['hooks']);
  if (session.refusal !== undefined) return no(session.refusal, 'unsupported_request');
  session.announce(
    ...ignoredFields(request).map((name) => `${name} is not supported and was ignored`),
    ...session.parts.hooks
      .uncalled(request['hooks'])
      .map((event) => `hooks on ${event} are not supported and never called`),
  );
  const applied = 'hooks' in request ? session.parts.hooks.register(request['hooks']) : 0;
  if (isObject(request['jsonSchema'])) session.schema = request['jsonSchema'];
  takeSystemPrompt(session, request);
  const manifests = asObject(request['sdkMcpServerManifests']);
  const configs = asObject(request['sdkMcpServerConfigs']);
  const parked: Record<string, string> = {};
  for (const name of asStrings(request['sdkMcpServers'])) {
    if (session.parts.servers.has(name)) continue; // a repeated initialize
    const manifest = isObject(manifests[name]) ? manifests[name] : undefined;
    if (manifest) parked[name] = 'parked';
    session.parts.servers.add(name, { type: 'sdk', name, ...asObject(configs[name]) }, manifest);
  }
  loop.started(session.parts.flags.resume || session.parts.flags.continue ? 'resume' : 'startup');
  // A host that reconnects gets the permission requests that are still open with the response.
  const waiting = {
    pending_permission_requests: session.parts.lane.unanswered('can_use_tool'),
    pending_user_dialog_requests: [],
  };
  const state = {
    commands: [],
    agents: [],
    output_style: 'default',
    available_output_styles: ['default'],
    models: modelsOf(session),
    account: { apiKeySource: session.parts.choices.model.model.keySource },
    pid: process.pid,
    claude_code_version: VERSION,
    current_permission_mode: session.parts.choices.policy.mode,
    hook_on_failure_supported: true,
    hooks_applied: applied,
    session_state: session.state,
    sdk_mcp_manifests_parked: parked,
    capabilities: CAPABILITIES,
  };
  return ok(state, waiting);
}

function takeSystemPrompt({ parts }: CliSession, request: ControlRequest): void {
  const { choices } = parts;
  const { systemPrompt } = request;
  if (Array.isArray(systemPrompt))
    choices.systemPrompt = asStrings(systemPrompt).filter(Boolean).join('\n\n');
  else if (typeof systemPrompt === 'string') choices.systemPrompt = systemPrompt;
  const more = asString(request['appendSystemPrompt']);
  if (more !== '') choices.systemPrompt = [choices.systemPrompt, more].filter(Boolean).join('\n\n');
}

function setPermissionMode({ mode }: ControlRequest, { session }: LoopControls): ControlResponse {
  if (!isPermissionMode(mode)) {
    return no(
      `Cannot set permission mode: must be one of ${PERMISSION_MODES.toSorted().join(', ')}`,
      'invalid_mode',
    );
  }
  if (mode === 'bypassPermissions' && !session.parts.flags.allowBypass) {
    return no(
      'Cannot set permission mode: the session was not started with --allow-dangerously-skip-permissions',
      'invalid_mode',
    );
  }
  // In a microtask, so that the response is written before the status line.
  queueMicrotask(() => session.setPolicy({ ...session.parts.choices.policy, mode }));
  return ok({ mode });
}

async function setModel({ model }: ControlRequest, loop: LoopControls): Promise<ControlResponse> {
  const { session } = loop;
  const name = typeof model === 'string' && model !== 'default' ? model : undefined;
  const chosen = await loop.chooseModel(name);
  session.parts.choices.model = chosen;
  const text = `<local-command-stdout>Set model to ${chosen.model.name}</local-command-stdout>`;
  session.emit(userLine([{ type: 'text', text }], { isReplay: true }));
  return ok({ model: chosen.model.name });
}

async function mcpCall(
  request: ControlRequest,
  { session }: LoopControls,
): Promise<ControlResponse> {
  const name = asString(request['tool']);
  const tool = session.parts.servers.tools().find(({ spec }) => spec.name === name);
  if (!tool || tool.server?.source === 'sdk') {
    throw new DuolaneError(
      'not_found',
      `tool "${name}" not found; it must belong to an MCP server outside of the host`,
    );
  }
  const { timeout_ms: limit } = request;
  const signal = AbortSignal.timeout(typeof limit === 'number' && limit > 0 ? limit : 60_000);
  const run = { id: `mcp_call_${Date.now()}`, signal, progress: () => {} };
  const { content, isError } = await tool.call(asObject(request['arguments']), run);
  return ok({ content: blocksOf(content), ...(isError && { isError }) });
}

/** Handles `apply_flag_settings`: changes the effort and adds permission rules. */
function applySettings({ settings }: ControlRequest, { session }: LoopControls): ControlResponse {
  const { effortLevel, sandbox } = asObject(settings);
  if (sandbox !== undefined)
    return no('cannot change the sandbox: the session is running; start a new one with --settings');
  const { ignored, updates, refused } = changesOf(asObject(settings));
  if (refused !== undefined) return no(refused, 'unsupported_request');
  if (typeof effortLevel === 'string') session.parts.choices.effort = effortLevel;
  session.announce(...ignored);
  for (const update of updates)
    session.setPolicy(applyUpdate(session.parts.choices.policy, update));
  return ok();
}

/** The policy updates of new settings, the settings without effect, and why they are refused. */
function changesOf(settings: JsonObject): {
  readonly ignored: readonly string[];
  readonly updates: readonly PolicyUpdate[];
  readonly refused?: string;
} {
  try {
    const others = { ...settings, effortLevel: undefined }; // `applySettings` handles it
    const names = ignoredSettings(others, 'apply_flag_settings', { rulesOnly: true });
    const permissions = permissionsIn(settings);
    const updates = (['allow', 'deny', 'ask'] as const).map((behavior) => ({
      type: 'addRules' as const,
      behavior,
      rules: readNames(`permissions.${behavior}`, permissions[behavior]).map(parseRule),
    }));
    return { updates, ignored: names.map((name) => `${name} is not supported and was ignored`) };
  } catch (reason) {
    return { ignored: [], updates: [], refused: DuolaneError.from(reason).message };
  }
}

function modelsOf({ parts }: CliSession): JsonObject[] {
  const { name } = parts.choices.model.model;
  return [{ value: name, displayName: name, description: 'The model of this session' }];
}

function settingsOf(session: CliSession): JsonObject {
  const { choices, settings } = session.parts;
  return {
    effective: { ...settings.given, permissions: permissionsOf(session) },
    sources: [{ source: 'flagSettings', settings: settings.given }],
    applied: { model: choices.model.model.name, effort: choices.effort ?? null },
  };
}

function permissionsOf({ policy }: CliSession): JsonObject {
  const { allow, deny, ask, mode } = policy;
  return {
    allow: allow.map(formatRule),
    deny: deny.map(formatRule),
    ask: ask.map(formatRule),
    defaultMode: mode,
  };
}

/** An estimate with four characters per token: many models do not report their context usage. */
function contextUsage(session: CliSession): JsonObject {
  const { choices, history } = session.parts;
  const category = (id: string, name: string, value: unknown) => {
    return { id, name, tokens: Math.ceil(JSON.stringify(value).length / 4), kind: 'used' };
  };
  const categories = [
    category('system_prompt', 'System prompt', choices.systemPrompt),
    category(
      'tools',
      'Tools',
      session.tools().map(({ spec }) => spec),
    ),
    category('messages', 'Messages', history.messages()),
  ];
  const totalTokens = categories.reduce((sum, { tokens }) => sum + tokens, 0);
  return { categories, totalTokens, estimated: true, model: choices.model.model.name };
}
