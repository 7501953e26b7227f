export { createSdkMcpServer, tool } from '../mcp/tool.ts';
export { expectToolCalled, type ToolUse } from './calls.ts';
export type { Controls } from './controls.ts';
export type { ElicitationRequest, ElicitationResult, OnElicitation } from './elicitation.ts';
export type { PeerReport } from './failure.ts';
export {
  HOOK_EVENTS,
  type HookCallback,
  type HookCallbackMatcher,
  type HookEvent,
  type HookInput,
  type HookJSONOutput,
  type HookOptions,
} from './hooks.ts';
export { officialCli } from './launch.ts';
export {
  asStream,
  type HostMessage,
  type HostMessageSubtype,
  type SDKAssistantMessage,
  type SDKMessage,
  type SDKOtherMessage,
  type SDKPartialAssistantMessage,
  type SDKResultMessage,
  type SDKSystemMessage,
  type SDKUserMessage,
} from './messages.ts';
export { openSession } from './open.ts';
export type {
  AgentOptions,
  CallbackOptions,
  HostOptions,
  Launch,
  LaunchOptions,
  McpServerConfig,
  Options,
  ProcessServerConfig,
  SdkServerConfig,
  SessionOptions,
  StallOptions,
  SystemPrompt,
  Thinking,
} from './options.ts';
export type {
  CanUseTool,
  CanUseToolOptions,
  PermissionDecision,
  PermissionMode,
  PermissionResult,
  PermissionUpdate,
} from './permissions.ts';
export { AbortError, query, type Query, type QueryInput } from './query.ts';
export { getSessionInfo, getSessionMessages, listSessions, type SessionQuery } from './sessions.ts';
export type { SpawnClaudeCodeProcess, SpawnedProcess, SpawnOptions } from './spawned.ts';
export { startup, type WarmQuery } from './startup.ts';
export {
  InMemorySessionStore,
  type SessionKey,
  type SessionStore,
  type SessionStoreEntry,
} from './store.ts';
export type { TraceHeader } from './trace.ts';
export type { SDKSessionInfo, SessionMessage } from './transcripts.ts';
export type { InterruptReceipt, ServerReady, Session } from './types.ts';
