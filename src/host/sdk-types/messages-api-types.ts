/** Marks the end of a prefix that the provider may cache. */
export interface CacheControl {
  type: 'ephemeral';
  ttl?: '5m' | '1h';
}

export interface TextBlock {
  type: 'text';
  text: string;
  citations?: unknown;
}

export interface ThinkingBlock {
  type: 'thinking';
  thinking: string;
  signature: string;
}

/** Thinking that the provider encrypted. Send it back unchanged. */
export interface RedactedThinkingBlock {
  type: 'redacted_thinking';
  data: string;
}

/** A tool call. The provider itself runs those of type `server_tool_use` and `mcp_tool_use`. */
export interface ToolUseBlock {
  type: 'tool_use' | 'server_tool_use' | 'mcp_tool_use';
  id: string;
  /** The name that the model sees: `mcp__server__tool`, or a built-in name. */
  name: string;
  input: unknown;
}

/** Results of the provider's own tools, and kinds that few programs read. */
export interface OtherBlock {
  type:
    | 'advisor_tool_result'
    | 'bash_code_execution_tool_result'
    | 'code_execution_tool_result'
    | 'compaction'
    | 'container_upload'
    | 'mcp_tool_result'
    | 'text_editor_code_execution_tool_result'
    | 'tool_search_tool_result'
    | 'web_fetch_tool_result'
    | 'web_search_tool_result';
}

/** A content block of a model message, in the form of the Messages API. */
export type ContentBlock =
  | TextBlock
  | ThinkingBlock
  | RedactedThinkingBlock
  | ToolUseBlock
  | OtherBlock;

export interface ImageBlockParam {
  type: 'image';
  source:
    | {
        type: 'base64';
        media_type: 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp';
        data: string;
      }
    | { type: 'url'; url: string }
    | { type: 'file'; file_id: string };
  cache_control?: CacheControl | null;
}

export interface DocumentBlockParam {
  type: 'document';
  source: object;
  title?: string | null;
  context?: string | null;
  cache_control?: CacheControl | null;
}

export interface ToolResultBlockParam {
  type: 'tool_result';
  tool_use_id: string;
  content?: string | ContentBlockParam[];
  is_error?: boolean;
  cache_control?: CacheControl | null;
}

/** A content block that a message to the model may have, in the form of the Messages API. */
export type ContentBlockParam =
  | (TextBlock & { cache_control?: CacheControl | null })
  | ImageBlockParam
  | DocumentBlockParam
  | ToolResultBlockParam
  | ThinkingBlock
  | RedactedThinkingBlock
  | ToolUseBlock
  | OtherBlock
  | { type: 'search_result' | 'tool_reference' };

/** A message in the form that the Messages API accepts. */
export interface MessageParam {
  /** A CLI accepts `user` only. */
  role: 'user' | 'assistant' | 'system';
  content: string | ContentBlockParam[];
}

/** Tokens of one model call. */
export interface MessageUsage {
  input_tokens: number;
  output_tokens: number;
  cache_creation_input_tokens: number | null;
  cache_read_input_tokens: number | null;
  server_tool_use?: { web_search_requests: number; web_fetch_requests?: number } | null;
  service_tier?: string | null;
}

/** The `MessageUsage` of a complete turn: every member is set. */
export type NonNullableUsage = {
  [Key in keyof MessageUsage]-?: NonNullable<MessageUsage[Key]>;
};

export type StopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_use'
  | 'pause_turn'
  | 'compaction'
  | 'refusal'
  | 'model_context_window_exceeded';

/** A model message, or the part of it that has arrived so far. */
export interface ModelMessage {
  id: string;
  type: 'message';
  role: 'assistant';
  model: string;
  content: ContentBlock[];
  stop_reason: StopReason | null;
  stop_sequence: string | null;
  usage: MessageUsage;
}

/** An event of a model's stream, in the form of the Messages API. */
export type MessageStreamEvent =
  | { type: 'message_start'; message: ModelMessage }
  | { type: 'content_block_start'; index: number; content_block: ContentBlock }
  | { type: 'content_block_delta'; index: number; delta: ContentDelta }
  | { type: 'content_block_stop'; index: number }
  | {
      type: 'message_delta';
      delta: { stop_reason: StopReason | null; stop_sequence: string | null };
      usage: { output_tokens: number } & Partial<MessageUsage>;
    }
  | { type: 'message_stop' };

export type ContentDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'input_json_delta'; partial_json: string }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'citations_delta'; citation: unknown }
  | { type: 'compaction_delta'; content: string | null };
