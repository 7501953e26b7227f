import type { UUID } from 'node:crypto';
import type { SessionKey } from '../../wire/transcript.ts';
import type { SlashCommand } from './cli-info-types.ts';

// Messages about the CLI itself: what changed, what was stored, what the account allows.

type Notice<Rest> = { uuid: UUID; session_id: string } & Rest;
type SystemNotice<Subtype extends string, Rest> = Notice<
  { type: 'system'; subtype: Subtype } & Rest
>;

/** The slash commands changed, e.g. because a plugin was loaded. */
export type SDKCommandsChangedMessage = SystemNotice<
  'commands_changed',
  { commands: SlashCommand[] }
>;

/** A short text for the user, with a key that a later notification of the same kind repeats. */
export type SDKNotificationMessage = SystemNotice<
  'notification',
  {
    key: string;
    text: string;
    priority: 'low' | 'medium' | 'high' | 'immediate';
    color?: string;
    timeout_ms?: number;
  }
>;

export type SDKPluginInstallMessage = SystemNotice<
  'plugin_install',
  { status: 'started' | 'installed' | 'failed' | 'completed'; name?: string; error?: string }
>;

/** The CLI added memories to the conversation. */
export type SDKMemoryRecallMessage = SystemNotice<
  'memory_recall',
  {
    mode: 'select' | 'synthesize';
    memories: { path: string; scope: 'personal' | 'team'; content?: string }[];
  }
>;

/** Entries of the transcript did not reach the session store. */
export type SDKMirrorErrorMessage = SystemNotice<
  'mirror_error',
  { error: string; key: SessionKey }
>;

export type SDKFilesPersistedEvent = SystemNotice<
  'files_persisted',
  {
    files: { filename: string; file_id: string }[];
    failed: { filename: string; error: string }[];
    processed_at: string;
  }
>;

export type SDKAuthStatusMessage = Notice<{
  type: 'auth_status';
  isAuthenticating: boolean;
  output: string[];
  error?: string;
}>;

/** How much of the account's limit is used. Times are in seconds since 1970. */
export type SDKRateLimitInfo = {
  status: 'allowed' | 'allowed_warning' | 'rejected';
  resetsAt?: number;
  rateLimitType?: string;
  utilization?: number;
};

export type SDKRateLimitEvent = Notice<{
  type: 'rate_limit_event';
  rate_limit_info: SDKRateLimitInfo;
}>;

/** One sentence about several tool calls. */
export type SDKToolUseSummaryMessage = Notice<{
  type: 'tool_use_summary';
  summary: string;
  preceding_tool_use_ids: string[];
}>;

/** What the user may want to write next; with the option `promptSuggestions`. */
export type SDKPromptSuggestionMessage = Notice<{ type: 'prompt_suggestion'; suggestion: string }>;

export type SDKNoticeMessage =
  | SDKCommandsChangedMessage
  | SDKNotificationMessage
  | SDKPluginInstallMessage
  | SDKMemoryRecallMessage
  | SDKMirrorErrorMessage
  | SDKFilesPersistedEvent
  | SDKAuthStatusMessage
  | SDKRateLimitEvent
  | SDKToolUseSummaryMessage
  | SDKPromptSuggestionMessage;
