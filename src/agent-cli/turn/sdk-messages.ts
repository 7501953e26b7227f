import { type JsonObject, omitUndefined } from '../../json.ts';
import { apiMessage, type MessageBuilder } from './message-builder.ts';
import type { Block } from '../models/types.ts';
import type { CliSession } from '../session/cli-session.ts';
import type { AgentTool } from '../tools/types.ts';
import { VERSION } from '../version.ts';
import type { TurnEnding, TurnState } from './turn-state.ts';

/** Features beyond the base protocol, which a host can look up. */
export const CAPABILITIES = [
  'interrupt_receipt_v1',
  'interrupt_cancel_queued_v1',
  'msg_lifecycle_v1',
  'sdk_mcp_tools_list_changed',
  'sdk_mcp_manifests',
  'duolane_retry_discard_v1',
  'duolane_sdk_mcp_elicitation_v1',
  'duolane_resume_open_calls_v1',
] as const;

const uuidsOf = ({ uuids }: TurnState): JsonObject =>
  uuids.length > 0 ? { user_message_uuid: uuids.at(-1), user_message_uuids: uuids } : {};

export function initMessage(session: CliSession): JsonObject {
  const { choices, flags } = session.parts;
  return {
    type: 'system',
    subtype: 'init',
    cwd: session.parts.cwd,
    tools: session.tools().map(({ spec }) => spec.name),
    mcp_servers: session.parts.servers.list(),
    model: choices.model.model.name,
    permissionMode: choices.policy.mode,
    slash_commands: [],
    apiKeySource: choices.model.model.keySource,
    claude_code_version: VERSION,
    output_style: 'default',
    agents: [],
    skills: [],
    plugins: [],
    capabilities: CAPABILITIES,
    ...(flags.effort !== undefined && { effort: flags.effort }),
  };
}

/** The `assistant` line of one finished block. */
export function assistantMessage(
  session: CliSession,
  turn: TurnState,
  { id, usage }: Pick<MessageBuilder, 'id' | 'usage'>,
  block: Block,
  tools: ReadonlyMap<string, AgentTool>,
): JsonObject {
  const tool = block.type === 'tool_use' ? tools.get(String(block['name'])) : undefined;
  return {
    type: 'assistant',
    message: apiMessage({ id, model: session.parts.choices.model.model.name, usage }, [block]),
    parent_tool_use_id: null,
    timestamp: new Date().toISOString(),
    ...uuidsOf(turn),
    ...(tool?.server && {
      tool_use_meta: [
        {
          id: block['id'],
          display_name: tool.server.title,
          server_display_name: tool.server.name,
          tool_name: tool.server.tool,
        },
      ],
    }),
  };
}

export const userLine = (content: readonly Block[], extra: JsonObject = {}): JsonObject => ({
  type: 'user',
  message: { role: 'user', content },
  parent_tool_use_id: null,
  timestamp: new Date().toISOString(),
  ...extra,
});

/** Records a `user` message that the loop wrote itself, for the host and for the model. */
export function recordSyntheticMessage(
  session: CliSession,
  turn: TurnState,
  text: string,
  extra: JsonObject = {},
): void {
  const content = [{ type: 'text', text }];
  session.record(content, {
    toHost: userLine(content, extra),
    ...(extra['isSynthetic'] === true && { extra: { isMeta: true } }),
  });
  turn.userLines++;
}

export const streamEvent = (
  answer: Pick<MessageBuilder, 'id'>,
  event: JsonObject,
  extra: JsonObject,
): JsonObject => ({
  type: 'stream_event',
  event,
  parent_tool_use_id: null,
  api_message_id: answer.id,
  ...extra,
});

/** The `result` line, which ends a turn. */
export function resultMessage(
  session: CliSession,
  turn: TurnState,
  ending: TurnEnding,
): JsonObject {
  const {
    totals,
    parts: { choices },
  } = session;
  const success = ending.subtype === 'success';
  const name = choices.model.model.name;
  const used = turn.usage.input_tokens + turn.usage.output_tokens > 0;
  return {
    type: 'result',
    subtype: ending.subtype,
    is_error: !success || ending.failed === true,
    duration_ms: turn.now(),
    duration_api_ms: Math.round(turn.apiMs),
    num_turns: turn.steps === 0 ? 0 : 1 + turn.userLines,
    ...(success ? { result: ending.text ?? '' } : { errors: ending.errors ?? [] }),
    ...('structured' in ending && { structured_output: ending.structured }),
    ...(success && { api_error_status: ending.status ?? null }),
    stop_reason: turn.stopReason,
    terminal_reason: ending.reason,
    total_cost_usd: totals.costUsd,
    usage: turn.usage,
    modelUsage: used
      ? {
          [name]: {
            inputTokens: turn.usage.input_tokens,
            outputTokens: turn.usage.output_tokens,
            cacheReadInputTokens: turn.usage.cache_read_input_tokens,
            cacheCreationInputTokens: turn.usage.cache_creation_input_tokens,
            webSearchRequests: 0,
            costUSD: turn.costUsd,
            contextWindow: 0,
            maxOutputTokens: 0,
          },
        }
      : {},
    permission_denials: turn.denials,
    queued_turn_count: session.parts.queue.size,
    result_index: totals.results,
    ...uuidsOf(turn),
    ...omitUndefined({
      time_to_request_ms: turn.requestMs,
      // The time to the first token since the start of the turn, and since the model call.
      ttft_ms: turn.firstTokenMs,
      ttft_model_ms: turn.firstTokenOfCallMs,
    }),
  };
}
