import { asObject, asObjects, type JsonObject } from '../../json.ts';
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

/**
 * The control requests to a running CLI, under the names of the official SDK. Each rejects with
 * `unsupported` if the CLI does not know the request.
 */
export interface Controls {
  /** Sends any control request, for those without a method here. */
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
    setMaxThinkingTokens: (max_thinking_tokens) =>
      send('set_max_thinking_tokens', { max_thinking_tokens }),
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
      request('set_mcp_permission_mode_override', { serverName, mode }),
    readMcpResource: (serverName, uri) => request('mcp_read_resource', { serverName, uri }),
    getContextUsage: (options = {}) => object('get_context_usage', options),
    rewindFiles: (user_message_id, { dryRun } = {}) =>
      object('rewind_files', { user_message_id, ...(dryRun && { dry_run: true }) }),
    seedReadState: (path, mtime) => send('seed_read_state', { path, mtime }),
    readFile: (path, options = {}) => request('read_file', { ...options, path }),
    reloadPlugins: () => request('reload_plugins'),
    reloadSkills: () => request('reload_skills'),
    reloadOutputStyles: () => request('reload_output_styles'),
    stopTask: (task_id) => send('stop_task', { task_id }),
    backgroundTasks: (tool_use_id) =>
      request('background_tasks', tool_use_id === undefined ? {} : { tool_use_id }),
    cancelAsyncMessage: async (message_uuid) =>
      (await object<JsonObject>('cancel_async_message', { message_uuid }))['cancelled'] === true,
  };
}

const objectOf = <T extends object>(value: unknown): T => asObject(value) as T;

const listOf = <T>(value: unknown): T[] => [...asObjects(value)] as T[];
