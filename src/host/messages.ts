import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../json.ts';

/** What every message of the conversation carries. Unknown members are kept. */
interface Common extends JsonObject {
  readonly uuid: string;
  readonly session_id: string;
}

/** A user message as it is written to the CLI. Only `message` is needed. */
export interface SDKUserMessage extends JsonObject {
  readonly type: 'user';
  readonly message: {
    readonly role: 'user';
    readonly content: string | readonly JsonObject[];
  };
  readonly parent_tool_use_id?: string | null;
  readonly session_id?: string;
  readonly uuid?: string;
  readonly priority?: 'now' | 'next' | 'later';
  readonly shouldQuery?: boolean;
  readonly isSynthetic?: boolean;
  /** What a tool gave back, as the tool returned it, on messages from the CLI. */
  readonly tool_use_result?: unknown;
}

/** One finished content block of an answer; several share `message.id`. */
export interface SDKAssistantMessage extends Common {
  readonly type: 'assistant';
  readonly message: JsonObject & { readonly content: readonly JsonObject[] };
  readonly parent_tool_use_id: string | null;
  readonly error?: string;
  readonly aborted?: boolean;
}

interface ResultCommon extends Common {
  readonly type: 'result';
  readonly is_error: boolean;
  readonly num_turns: number;
  readonly duration_ms: number;
  readonly duration_api_ms: number;
  readonly total_cost_usd: number;
  readonly usage: JsonObject;
  readonly modelUsage: JsonObject;
  readonly permission_denials: readonly {
    readonly tool_name: string;
    readonly tool_use_id: string;
    readonly tool_input: JsonObject;
  }[];
  readonly stop_reason?: string | null;
  readonly terminal_reason?: string;
}

/** Ends a turn. `subtype: 'success'` with `is_error: true` is a failure: an API error. */
export type SDKResultMessage =
  | (ResultCommon & {
      readonly subtype: 'success';
      readonly result: string;
      readonly structured_output?: unknown;
    })
  | (ResultCommon & {
      readonly subtype:
        | 'error_during_execution'
        | 'error_max_turns'
        | 'error_max_budget_usd'
        | 'error_max_structured_output_retries';
      readonly errors: readonly string[];
    });

/** A raw event of the model's stream; only with `includePartialMessages`. */
export interface SDKPartialAssistantMessage extends Common {
  readonly type: 'stream_event';
  readonly event: JsonObject;
  readonly parent_tool_use_id: string | null;
}

/** At the start of every turn. */
export interface SDKSystemMessage extends Common {
  readonly type: 'system';
  readonly subtype: 'init';
  readonly cwd: string;
  readonly tools: readonly string[];
  readonly mcp_servers: readonly { readonly name: string; readonly status: string }[];
  readonly model: string;
  readonly permissionMode: string;
  readonly slash_commands: readonly string[];
  readonly apiKeySource: string;
}

/** Every other message, by its `type` and `subtype`; a newer CLI may send kinds that we do not know. */
export interface SDKOtherMessage extends JsonObject {
  readonly type:
    | 'system'
    | 'tool_progress'
    | 'tool_use_summary'
    | 'command_lifecycle'
    | 'conversation_reset'
    | 'prompt_suggestion'
    | 'rate_limit_event'
    | 'auth_status';
}

export type SDKMessage =
  | SDKUserMessage
  | SDKAssistantMessage
  | SDKResultMessage
  | SDKPartialAssistantMessage
  | SDKSystemMessage
  | SDKOtherMessage;

/**
 * Messages of our own on the message lane, told apart by `host: true`; all have `type: 'system'`.
 *
 * - `tool_response_lost`: an answer of ours reached nobody (`request_id`, `request`, `reason`)
 * - `stalled`: no frame for `silent_ms` although something is awaited (`holding`)
 * - `noise`: a line of stdout that is not protocol (`text`, `reason`)
 * - `permission_decision`: how a tool was allowed or denied, by whom and why
 * - `mcp_server_not_listed`: a declared in-process server is not connected (`server`, `status`)
 * - `session_id_mismatch`: another session than the one that was asked for (`asked`, `session_id`)
 * - `mirror_error`: the session store failed, entries are lost (`error`, `key`)
 * - `turns_merged`: turns ended inside another one, without a result of their own
 * - `input_ended`, `exited` (`code`, `signal`): of stdin and of the process; for taps and traces alone
 */
export interface HostMessage extends JsonObject {
  readonly type: 'system';
  readonly subtype: HostMessageSubtype;
  readonly host: true;
}

export type HostMessageSubtype =
  | 'tool_response_lost'
  | 'stalled'
  | 'noise'
  | 'permission_decision'
  | 'mcp_server_not_listed'
  | 'session_id_mismatch'
  | 'mirror_error'
  | 'turns_merged'
  | 'input_ended'
  | 'exited';

export const hostMessage = (subtype: HostMessageSubtype, fields: JsonObject): HostMessage => ({
  type: 'system',
  subtype,
  host: true,
  ...fields,
});

/** What is said to the host alone, as in the official SDK. */
export function isInternal(data: JsonObject): boolean {
  const type = data['type'];
  if (type === 'keep_alive' || type === 'transcript_mirror') return true;
  return type === 'system' && data['sdk_host_only'] === true;
}

/** A prompt as a user message in the full form of the wire, with a uuid: its own or a new one. */
export function userMessage(prompt: string | JsonObject): JsonObject & { readonly uuid: string } {
  const given: JsonObject =
    typeof prompt === 'string'
      ? { type: 'user', message: { role: 'user', content: [{ type: 'text', text: prompt }] } }
      : prompt;
  const uuid = typeof given['uuid'] === 'string' ? given['uuid'] : randomUUID();
  return { session_id: '', parent_tool_use_id: null, ...given, uuid };
}

/** A text as the one-element stream of user messages that it stands for. */
export async function* asStream(text: string): AsyncGenerator<SDKUserMessage, void, undefined> {
  yield {
    type: 'user',
    session_id: '',
    message: { role: 'user', content: [{ type: 'text', text }] },
    parent_tool_use_id: null,
  };
}
