import {
  type ModelUsage,
  type NonNullableUsage,
  query,
  type SDKAssistantMessage,
  type SDKCompactBoundaryMessage,
  type SDKMessage,
  type SDKPermissionDenial,
  type SDKResultError,
  type SDKResultSuccess,
  type SDKSystemMessage,
  type SDKUserMessage,
} from '@anthropic-ai/claude-agent-sdk';
import { show } from './show.ts';

let sessionId: string | undefined;

export async function shortest(): Promise<void> {
  for await (const message of query({ prompt: 'What is in this folder?' })) {
    if ('result' in message) show(message.result.trim());
  }
}

export async function readAll(): Promise<void> {
  for await (const message of query({ prompt: 'hello', options: { maxTurns: 3 } })) {
    if (message.type === 'system' && message.subtype === 'init') started(message);
    else if (message.type === 'assistant') said(message);
    else if (message.type === 'user') heard(message);
    else if (message.type === 'stream_event') {
      const { event } = message;
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
        show(event.delta.text.length, message.parent_tool_use_id);
      if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
        show(event.delta.partial_json);
      if (event.type === 'content_block_start' && event.content_block.type === 'tool_use')
        show(event.content_block.name, event.index);
      if (event.type === 'message_delta') show(event.delta.stop_reason, event.usage.output_tokens);
      if (event.type === 'message_start') show(event.message.id);
    } else if (message.type === 'result') ended(message);
    else if (message.type === 'tool_progress')
      show(message.tool_name, message.tool_use_id, message.elapsed_time_seconds.toFixed());
  }
}

function started(message: SDKSystemMessage): void {
  sessionId = message.session_id;
  const tools: string[] = message.tools;
  const failed = message.mcp_servers.filter((server) => server.status !== 'connected');
  show(tools.length, ...failed.map((server) => server.name), message.model, message.cwd);
  show(message.slash_commands.includes('compact'), message.permissionMode === 'plan');
}

function said({ message, uuid, parent_tool_use_id, error }: SDKAssistantMessage): void {
  let text = '';
  for (const block of message.content) {
    if (block.type === 'text') text += block.text;
    else if (block.type === 'thinking') show(block.thinking.length);
    else if (block.type === 'tool_use') show(block.name, block.id, JSON.stringify(block.input));
  }
  const tokens: number = message.usage.input_tokens + message.usage.output_tokens;
  const id: `${string}-${string}-${string}-${string}-${string}` = uuid;
  const parent: string | null = parent_tool_use_id;
  show(text, tokens, id, parent, message.id, message.model, message.stop_reason === 'end_turn');
  if (error === 'rate_limit' || error === 'authentication_failed') show(error);
}

function heard({ message: { content } }: SDKUserMessage): void {
  if (typeof content === 'string') return show(content);
  for (const block of content)
    if (block.type === 'tool_result') show(block.tool_use_id, block.is_error === true);
}

function ended(message: SDKResultSuccess | SDKResultError): void {
  if (message.subtype === 'success') show(message.result.trim(), message.structured_output);
  else show(message.subtype.startsWith('error_'), message.errors.join('; '));
  const usage: NonNullableUsage = message.usage;
  const perModel: Record<string, ModelUsage> = message.modelUsage;
  const denials: SDKPermissionDenial[] = message.permission_denials;
  for (const [name, each] of Object.entries(perModel))
    show(name, each.inputTokens + each.outputTokens, each.costUSD.toFixed(4));
  for (const denial of denials) show(denial.tool_name, denial.tool_use_id, denial.tool_input);
  show(message.total_cost_usd.toFixed(4), message.num_turns, message.duration_ms);
  show(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens);
}

export function describe(message: SDKMessage): string {
  switch (message.type) {
    case 'assistant':
    case 'user':
      return message.type;
    case 'result':
      return message.subtype === 'success' ? message.result : message.errors.join();
    case 'system':
      switch (message.subtype) {
        case 'init':
          return message.session_id;
        case 'compact_boundary':
          return boundary(message);
        case 'status':
          return message.status ?? 'idle';
        case 'api_retry':
          return `${message.attempt} of ${message.max_retries}: ${message.error_status ?? 'none'}`;
        case 'permission_denied':
          return `${message.tool_name}: ${message.message}`;
        case 'task_started':
          return `${message.task_id}: ${message.description}`;
        case 'task_notification':
          return message.status === 'completed' ? message.summary : message.status;
        case 'hook_response':
          return `${message.hook_name}: ${message.stdout}`;
        default:
          return message.subtype;
      }
    default:
      return message.type;
  }
}

const boundary = ({
  compact_metadata: { trigger, pre_tokens },
}: SDKCompactBoundaryMessage): string => `${trigger} at ${pre_tokens.toFixed()}`;

export const lastSession = (): string | undefined => sessionId;
