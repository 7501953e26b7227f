import type { UUID } from 'node:crypto';
import type {
  MessageParam,
  ModelMessage,
  NonNullableUsage,
  MessageStreamEvent,
} from './messages-api-types.ts';
import type { HookEvent } from './hook-types.ts';
import type { SDKNoticeMessage } from './notice-message-types.ts';
import type { PermissionMode } from './permission-types.ts';

// Types and not interfaces, so that a message is also a JsonObject: it may have members that are
// not listed here.

/** The fields of every message. */
type Common = { uuid: UUID; session_id: string };

/** A user message. The app sends prompts; the CLI sends tool results in the same form. */
export type SDKUserMessage = {
  type: 'user';
  message: MessageParam;
  parent_tool_use_id: string | null;
  session_id?: string;
  uuid?: UUID;
  priority?: 'now' | 'next' | 'later';
  shouldQuery?: boolean;
  isSynthetic?: boolean;
  /** The tool's own return value, on messages from the CLI. */
  tool_use_result?: unknown;
  timestamp?: string;
  origin?: unknown;
};

/** A message of a prompt: a user message of which only `message` is required. */
export type UserInput = Omit<SDKUserMessage, 'parent_tool_use_id' | 'uuid'> & {
  parent_tool_use_id?: string | null;
  uuid?: string;
};

/** A user message that the CLI echoes: with `--replay-user-messages`, and after local commands. */
export type SDKUserMessageReplay = SDKUserMessage & Common & { isReplay: true };

export type SDKAssistantMessageError =
  | 'authentication_failed'
  | 'billing_error'
  | 'rate_limit'
  | 'overloaded'
  | 'invalid_request'
  | 'model_not_found'
  | 'server_error'
  | 'max_output_tokens'
  | 'unknown';

/** One finished content block of a model message. Blocks of the same message share `message.id`. */
export type SDKAssistantMessage = Common & {
  type: 'assistant';
  message: ModelMessage;
  parent_tool_use_id: string | null;
  error?: SDKAssistantMessageError;
  aborted?: boolean;
  request_id?: string;
  timestamp?: string;
};

/** A raw event of the model's stream; only with `includePartialMessages`. */
export type SDKPartialAssistantMessage = Common & {
  type: 'stream_event';
  event: MessageStreamEvent;
  parent_tool_use_id: string | null;
  ttft_ms?: number;
};

export type SDKPermissionDenial = {
  tool_name: string;
  tool_use_id: string;
  tool_input: Record<string, unknown>;
};

/** Tokens and cost of one model in a session. */
export type ModelUsage = {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens: number;
  cacheCreationInputTokens: number;
  webSearchRequests: number;
  costUSD: number;
  contextWindow: number;
  maxOutputTokens: number;
};

type ResultCommon = Common & {
  type: 'result';
  is_error: boolean;
  num_turns: number;
  duration_ms: number;
  duration_api_ms: number;
  total_cost_usd: number;
  usage: NonNullableUsage;
  modelUsage: Record<string, ModelUsage>;
  permission_denials: SDKPermissionDenial[];
  stop_reason: string | null;
  terminal_reason?: string;
};

/**
 * A result with a text. With `is_error: true` the turn failed although the subtype is `success`: an
 * API error.
 */
export type SDKResultSuccess = ResultCommon & {
  subtype: 'success';
  result: string;
  structured_output?: unknown;
  api_error_status?: number | null;
};

export type SDKResultError = ResultCommon & {
  subtype:
    | 'error_during_execution'
    | 'error_max_turns'
    | 'error_max_budget_usd'
    | 'error_max_structured_output_retries';
  errors: string[];
};

/** The last message of a turn. */
export type SDKResultMessage = SDKResultSuccess | SDKResultError;

/** Where the CLI's API key comes from: one of these, or the name of an environment variable. */
export type ApiKeySource =
  | 'user'
  | 'project'
  | 'org'
  | 'temporary'
  | 'oauth'
  | 'none'
  | (string & {});

type System<Subtype extends string, Rest> = Common & { type: 'system'; subtype: Subtype } & Rest;

/** Sent at the start of every turn. */
export type SDKSystemMessage = System<
  'init',
  {
    cwd: string;
    tools: string[];
    mcp_servers: { name: string; status: string }[];
    model: string;
    permissionMode: PermissionMode;
    slash_commands: string[];
    apiKeySource: ApiKeySource;
    output_style: string;
    claude_code_version: string;
    agents?: string[];
    skills: string[];
    plugins: { name: string; path: string }[];
    betas?: string[];
  }
>;

export type SDKStatus = 'compacting' | 'requesting' | null;

export type SDKStatusMessage = System<
  'status',
  { status: SDKStatus; permissionMode?: PermissionMode; compact_error?: string }
>;

export type SDKCompactBoundaryMessage = System<
  'compact_boundary',
  { compact_metadata: { trigger: 'manual' | 'auto'; pre_tokens: number; post_tokens?: number } }
>;

export type SDKAPIRetryMessage = System<
  'api_retry',
  {
    attempt: number;
    max_retries: number;
    retry_delay_ms: number;
    error_status: number | null;
    error: SDKAssistantMessageError;
  }
