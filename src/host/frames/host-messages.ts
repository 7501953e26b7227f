import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { SDKUserMessage } from '../sdk-types/message-types.ts';

/**
 * A message of the host on the message lane; it has `type: 'system'` and `host: true`.
 *
 * - `tool_response_lost`: a response could not reach the CLI (`request_id`, `request`, `reason`)
 * - `stalled`: no frame for `silent_ms` although work is open (`holding`)
 * - `noise`: a line of stdout that is not a JSON object (`text`, `reason`)
 * - `permission_decision`: a tool was allowed or denied (`behavior`, `by`, `reason`)
 * - `mcp_server_not_listed`: a declared in-process server is not connected (`server`, `status`)
 * - `session_id_mismatch`: the CLI opened another session than requested (`asked`, `session_id`)
 * - `mirror_error`: the session store failed, entries are lost (`error`, `key`)
 * - `trace_ended`: the trace file can no longer be written and ends (`error`)
 * - `turns_merged`: turns ended inside another turn, without a result of their own
 * - `input_ended`, `exited` (`code`, `signal`): stdin was closed, the process exited; for taps and
 *   traces only
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

/** Creates a message of the host. */
export const hostMessage = (subtype: HostMessageSubtype, fields: JsonObject): HostMessage => ({
  type: 'system',
  subtype,
  host: true,
  ...fields,
});

/**
 * Whether a message is for the host only. The official SDK hides the same messages from the app.
 */
export function isInternal(data: JsonObject): boolean {
  const type = data['type'];
  if (type === 'keep_alive' || type === 'transcript_mirror') return true;
  return type === 'system' && data['sdk_host_only'] === true;
}

/**
 * A prompt as a user message in the complete form of the wire, with its own uuid or a new one.
 * `verbatim` marks it as text that is not typed by a person, in which no command is expanded.
 */
export function userFrame(
  prompt: string | JsonObject,
  { verbatim }: { readonly verbatim?: boolean | undefined } = {},
): JsonObject & { readonly uuid: string } {
  const given: JsonObject =
    typeof prompt === 'string'
      ? { type: 'user', message: { role: 'user', content: [{ type: 'text', text: prompt }] } }
      : prompt;
  checkMessage(given);
  const uuid = typeof given['uuid'] === 'string' ? given['uuid'] : randomUUID();
  const marked = verbatim ? { client_composed: true } : {};
  return { session_id: '', parent_tool_use_id: null, ...given, ...marked, uuid };
}

/**
 * Throws `invalid` for a message of another form. The CLI would exit immediately when it reads it.
 */
function checkMessage(given: unknown): void {
  const message = isObject(given) && given['type'] === 'user' ? given['message'] : undefined;
  if (isObject(message) && message['role'] === 'user' && message['content'] !== undefined) return;
  throw new DuolaneError(
    'invalid',
    "a user message must be { type: 'user', message: { role: 'user', content } }",
  );
}

/** A stream with one user message, for functions that accept only a stream. */
export async function* asStream(text: string): AsyncGenerator<SDKUserMessage, void, undefined> {
  yield {
    type: 'user',
    session_id: '',
    message: { role: 'user', content: [{ type: 'text', text }] },
    parent_tool_use_id: null,
  };
}

/**
 * Whether a message is a turn boundary: a result, the cancellation of a queued message, or the
 * host's report that turns were merged. `TurnTracker.observe` gives each boundary the number of the
 * turn that it ends, and the reader counts the boundaries.
 */
export const mayEndTurn = (message: JsonObject): boolean => {
  const type = message['type'];
  if (type === 'result') return true;
  if (type === 'command_lifecycle') return message['state'] === 'cancelled';
  return type === 'system' && message['subtype'] === 'turns_merged';
};
