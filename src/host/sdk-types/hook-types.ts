import type { PermissionUpdate } from './permission-types.ts';

/** The events that a hook can listen to. The CLI decides which of them it fires. */
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

/** The fields that every hook gets from the CLI. */
export type BaseHookInput = {
  session_id: string;
  transcript_path: string;
  cwd: string;
  prompt_id?: string;
  permission_mode?: string;
  /** Set if the event comes from a subagent. */
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
/** Fired after all tool calls of one model message. */
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

export type SetupHookInput = Input<'Setup', { trigger: 'init' | 'maintenance' }>;
export type UserPromptExpansionHookInput = Input<
  'UserPromptExpansion',
  { prompt: string; command_name: string; command_args: string; expansion_type: string }
>;
/** A member of a team has nothing to do. */
export type TeammateIdleHookInput = Input<
  'TeammateIdle',
  { teammate_name: string; team_name: string }
>;
type TeamTask = {
  task_id: string;
  task_subject: string;
  task_description?: string;
  teammate_name?: string;
  team_name?: string;
};
export type TaskCreatedHookInput = Input<'TaskCreated', TeamTask>;
export type TaskCompletedHookInput = Input<'TaskCompleted', TeamTask>;
export type ConfigChangeHookInput = Input<'ConfigChange', { source: string; file_path?: string }>;
export type CwdChangedHookInput = Input<'CwdChanged', { old_cwd: string; new_cwd: string }>;
export type FileChangedHookInput = Input<
  'FileChanged',
  { file_path: string; event: 'change' | 'add' | 'unlink' }
>;
export type InstructionsLoadedHookInput = Input<
  'InstructionsLoaded',
  { file_path: string; memory_type: string; load_reason: string; globs?: string[] }
>;
export type WorktreeCreateHookInput = Input<'WorktreeCreate', { name: string }>;
export type WorktreeRemoveHookInput = Input<'WorktreeRemove', { worktree_path: string }>;

type Described =
  | SetupHookInput
  | UserPromptExpansionHookInput
  | TeammateIdleHookInput
  | TaskCreatedHookInput
  | TaskCompletedHookInput
  | ConfigChangeHookInput
  | CwdChangedHookInput
  | FileChangedHookInput
  | InstructionsLoadedHookInput
  | WorktreeCreateHookInput
  | WorktreeRemoveHookInput
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

/** The input of a hook: the common fields and those of its event. */
export type HookInput = Described | Input<OtherEvent, { readonly [field: string]: unknown }>;

/** The reasons of a SessionEnd hook. */
export const EXIT_REASONS = ['clear', 'resume', 'logout', 'prompt_input_exit', 'other'] as const;

/** Why a session ended. */
export type ExitReason = (typeof EXIT_REASONS)[number] | 'bypass_permissions_disabled';

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
  /** The output that the model sees instead of the tool's own. */
  updatedToolOutput?: unknown;
  /** The same as `updatedToolOutput`, under the older name that only tools of MCP servers had. */
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

/** An output that adds a text to what the model gets. */
type ContextOutput<Event extends HookEvent> = { hookEventName: Event; additionalContext?: string };

export type SetupHookSpecificOutput = ContextOutput<'Setup'>;
export type SubagentStartHookSpecificOutput = ContextOutput<'SubagentStart'>;
export type NotificationHookSpecificOutput = ContextOutput<'Notification'>;
export type PostToolUseFailureHookSpecificOutput = ContextOutput<'PostToolUseFailure'>;
export type PostToolBatchHookSpecificOutput = ContextOutput<'PostToolBatch'>;
export type UserPromptExpansionHookSpecificOutput = ContextOutput<'UserPromptExpansion'>;
export type StopHookSpecificOutput = ContextOutput<'Stop'>;
export type SubagentStopHookSpecificOutput = ContextOutput<'SubagentStop'>;
export type PermissionDeniedHookSpecificOutput = {
  hookEventName: 'PermissionDenied';
  /** The model may try the call again. */
  retry?: boolean;
};
type AnsweringOutput<Event extends HookEvent> = {
  hookEventName: Event;
  action?: 'accept' | 'decline' | 'cancel';
  content?: Record<string, unknown>;
};
export type ElicitationHookSpecificOutput = AnsweringOutput<'Elicitation'>;
export type ElicitationResultHookSpecificOutput = AnsweringOutput<'ElicitationResult'>;
type WatchingOutput<Event extends HookEvent> = { hookEventName: Event; watchPaths?: string[] };
export type CwdChangedHookSpecificOutput = WatchingOutput<'CwdChanged'>;
export type FileChangedHookSpecificOutput = WatchingOutput<'FileChanged'>;
export type WorktreeCreateHookSpecificOutput = {
  hookEventName: 'WorktreeCreate';
  worktreePath: string;
};

type DescribedOutput =
  | SetupHookSpecificOutput
  | SubagentStartHookSpecificOutput
  | NotificationHookSpecificOutput
  | PostToolUseFailureHookSpecificOutput
  | PostToolBatchHookSpecificOutput
  | UserPromptExpansionHookSpecificOutput
  | StopHookSpecificOutput
  | SubagentStopHookSpecificOutput
  | PermissionDeniedHookSpecificOutput
  | ElicitationHookSpecificOutput
  | ElicitationResultHookSpecificOutput
  | CwdChangedHookSpecificOutput
  | FileChangedHookSpecificOutput
  | WorktreeCreateHookSpecificOutput
  | PreToolUseHookSpecificOutput
  | PostToolUseHookSpecificOutput
  | UserPromptSubmitHookSpecificOutput
  | SessionStartHookSpecificOutput
  | PermissionRequestHookSpecificOutput;

type OtherOutput = {
  hookEventName: Exclude<HookEvent, DescribedOutput['hookEventName']>;
  [field: string]: unknown;
};

/** The CLI continues immediately and does not wait for the hook's work. */
export type AsyncHookJSONOutput = { async: true; asyncTimeout?: number };

/** The result of a hook. `{}` changes nothing. */
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

/**
 * A function that the CLI calls for an event. `signal` aborts when the CLI no longer waits for it:
 * its `timeout` passed, or the turn was interrupted.
 */
export type HookCallback = (
  input: HookInput,
  toolUseID: string | undefined,
  options: { signal: AbortSignal },
) => Promise<HookJSONOutput> | HookJSONOutput;

export interface HookCallbackMatcher {
  /** A pattern of tool names; the CLI does the matching. Without it the hook gets every call. */
  matcher?: string;
  hooks: readonly HookCallback[];
  /** How many seconds the CLI waits for the hooks. */
  timeout?: number;
  /**
   * What happens to the action when a hook throws or returns an invalid result. With `block` the
   * session fails to open on a CLI that does not support it, because the action would then run
   * unchecked.
   */
  onFailure?: 'block' | 'continue';
}

export type HookOptions = Readonly<Partial<Record<HookEvent, readonly HookCallbackMatcher[]>>>;
