import { asObject, asString, type JsonObject } from '../json.ts';

/** What a control request is about, read from its untrusted fields. */
export interface ControlDescription {
  readonly subtype: string;
  /** The MCP server of an `mcp_message` or an `elicitation`. */
  readonly server?: string;
  /** The JSON-RPC method of an `mcp_message`; missing if it carries a response. */
  readonly method?: string;
  /** The tool (or prompt) that is called, or that needs a permission. */
  readonly tool?: string;
  /** The event of a hook. */
  readonly event?: string;
  /** The callback of a hook. */
  readonly callback?: string;
}

/** Reads what a control request is about. Fields of the wrong type are missing in the result. */
export function describeControl(request: JsonObject): ControlDescription {
  const subtype = asString(request['subtype']);
  const fields: Record<string, unknown> = {};
  switch (subtype) {
    case 'mcp_message': {
      const message = asObject(request['message']);
      fields['server'] = request['server_name'];
      fields['method'] = message['method'];
      fields['tool'] = asObject(message['params'])['name'];
      break;
    }
    case 'can_use_tool':
      fields['tool'] = request['tool_name'];
      break;
    case 'hook_callback':
      fields['event'] = asObject(request['input'])['hook_event_name'];
      fields['callback'] = request['callback_id'];
      break;
    case 'elicitation':
      fields['server'] = request['mcp_server_name'];
      break;
  }
  const texts = Object.entries(fields).filter(([, value]) => typeof value === 'string');
  return { subtype, ...(Object.fromEntries(texts) as Omit<ControlDescription, 'subtype'>) };
}

/** A control request in a few words, as `Session.holding` and the doctor name it. */
export function controlLabel(description: ControlDescription): string {
  const { subtype, server = 'an unnamed server', method = 'a response', tool } = description;
  switch (subtype) {
    case 'mcp_message':
      return `${method}${tool === undefined ? '' : ` ${tool}`} on ${server}`;
    case 'can_use_tool':
      return `permission for ${tool ?? 'an unnamed tool'}`;
    case 'hook_callback':
      return `hook ${description.callback ?? description.event ?? 'without a name'}`;
    case 'elicitation':
      return `elicitation of ${server}`;
    default:
      return subtype;
  }
}