>;

/** The CLI denied a tool call without a question to the host. */
export type SDKPermissionDeniedMessage = System<
  'permission_denied',
  { tool_name: string; tool_use_id: string; message: string; decision_reason?: string }
>;

/**
 * A permission decision of `duolane-agent` about a tool call, sent before the call runs. After an
 * `ask` comes the `allow` or `deny` that resulted from it. `input` is set if the call runs with
 * other arguments than the model gave.
 */
export type PolicyDecisionMessage = System<
  'policy_decision',
  {
    tool_name: string;
    tool_use_id: string;
    decision: 'allow' | 'deny' | 'ask';
    by:
      | 'rule'
      | 'mode'
      | 'workingDir'
      | 'safe'
      | 'sandbox'
      | 'default'
      | 'hook'
      | 'answer'
      | 'schema'
      | 'interrupt';
    permission_mode: PermissionMode;
    rule?: string;
    message?: string;
    changed_by?: 'hook' | 'answer';
    input?: Record<string, unknown>;
    timestamp: string;
  }
>;

type TaskUsage = { total_tokens: number; tool_uses: number; duration_ms: number };

export type SDKTaskStartedMessage = System<
  'task_started',
  {
    task_id: string;
    tool_use_id?: string;
    description: string;
    task_type?: string;
    prompt?: string;
    subagent_type?: string;
  }
>;

export type SDKTaskProgressMessage = System<
  'task_progress',
  {
    task_id: string;
    tool_use_id?: string;
    description: string;
    usage: TaskUsage;
    last_tool_name?: string;
    summary?: string;
  }
>;

export type SDKTaskUpdatedMessage = System<
  'task_updated',
  { task_id: string; patch: { status?: string; description?: string; end_time?: number } }
>;

export type SDKTaskNotificationMessage = System<
  'task_notification',
  {
    task_id: string;
    tool_use_id?: string;
    status: 'completed' | 'failed' | 'stopped';
    output_file: string;
    summary: string;
    usage?: TaskUsage;
  }
>;

export type SDKBackgroundTasksChangedMessage = System<
  'background_tasks_changed',
  { tasks: { task_id: string; task_type: string; description: string }[] }
>;

type HookRun = { hook_id: string; hook_name: string; hook_event: HookEvent | (string & {}) };

export type SDKHookStartedMessage = System<'hook_started', HookRun>;

export type SDKHookProgressMessage = System<
  'hook_progress',
  HookRun & { stdout: string; stderr: string; output: string }
>;

export type SDKHookResponseMessage = System<
  'hook_response',
  HookRun & {
    stdout: string;
    stderr: string;
    output: string;
    exit_code?: number;
    outcome: 'success' | 'error' | 'cancelled';
  }
>;

export type SDKSessionStateChangedMessage = System<
  'session_state_changed',
  { state: 'idle' | 'running' | 'requires_action' }
>;

export type SDKInformationalMessage = System<
  'informational',
  { content: string; level: string; tag?: string }
>;

export type SDKLocalCommandOutputMessage = System<'local_command_output', { content: string }>;

export type SDKElicitationCompleteMessage = System<
  'elicitation_complete',
  { mcp_server_name: string; elicitation_id: string }
>;

/** Sent at intervals while a tool runs. */
export type SDKToolProgressMessage = Common & {
  type: 'tool_progress';
  tool_use_id: string;
  tool_name: string;
  parent_tool_use_id: string | null;
  elapsed_time_seconds: number;
  heartbeat?: boolean;
};

/**
 * Every other message, by its `type` and `subtype`. A newer CLI may send kinds that are not listed;
 * they are passed on unchanged.
 */
export type SDKOtherMessage = Partial<Common> &
  (
    | {
        type: 'system';
        subtype:
          | 'control_request_progress'
          | 'model_refusal_fallback'
          | 'model_refusal_no_fallback'
          | 'session_title_changed'
          | 'session_writes_lost'
          | 'stalled'
          | 'thinking_tokens'
          | 'tool_response_lost'
          | 'ui_invalidate'
          | 'worker_shutting_down';
      }
    | {
        type: 'active_goal' | 'command_lifecycle' | 'conversation_reset';
      }
  );

/** A message that `query` yields. */
export type SDKMessage =
  | SDKAssistantMessage
  | SDKUserMessage
  | SDKUserMessageReplay
  | SDKResultMessage
  | SDKSystemMessage
  | SDKPartialAssistantMessage
  | SDKStatusMessage
  | SDKCompactBoundaryMessage
  | SDKAPIRetryMessage
  | SDKPermissionDeniedMessage
  | SDKTaskStartedMessage
  | SDKTaskProgressMessage
  | SDKTaskUpdatedMessage
  | SDKTaskNotificationMessage
  | SDKBackgroundTasksChangedMessage
  | SDKHookStartedMessage
  | SDKHookProgressMessage
  | SDKHookResponseMessage
  | SDKSessionStateChangedMessage
  | SDKInformationalMessage
  | SDKLocalCommandOutputMessage
  | SDKElicitationCompleteMessage
  | SDKToolProgressMessage
  | SDKNoticeMessage
  | SDKOtherMessage;
