import { DuolaneError } from '../../errors.ts';
import { asObject, asObjects, type JsonObject, omitUndefined } from '../../json.ts';
import type { SdkPluginConfig } from '../options/options.ts';
import type {
  AccountInfo,
  AgentInfo,
  McpServerStatus,
  ModelInfo,
  RewindFilesResult,
  SDKControlGetContextUsageResponse,
  SDKControlGetUsageResponse,
  SDKControlInitializeResponse,
  SDKControlMcpReadResourceResponse,
  SDKControlReadFileResponse,
  SDKControlReloadOutputStylesResponse,
  SDKControlReloadPluginsResponse,
  SDKControlReloadSkillsResponse,
  SlashCommand,
} from '../sdk-types/cli-info-types.ts';
import type { PermissionMode } from '../sdk-types/permission-types.ts';

type Request = (subtype: string, fields?: JsonObject) => Promise<unknown>;

/**
 * The control requests to a running CLI, under the names of the official SDK. Each rejects with
 * `unsupported` if the CLI does not know the request.
 */
export interface Controls {
  /** Sends any control request, for those without a method here. */
  request(request: JsonObject & { readonly subtype: string }): Promise<unknown>;
  setPermissionMode(mode: PermissionMode): Promise<void>;
  setModel(model?: string): Promise<void>;
  setMaxThinkingTokens(
    maxThinkingTokens: number | null,
    thinkingDisplay?: 'summarized' | 'omitted' | 'highlights' | null,
  ): Promise<void>;
  applyFlagSettings(settings: JsonObject): Promise<void>;
  updateSettings(source: string, settings: JsonObject): Promise<void>;
  initializationResult(): Promise<SDKControlInitializeResponse>;
  supportedCommands(): Promise<SlashCommand[]>;
  supportedModels(): Promise<ModelInfo[]>;
  supportedAgents(): Promise<AgentInfo[]>;
  accountInfo(): Promise<AccountInfo>;
  mcpServerStatus(): Promise<McpServerStatus[]>;
  toggleMcpServer(serverName: string, enabled: boolean): Promise<void>;
  reconnectMcpServer(serverName: string): Promise<void>;
  setMcpPermissionModeOverride(
    serverName: string,
    mode: 'default' | 'auto' | null,
  ): Promise<{ warning?: string }>;
  readMcpResource(serverName: string, uri: string): Promise<SDKControlMcpReadResourceResponse>;
  getContextUsage(options?: {
    readonly detail?: 'summary' | 'full';
  }): Promise<SDKControlGetContextUsageResponse>;
  rewindFiles(
    userMessageId: string,
    options?: { readonly dryRun?: boolean },
  ): Promise<RewindFilesResult>;
  seedReadState(path: string, mtime: number): Promise<void>;
  /** A file as the CLI sees it; null if the CLI cannot or may not read it. */
  readFile(
    path: string,
    options?: { readonly maxBytes?: number; readonly encoding?: 'utf-8' | 'base64' },
  ): Promise<SDKControlReadFileResponse | null>;
  reloadPlugins(options?: {
    readonly holdOnCacheImpact?: boolean;
    readonly addPlugins?: readonly SdkPluginConfig[];
    readonly refuseIfBusy?: boolean;
  }): Promise<SDKControlReloadPluginsResponse>;
  reloadSkills(): Promise<SDKControlReloadSkillsResponse>;
  reloadOutputStyles(): Promise<SDKControlReloadOutputStylesResponse>;
  usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET(options?: {
    readonly skipBehaviors?: boolean;
  }): Promise<SDKControlGetUsageResponse>;
  stopTask(taskId: string): Promise<void>;
  /** Moves the running tool calls to the background; resolves with whether one was moved. */
  backgroundTasks(toolUseId?: string): Promise<boolean>;
  cancelAsyncMessage(uuid: string): Promise<boolean>;
}

