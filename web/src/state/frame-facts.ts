import type { Frame } from '../../../src/event/types.ts';
import { asObject, asString, type JsonObject } from '../../../src/json.ts';
import { describeControl } from '../../../src/wire/describe-control.ts';

/** A control frame as the timeline shows it. `id` joins a request and its response. */
export interface FrameFacts {
  readonly kind: 'request' | 'response' | 'cancel' | 'other';
  readonly id?: string;
  readonly label: string;
  /** The response is an error. */
  readonly failed?: true;
  /** The request is a tool call. The timeline shows it as the bar of that call, not as a row. */
  readonly isToolCall?: true;
}

export function readFrame({ data }: Frame): FrameFacts {
  const type = asString(data['type']);
  if (type === 'control_request') return readRequest(data);
  if (type === 'control_response') return readResponse(data);
  if (type === 'control_cancel_request') return { kind: 'cancel', ...idOf(data), label: 'cancel' };
  // A message of the CLI or the host that is not part of the control protocol, e.g. a decision
  // about a call.
  const name = type === 'system' ? asString(data['subtype']) : type;
  return { kind: 'other', label: name.replaceAll('_', ' ') || 'frame' };
}

function readRequest(data: JsonObject): FrameFacts {
  const request = describeControl(asObject(data['request']));
  const { subtype, server = '', method = 'response', tool = '', event, callback = '' } = request;
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

function readResponse(data: JsonObject): FrameFacts {
  const response = asObject(data['response']);
  const failed = response['subtype'] === 'error';
  return {
    kind: 'response',
    ...idOf(response),
    label: failed ? `error: ${asString(response['error'])}` : 'response',
    ...(failed && { failed }),
  };
}

/** Formats the name of an MCP tool: `mcp__notes__lookup` becomes `notes · lookup`. */
export const displayToolName = (name: string): string =>
  name.replace(/^mcp__/, '').replace('__', ' · ');

/** The name without its server: `notes · lookup` becomes `lookup`. */
export const shortName = (name: string): string => name.replace(/^.* · /, '');

const idOf = (data: JsonObject): { readonly id?: string } =>
  typeof data['request_id'] === 'string' ? { id: data['request_id'] } : {};
