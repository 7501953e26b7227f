import type { EffortLevel } from '../options/options.ts';
import type { ModelUsage } from './message-types.ts';

// What a CLI reports about itself. A CLI may send more members than these types list.

export type SlashCommand = { name: string; description: string; argumentHint: string };

export type ModelInfo = {
  /** The name to pass to `setModel`. */
  value: string;
  displayName: string;
  description: string;
  supportsEffort?: boolean;
  supportedEffortLevels?: EffortLevel[];
  supportsAdaptiveThinking?: boolean;
};

export type AgentInfo = { name: string; description: string; model?: string };

export type AccountInfo = {
  email?: string;
  organization?: string;
  subscriptionType?: string;
  tokenSource?: string;
  apiKeySource?: string;
  apiProvider?: string;
};

/** The response to `initialize`. An older CLI leaves members out. */
export type SDKControlInitializeResponse = {
  commands: SlashCommand[];
  agents: AgentInfo[];
  output_style: string;
  available_output_styles: string[];
  models: ModelInfo[];
  account: AccountInfo;
};

export type McpServerStatus = {
  name: string;
  status: 'connected' | 'failed' | 'needs-auth' | 'pending' | 'disabled';
  serverInfo?: { name: string; version: string };
  /** Why it failed. */
  error?: string;
  config?: object;
  scope?: string;
  tools?: {
    name: string;
    description?: string;
    annotations?: { readOnly?: boolean; destructive?: boolean; openWorld?: boolean };
  }[];
};

/** Names of the servers that were added and removed, and the error of each server that failed. */
export type McpSetServersResult = {
  added: string[];
  removed: string[];
  errors: Record<string, string>;
};

export type RewindFilesResult = {
  canRewind: boolean;
  error?: string;
  filesChanged?: string[];
  insertions?: number;
  deletions?: number;
};

/** What fills the model's context. */
export type SDKControlGetContextUsageResponse = {
  categories: { name: string; tokens: number; color: string; isDeferred?: boolean }[];
  totalTokens: number;
  maxTokens: number;
  rawMaxTokens: number;
  percentage: number;
  model: string;
};

/** A file as the CLI read it. */
export type SDKControlReadFileResponse = {
  contents: string;
  absPath: string;
  /** The file is longer than `maxBytes`. */
  truncated?: boolean;
  encoding?: 'utf-8' | 'base64';
};

export type SDKControlReloadPluginsResponse = {
  commands: SlashCommand[];
  agents: AgentInfo[];
  plugins: { name: string; path: string; source?: string }[];
  mcpServers: McpServerStatus[];
  error_count: number;
};

export type SDKControlReloadSkillsResponse = { skills: SlashCommand[] };

export type SDKControlReloadOutputStylesResponse = {
  output_style: string;
  available_output_styles: string[];
};

/** The resources of an MCP server of the CLI. */
export type SDKControlMcpReadResourceResponse = {
  contents: { uri: string; mimeType?: string; text?: string; blob?: string }[];
};

/** What a session has used so far. */
export type SDKUsageReport = {
  total_cost_usd: number;
  total_api_duration_ms: number;
  total_duration_ms: number;
  total_lines_added: number;
  total_lines_removed: number;
  model_usage: Record<string, ModelUsage>;
};

/** The response to `get_usage`. The members besides `session` depend on the account. */
export type SDKControlGetUsageResponse = { session: SDKUsageReport; [member: string]: unknown };