/**
 * Creates the control methods. `initialized` is read only by methods that return a part of the
 * CLI's response to `initialize`. A response is trusted to have the type that its method promises:
 * the host checks only that it is an object or an array of objects.
 */
export function controlsOf(request: Request, initialized: () => Promise<JsonObject>): Controls {
  const send = async (subtype: string, fields?: JsonObject): Promise<void> => {
    await request(subtype, fields);
  };
  const object = async <T extends object>(subtype: string, fields?: JsonObject): Promise<T> =>
    objectOf(await request(subtype, fields));
  const listed = async <T>(member: string): Promise<T[]> => listOf((await initialized())[member]);
  return {
    request: ({ subtype, ...fields }) => request(subtype, fields),
    setPermissionMode: (mode) => send('set_permission_mode', { mode }),
    setModel: (model) => send('set_model', model === undefined ? {} : { model }),
    setMaxThinkingTokens: (max_thinking_tokens, thinking_display) =>
      send('set_max_thinking_tokens', omitUndefined({ max_thinking_tokens, thinking_display })),
    applyFlagSettings: (settings) => send('apply_flag_settings', { settings }),
    updateSettings: (source, settings) => send('update_settings', { source, settings }),
    initializationResult: async () => objectOf(await initialized()),
    supportedCommands: () => listed('commands'),
    supportedModels: () => listed('models'),
    supportedAgents: () => listed('agents'),
    accountInfo: async () => objectOf((await initialized())['account']),
    mcpServerStatus: async () => listOf((await object<JsonObject>('mcp_status'))['mcpServers']),
    toggleMcpServer: (serverName, enabled) => send('mcp_toggle', { serverName, enabled }),
    reconnectMcpServer: (serverName) => send('mcp_reconnect', { serverName }),
    setMcpPermissionModeOverride: (serverName, mode) =>
      object('set_mcp_permission_mode_override', { serverName, mode }),
    readMcpResource: (serverName, uri) => object('mcp_read_resource', { serverName, uri }),
    getContextUsage: (options = {}) => object('get_context_usage', options),
    rewindFiles: (user_message_id, { dryRun } = {}) =>
      object('rewind_files', { user_message_id, ...(dryRun && { dry_run: true }) }),
    seedReadState: (path, mtime) => send('seed_read_state', { path, mtime }),
    readFile: (path, { maxBytes: max_bytes, encoding } = {}) =>
      object<SDKControlReadFileResponse>(
        'read_file',
        omitUndefined({ path, max_bytes, encoding }),
      ).catch(nullIfRefused),
    reloadPlugins: ({ holdOnCacheImpact, addPlugins, refuseIfBusy } = {}) =>
      object(
        'reload_plugins',
        omitUndefined({
          hold_on_cache_impact: holdOnCacheImpact,
          add_plugins: addPlugins,
          refuse_if_busy: refuseIfBusy,
        }),
      ),
    reloadSkills: () => object('reload_skills'),
    reloadOutputStyles: () => object('reload_output_styles'),
    usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET: ({
      skipBehaviors: skip_behaviors,
    } = {}) => object('get_usage', omitUndefined({ skip_behaviors })),
    stopTask: (task_id) => send('stop_task', { task_id }),
    // A CLI reports only that nothing was moved.
    backgroundTasks: async (tool_use_id) => {
      const fields = omitUndefined<JsonObject>({ tool_use_id });
      return (await object<JsonObject>('background_tasks', fields))['backgrounded'] !== false;
    },
    cancelAsyncMessage: async (message_uuid) =>
      (await object<JsonObject>('cancel_async_message', { message_uuid }))['cancelled'] === true,
  };
}

/** The CLI refuses to read a file that is missing or not allowed; other errors are thrown. */
function nullIfRefused(error: unknown): null {
  if (error instanceof DuolaneError && error.code === 'invalid') return null;
  throw error;
}

const objectOf = <T extends object>(value: unknown): T => asObject(value) as T;

const listOf = <T>(value: unknown): T[] => [...asObjects(value)] as T[];
