import { isObject, type JsonObject } from '../../json.ts';
import type {
  AccountInfo,
  AgentInfo,
  McpServerStatus,
  ModelInfo,
  RewindFilesResult,
  SDKControlGetContextUsageResponse,
  SDKControlInitializeResponse,
  SlashCommand,
} from '../sdk-types/cli-info-types.ts';
import type { PermissionMode } from '../sdk-types/permission-types.ts';

type Request = (subtype: string, fields?: JsonObject) => Promise<unknown>;

/** What an app can ask of a running CLI, under the names of the official SDK. Each rejects with `unsupported` if the CLI does not know it. */
export interface Controls {
  /** Any control request: the escape hatch. */
  request(request: JsonObject & { readonly subtype: string }): Promise<unknown>;
  setPermissionMode(mode: PermissionMode): Promise<void>;
  setModel(model?: string): Promise<void>;
  setMaxThinkingTokens(maxThinkingTokens: number | null): Promise<void>;
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
  setMcpPermissionModeOverride(serverName: string, mode: string | null): Promise<unknown>;
  readMcpResource(serverName: string, uri: string): Promise<unknown>;
  getContextUsage(options?: {
    readonly detail?: 'summary' | 'full';
  }): Promise<SDKControlGetContextUsageResponse>;
  rewindFiles(
    userMessageId: string,
    options?: { readonly dryRun?: boolean },
  ): Promise<RewindFilesResult>;
  seedReadState(path: string, mtime: number): Promise<void>;
  readFile(path: string, options?: JsonObject): Promise<unknown>;
  reloadPlugins(): Promise<unknown>;
  reloadSkills(): Promise<unknown>;
  reloadOutputStyles(): Promise<unknown>;
  stopTask(taskId: string): Promise<void>;
  backgroundTasks(toolUseId?: string): Promise<unknown>;
  cancelAsyncMessage(uuid: string): Promise<boolean>;
}

/** `initialized` is asked only by those that need what the CLI said about itself. */
export function controlsOf(request: Request, initialized: () => Promise<JsonObject>): Controls {
  const told = async (subtype: string, fields?: JsonObject): Promise<void> => {
    await request(subtype, fields);
  };
  // What a CLI says is taken for what its name promises; only that it is an object is sure.
  const object = async <T extends object>(subtype: string, fields?: JsonObject): Promise<T> =>
    objectOf(await request(subtype, fields));
  const listed = async <T>(member: string): Promise<T[]> => listOf((await initialized())[member]);
  return {
    request: ({ subtype, ...fields }) => request(subtype, fields),
    setPermissionMode: (mode) => told('set_permission_mode', { mode }),
    setModel: (model) => told('set_model', model === undefined ? {} : { model }),
    setMaxThinkingTokens: (max_thinking_tokens) =>
      told('set_max_thinking_tokens', { max_thinking_tokens }),
    applyFlagSettings: (settings) => told('apply_flag_settings', { settings }),
    updateSettings: (source, settings) => told('update_settings', { source, settings }),
    initializationResult: async () => objectOf(await initialized()),
    supportedCommands: () => listed('commands'),
    supportedModels: () => listed('models'),
    supportedAgents: () => listed('agents'),
    accountInfo: async () => objectOf((await initialized())['account']),
    mcpServerStatus: async () => listOf((await object<JsonObject>('mcp_status'))['mcpServers']),
    toggleMcpServer: (serverName, enabled) => told('mcp_toggle', { serverName, enabled }),
    reconnectMcpServer: (serverName) => told('mcp_reconnect', { serverName }),
    setMcpPermissionModeOverride: (serverName, mode) =>
      request('set_mcp_permission_mode_override', { serverName, mode }),
    readMcpResource: (serverName, uri) => request('mcp_read_resource', { serverName, uri }),
    getContextUsage: (options = {}) => object('get_context_usage', options),
    rewindFiles: (user_message_id, { dryRun } = {}) =>
      object('rewind_files', { user_message_id, ...(dryRun && { dry_run: true }) }),
    seedReadState: (path, mtime) => told('seed_read_state', { path, mtime }),
    readFile: (path, options = {}) => request('read_file', { ...options, path }),
    reloadPlugins: () => request('reload_plugins'),
    reloadSkills: () => request('reload_skills'),
    reloadOutputStyles: () => request('reload_output_styles'),
    stopTask: (task_id) => told('stop_task', { task_id }),
    backgroundTasks: (tool_use_id) =>
      request('background_tasks', tool_use_id === undefined ? {} : { tool_use_id }),
    cancelAsyncMessage: async (message_uuid) =>
      (await object<JsonObject>('cancel_async_message', { message_uuid }))['cancelled'] === true,
  };
}

const objectOf = <T extends object>(value: unknown): T => (isObject(value) ? value : {}) as T;

const listOf = <T>(value: unknown): T[] =>
  Array.isArray(value) ? (value.filter(isObject) as T[]) : [];
