import type { PermissionUpdate } from './permission-types.ts';

/** The events that a hook can listen to. Which of them fire is the CLI's matter. */
export const HOOK_EVENTS = [
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'Notification',
  'UserPromptSubmit',
  'UserPromptExpansion',
  'SessionStart',
  'SessionEnd',
  'Stop',
  'StopFailure',
  'SubagentStart',
  'SubagentStop',
  'PreCompact',
  'PostCompact',
  'PreModelSwitch',
  'PostModelSwitch',
  'PermissionRequest',
  'PermissionDenied',
  'Setup',
  'TeammateIdle',
  'TaskCreated',
  'TaskCompleted',
  'Elicitation',
  'ElicitationResult',
  'ConfigChange',
  'WorktreeCreate',
  'WorktreeRemove',
  'InstructionsLoaded',
  'CwdChanged',
  'FileChanged',
  'DirectoryAdded',
  'MessageDisplay',
] as const;

export type HookEvent = (typeof HOOK_EVENTS)[number];

/** What the CLI tells every hook. */
export type BaseHookInput = {
  session_id: string;
  transcript_path: string;
  cwd: string;
  prompt_id?: string;
  permission_mode?: string;
  /** In a subagent. */
  agent_id?: string;
  agent_type?: string;
};

type Input<Event extends HookEvent, Rest> = BaseHookInput & { hook_event_name: Event } & Rest;

type ToolInput = { tool_name: string; tool_input: unknown; tool_use_id: string };

export type PreToolUseHookInput = Input<'PreToolUse', ToolInput>;
export type PostToolUseHookInput = Input<
  'PostToolUse',
  ToolInput & { tool_response: unknown; duration_ms?: number }
>;
export type PostToolUseFailureHookInput = Input<
  'PostToolUseFailure',
  ToolInput & { error: string; is_interrupt?: boolean; duration_ms?: number }
>;
/** After all tools of one answer. */
export type PostToolBatchHookInput = Input<
  'PostToolBatch',
  { tool_calls: (ToolInput & { tool_response?: unknown })[] }
>;
export type UserPromptSubmitHookInput = Input<
  'UserPromptSubmit',
  { prompt: string; session_title?: string }
>;
export type SessionStartHookInput = Input<
  'SessionStart',
  { source: 'startup' | 'resume' | 'clear' | 'compact'; model?: string }
>;
export type SessionEndHookInput = Input<'SessionEnd', { reason: ExitReason }>;
export type StopHookInput = Input<
  'Stop',
  { stop_hook_active: boolean; last_assistant_message?: string }
>;
export type StopFailureHookInput = Input<
  'StopFailure',
  { error: string; error_details?: string; last_assistant_message?: string }
>;
export type SubagentStartHookInput = Input<
  'SubagentStart',
  { agent_id: string; agent_type: string }
>;
export type SubagentStopHookInput = Input<
  'SubagentStop',
  {
    stop_hook_active: boolean;
    agent_id: string;
    agent_type: string;
    agent_transcript_path: string;
    last_assistant_message?: string;
  }
>;
export type NotificationHookInput = Input<
  'Notification',
  { message: string; title?: string; notification_type: string }
>;
export type PermissionRequestHookInput = Input<
  'PermissionRequest',
  { tool_name: string; tool_input: unknown; permission_suggestions?: PermissionUpdate[] }
>;
export type PermissionDeniedHookInput = Input<'PermissionDenied', ToolInput & { reason: string }>;
export type PreCompactHookInput = Input<
  'PreCompact',
  { trigger: 'manual' | 'auto'; custom_instructions: string | null }
>;
export type PostCompactHookInput = Input<
  'PostCompact',
  { trigger: 'manual' | 'auto'; compact_summary: string }
>;
export type ElicitationHookInput = Input<
  'Elicitation',
  {
    mcp_server_name: string;
    message: string;
    mode?: 'form' | 'url';
    url?: string;
    elicitation_id?: string;
    requested_schema?: Record<string, unknown>;
  }
>;
export type ElicitationResultHookInput = Input<
  'ElicitationResult',
  {
    mcp_server_name: string;
    action: 'accept' | 'decline' | 'cancel';
    mode?: 'form' | 'url';
    elicitation_id?: string;
    content?: Record<string, unknown>;
  }
