import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { SDKUserMessage } from '../sdk-types/message-types.ts';

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
 * - `trace_ended`: the trace file cannot be written any more and ends (`error`)
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
  | 'trace_ended'
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
export function userFrame(prompt: string | JsonObject): JsonObject & { readonly uuid: string } {
  const given: JsonObject =
    typeof prompt === 'string'
      ? { type: 'user', message: { role: 'user', content: [{ type: 'text', text: prompt }] } }
      : prompt;
  checkMessage(given);
  const uuid = typeof given['uuid'] === 'string' ? given['uuid'] : randomUUID();
  return { session_id: '', parent_tool_use_id: null, ...given, uuid };
}

/** A CLI leaves at once over a line that is no user message. */
function checkMessage(given: unknown): void {
  const message = isObject(given) && given['type'] === 'user' ? given['message'] : undefined;
  if (isObject(message) && message['role'] === 'user' && message['content'] !== undefined) return;
  throw new DuolaneError(
    'invalid',
    "a user message must be { type: 'user', message: { role: 'user', content } }",
  );
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

/**
 * Whether a message may end a turn: a result, the cancelling of a queued message, or our own note
 * that turns were merged. `TurnTracker.observe` gives each of these a number, and the reader counts them.
 */
export const mayEndTurn = (message: JsonObject): boolean => {
  const type = message['type'];
  if (type === 'result') return true;
  if (type === 'command_lifecycle') return message['state'] === 'cancelled';
  return type === 'system' && message['subtype'] === 'turns_merged';
};
