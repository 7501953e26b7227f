import type { Frame } from '../../../src/event/types.ts';
import { isObject, type JsonObject } from '../../../src/json.ts';

/** What a control frame is, in the words of the timeline. `id` joins a request and its answer. */
export interface FrameFacts {
  readonly kind: 'request' | 'answer' | 'cancel' | 'other';
  readonly id?: string;
  readonly label: string;
  /** The answer is an error. */
  readonly failed?: true;
  /** The request is the tool call itself, which the timeline shows as the call's own bar. */
  readonly isToolCall?: true;
}

export function readFrame({ data }: Frame): FrameFacts {
  const type = word(data['type']);
  if (type === 'control_request') return readRequest(data);
  if (type === 'control_response') return readAnswer(data);
  if (type === 'control_cancel_request')
    return { kind: 'cancel', ...idOf(data), label: 'take back' };
  // A message of the CLI or the host that the log keeps: a decision about a call.
  const name = type === 'system' ? word(data['subtype']) : type;
  return { kind: 'other', label: name.replaceAll('_', ' ') || 'frame' };
}

function readRequest(data: JsonObject): FrameFacts {
  const request = object(data['request']);
  const message = object(request['message']);
  const method = word(message['method']);
  const base = { kind: 'request', ...idOf(data) } as const;
  switch (request['subtype']) {
    case 'mcp_message': {
      const label = `${word(request['server_name'])}: ${method || 'answer'}`;
      return method === 'tools/call' ? { ...base, label, isToolCall: true } : { ...base, label };
    }
    case 'can_use_tool':
      return { ...base, label: `permission: ${displayToolName(word(request['tool_name']))}` };
    case 'hook_callback': {
      const event = word(object(request['input'])['hook_event_name']);
      return { ...base, label: `hook: ${event || word(request['callback_id'])}` };
    }
    default:
      return { ...base, label: word(request['subtype']).replaceAll('_', ' ') || 'request' };
  }
}

function readAnswer(data: JsonObject): FrameFacts {
  const response = object(data['response']);
  const failed = response['subtype'] === 'error';
  return {
    kind: 'answer',
    ...idOf(response),
    label: failed ? `error: ${word(response['error'])}` : 'answer',
    ...(failed && { failed }),
  };
}

/** `mcp__notes__lookup` is `notes · lookup`. */
export const displayToolName = (name: string): string =>
  name.replace(/^mcp__/, '').replace('__', ' · ');

/** `notes · lookup` where the server goes without saying. */
export const shortName = (name: string): string => name.replace(/^.* · /, '');

const object = (value: unknown): JsonObject => (isObject(value) ? value : {});
const word = (value: unknown): string => (typeof value === 'string' ? value : '');
const idOf = (data: JsonObject): { readonly id?: string } =>
  typeof data['request_id'] === 'string' ? { id: data['request_id'] } : {};
