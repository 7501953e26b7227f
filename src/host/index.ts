export {
  createSdkMcpServer,
  type SdkMcpServerOptions,
  type SdkMcpToolDefinition,
  tool,
} from '../mcp/registry/tool.ts';
export { expectToolCalled, type ToolUse } from './session/tool-calls.ts';
export type {
  ContentBlock,
  ContentBlockParam,
  ContentDelta,
  MessageParam,
  ModelMessage,
  NonNullableUsage,
  MessageStreamEvent,
  MessageUsage,
} from './sdk-types/messages-api-types.ts';
export type { Controls } from './query/controls.ts';
export type {
  ElicitationRequest,
  ElicitationResult,
  OnElicitation,
} from './callbacks/elicitation.ts';
export type { PeerReport } from './session/peer-error.ts';
export * from './sdk-types/hook-types.ts';
export type * from './sdk-types/cli-info-types.ts';
export { officialCli } from './launch/cli-launch.ts';
export type * from './sdk-types/message-types.ts';
export { asStream, type HostMessage, type HostMessageSubtype } from './frames/host-messages.ts';
export { openSession } from './session/open-session.ts';
export type {
  AgentDefinition,
  EffortLevel,
  McpHttpServerConfig,
  McpSdkServerConfigWithInstance,
  McpServerConfig,
  McpSSEServerConfig,
  McpStdioServerConfig,
  OnUserDialog,
  Options,
  OutputFormat,
  QueryOptions,
  SandboxSettings,
  SdkPluginConfig,
  SessionOptions,
  SettingSource,
  StallOptions,
  SystemPrompt,
  ThinkingConfig,
  ToolConfig,
  UserDialogRequest,
  UserDialogResult,
} from './options/options.ts';
export type * from './sdk-types/permission-types.ts';
export { AbortError, query, type Query, type QueryInput } from './query/query.ts';
export {
  getSessionInfo,
  getSessionMessages,
  listSessions,
  type SessionQuery,
} from './transcripts/list-sessions.ts';
export type {
  SpawnClaudeCodeProcess,
  SpawnedProcess,
  SpawnOptions,
} from './launch/custom-process.ts';
export { startup, type StartupInput, type WarmQuery } from './query/warm-query.ts';
export {
  fileSessionStore,
  type FileSessionStoreOptions,
} from './transcripts/file-session-store.ts';
export { InMemorySessionStore, type SessionStore } from './transcripts/session-store.ts';
export type { SessionKey, SessionStoreEntry } from '../wire/transcript.ts';
export type { SDKSessionInfo, SessionMessage } from './transcripts/transcript-files.ts';
export type { InterruptReceipt, ServerReady, Session } from './types.ts';
