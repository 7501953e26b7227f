import type { Frame } from '../event/types.ts';
import { asArray, asObject, type JsonObject } from '../json.ts';
import { controlLabel, describeControl } from '../wire/describe-control.ts';

/** A frame as one line of text. A response also has the time that its request was pending. */
export interface FrameDescription {
  readonly lane: 'MSG' | 'CTRL';
  /** `→`: host to CLI; `←`: CLI to host. */
  readonly arrow: '→' | '←';
  readonly text: string;
  readonly ms?: number;
  /** True for a lost response, an error and an invalid line. */
  readonly bad: boolean;
}

const EXCERPT = 120;

/**
 * Creates a function that describes frames in their order. It remembers pending requests, so that
 * the description of a response names its request. Its memory is that of the pending requests.
 */
export function frameDescriber(): (frame: Frame) => FrameDescription {
  const pending = new Map<string, { readonly what: string; readonly at: number }>();

  const describeControlFrame = ({ direction, data, at }: Frame): Description => {
    const request = asObject(data['request']);
    const response = asObject(data['response']);
    switch (data['type']) {
      case 'control_request': {
        const what = describeRequest(request);
        pending.set(`${direction} ${String(data['request_id'])}`, { what, at });
        return { text: `${what}${detail(request)}` };
      }
      case 'control_response': {
        const id = String(response['request_id'] ?? data['request_id']);
        const key = `${direction === 'in' ? 'out' : 'in'} ${id}`;
        const request = pending.get(key);
        pending.delete(key);
        const failed = response['subtype'] === 'error';
        const what = request?.what ?? `an unknown request (${id})`;
        return {
          text: failed
            ? `error response to ${what}: ${text(response['error'])}`
            : `response to ${what}`,
          ...(request && { ms: at - request.at }),
          bad: failed || !request,
        };
      }
      case 'control_cancel_request':
        return {
          text: `cancel of ${pending.get(`${direction} ${String(data['request_id'])}`)?.what ?? 'an unknown request'}`,
        };
      default:
        return { text: text(data['type']) };
    }
  };

  return (frame) => {
    const { lane, direction, data, lost } = frame;
    const described = lane === 'control' ? describeControlFrame(frame) : describeMessage(data);
    return {
      lane: lane === 'control' ? 'CTRL' : 'MSG',
      arrow: direction === 'in' ? '←' : '→',
      ...described,
      text: truncateText(lost ? `LOST ${described.text}` : described.text),
      bad: lost === true || described.bad === true,
    };
  };
}

interface Description {
  readonly text: string;
  readonly ms?: number;
  readonly bad?: boolean;
}

/** A control request in a few words: its subtype, or the MCP method, the server and the tool. */
export const describeRequest = (request: JsonObject): string =>
  controlLabel(describeControl(request));

function detail(request: JsonObject): string {
  const params = asObject(asObject(request['message'])['params']);
  const args = request['subtype'] === 'can_use_tool' ? request['input'] : params['arguments'];
  return args === undefined ? '' : ` ${JSON.stringify(args)}`;
}

function describeMessage(data: JsonObject): Description {
  const kind = [data['type'], data['subtype']].filter((part) => typeof part === 'string').join('/');
  switch (data['type']) {
    case 'assistant':
    case 'user':
      return { text: `${kind} ${contentText(asObject(data['message'])['content'])}` };
    case 'stream_event':
      return { text: `${kind} ${eventText(asObject(data['event']))}` };
    case 'result': {
      const words = text(data['result'] ?? (data['errors'] as unknown[] | undefined)?.join('; '));
      return { text: `${kind} ${words}`, bad: data['is_error'] === true };
    }
    case 'system':
      if (data['host'] !== true) return { text: kind };
      return {
        text: `${kind} ${text(data['text'] ?? data['reason'] ?? data['code'] ?? data['signal'])}`,
        bad: BAD.has(text(data['subtype'])),
      };
    default:
      return { text: kind || 'message without a type' };
  }
}

const BAD: ReadonlySet<string> = new Set(['noise', 'tool_response_lost', 'stalled']);

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  return asArray(content)
    .map((block) => {
      const { type, text: words, name, input, tool_use_id: id, is_error } = asObject(block);
      if (type === 'text') return text(words);
      if (type === 'tool_use') return `calls ${text(name)} ${JSON.stringify(input)}`;
      if (type === 'tool_result')
        return `${is_error === true ? 'failed' : 'result'} of ${text(id)}`;
      return text(type);
    })
    .join(' ');
}

function eventText(event: JsonObject): string {
  const delta = asObject(event['delta']);
  const words = delta['text'] ?? delta['partial_json'] ?? delta['thinking'];
  return words === undefined ? text(event['type']) : JSON.stringify(words);
}

const truncateText = (words: string): string => {
  const line = words.replace(/\s+/g, ' ').trim();
  return line.length > EXCERPT ? `${line.slice(0, EXCERPT - 1)}…` : line;
};

const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