>;

type Described =
  | PreToolUseHookInput
  | PostToolUseHookInput
  | PostToolUseFailureHookInput
  | PostToolBatchHookInput
  | UserPromptSubmitHookInput
  | SessionStartHookInput
  | SessionEndHookInput
  | StopHookInput
  | StopFailureHookInput
  | SubagentStartHookInput
  | SubagentStopHookInput
  | NotificationHookInput
  | PermissionRequestHookInput
  | PermissionDeniedHookInput
  | PreCompactHookInput
  | PostCompactHookInput
  | ElicitationHookInput
  | ElicitationResultHookInput;

type OtherEvent = Exclude<HookEvent, Described['hook_event_name']>;

/** What the CLI tells a hook; the fields of the event are beside the common ones. */
export type HookInput = Described | Input<OtherEvent, { readonly [field: string]: unknown }>;

/** Why a session ended. */
export type ExitReason =
  | 'clear'
  | 'resume'
  | 'logout'
  | 'prompt_input_exit'
  | 'other'
  | 'bypass_permissions_disabled';

export type HookPermissionDecision = 'allow' | 'deny' | 'ask' | 'defer';

export type PreToolUseHookSpecificOutput = {
  hookEventName: 'PreToolUse';
  permissionDecision?: HookPermissionDecision;
  permissionDecisionReason?: string;
  updatedInput?: Record<string, unknown>;
  additionalContext?: string;
};

export type PostToolUseHookSpecificOutput = {
  hookEventName: 'PostToolUse';
  additionalContext?: string;
  /** What the model sees instead. */
  updatedToolOutput?: unknown;
  /** The same, under the name that only tools of MCP servers had. */
  updatedMCPToolOutput?: unknown;
};

export type UserPromptSubmitHookSpecificOutput = {
  hookEventName: 'UserPromptSubmit';
  additionalContext?: string;
  sessionTitle?: string;
};

export type SessionStartHookSpecificOutput = {
  hookEventName: 'SessionStart';
  additionalContext?: string;
  initialUserMessage?: string;
  watchPaths?: string[];
};

export type PermissionRequestHookSpecificOutput = {
  hookEventName: 'PermissionRequest';
  decision:
    | {
        behavior: 'allow';
        updatedInput?: Record<string, unknown>;
        updatedPermissions?: PermissionUpdate[];
      }
    | { behavior: 'deny'; message?: string; interrupt?: boolean };
};

type DescribedOutput =
  | PreToolUseHookSpecificOutput
  | PostToolUseHookSpecificOutput
  | UserPromptSubmitHookSpecificOutput
  | SessionStartHookSpecificOutput
  | PermissionRequestHookSpecificOutput;

type OtherOutput = {
  hookEventName: Exclude<HookEvent, DescribedOutput['hookEventName']>;
  [field: string]: unknown;
};

/** Lets the CLI go on at once. */
export type AsyncHookJSONOutput = { async: true; asyncTimeout?: number };

/** `{}` is no opinion. */
export type SyncHookJSONOutput = {
  continue?: boolean;
  suppressOutput?: boolean;
  stopReason?: string | undefined;
  decision?: 'approve' | 'block';
  systemMessage?: string;
  reason?: string;
  hookSpecificOutput?: DescribedOutput | OtherOutput;
};

export type HookJSONOutput = AsyncHookJSONOutput | SyncHookJSONOutput;

/** `signal` aborts when the CLI no longer waits: its `timeout` passed, or the turn was interrupted. */
export type HookCallback = (
  input: HookInput,
  toolUseID: string | undefined,
  options: { signal: AbortSignal },
) => Promise<HookJSONOutput> | HookJSONOutput;

export interface HookCallbackMatcher {
  /** Names of tools, as the CLI matches them. */
  matcher?: string;
  hooks: readonly HookCallback[];
  /** Seconds. */
  timeout?: number;
  /** What a hook that throws or gives a bad answer does to the action; `block` needs a CLI that can. */
  onFailure?: 'block' | 'continue';
}

export type HookOptions = Readonly<Partial<Record<HookEvent, readonly HookCallbackMatcher[]>>>;
