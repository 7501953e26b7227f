import type { Frame } from '../../../src/event/types.ts';
import { asObject, asString, type JsonObject } from '../../../src/json.ts';
import { describeControl } from '../../../src/wire/describe-control.ts';

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
  const type = asString(data['type']);
  if (type === 'control_request') return readRequest(data);
  if (type === 'control_response') return readAnswer(data);
  if (type === 'control_cancel_request')
    return { kind: 'cancel', ...idOf(data), label: 'take back' };
  // A message of the CLI or the host that the log keeps: a decision about a call.
  const name = type === 'system' ? asString(data['subtype']) : type;
  return { kind: 'other', label: name.replaceAll('_', ' ') || 'frame' };
}

function readRequest(data: JsonObject): FrameFacts {
  const request = describeControl(asObject(data['request']));
  const { subtype, server = '', method = 'answer', tool = '', event, callback = '' } = request;
  const base = { kind: 'request', ...idOf(data) } as const;
  switch (subtype) {
    case 'mcp_message': {
      const label = `${server}: ${method}`;
      return method === 'tools/call' ? { ...base, label, isToolCall: true } : { ...base, label };
    }
    case 'can_use_tool':
      return { ...base, label: `permission: ${displayToolName(tool)}` };
    case 'hook_callback':
      return { ...base, label: `hook: ${event || callback}` };
    default:
      return { ...base, label: subtype.replaceAll('_', ' ') || 'request' };
  }
}

function readAnswer(data: JsonObject): FrameFacts {
  const response = asObject(data['response']);
  const failed = response['subtype'] === 'error';
  return {
    kind: 'answer',
    ...idOf(response),
    label: failed ? `error: ${asString(response['error'])}` : 'answer',
    ...(failed && { failed }),
  };
}

/** `mcp__notes__lookup` is `notes · lookup`. */
export const displayToolName = (name: string): string =>
  name.replace(/^mcp__/, '').replace('__', ' · ');

/** `notes · lookup` where the server goes without saying. */
export const shortName = (name: string): string => name.replace(/^.* · /, '');

const idOf = (data: JsonObject): { readonly id?: string } =>
  typeof data['request_id'] === 'string' ? { id: data['request_id'] } : {};
