import type { Frame } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';

/** A frame in a few words, and how long its request has waited if it is an answer. */
export interface FrameDescription {
  readonly lane: 'MSG' | 'CTRL';
  /** `→`: host to CLI; `←`: CLI to host. */
  readonly arrow: '→' | '←';
  readonly text: string;
  readonly ms?: number;
  /** An answer that nobody got, an error, a line that is no protocol. */
  readonly bad: boolean;
}

const EXCERPT = 120;

/**
 * Puts frames into words, one after the other: it remembers what was asked, so that an answer says
 * what it answers. Memory: the requests that are open.
 */
export function frameDescriber(): (frame: Frame) => FrameDescription {
  const asked = new Map<string, { readonly what: string; readonly at: number }>();

  const controlWords = ({ direction, data, at }: Frame): Said => {
    const request = object(data['request']);
    const response = object(data['response']);
    switch (data['type']) {
      case 'control_request': {
        const what = describeRequest(request);
        asked.set(`${direction} ${String(data['request_id'])}`, { what, at });
        return { text: `${what}${detail(request)}` };
      }
      case 'control_response': {
        const id = String(response['request_id'] ?? data['request_id']);
        const key = `${direction === 'in' ? 'out' : 'in'} ${id}`;
        const request = asked.get(key);
        asked.delete(key);
        const failed = response['subtype'] === 'error';
        const what = request?.what ?? `nothing that waits (${id})`;
        return {
          text: failed ? `refused ${what}: ${text(response['error'])}` : `answer to ${what}`,
          ...(request && { ms: at - request.at }),
          bad: failed || !request,
        };
      }
      case 'control_cancel_request':
        return {
          text: `withdraws ${asked.get(`${direction} ${String(data['request_id'])}`)?.what ?? 'a request'}`,
        };
      default:
        return { text: text(data['type']) };
    }
  };

  return (frame) => {
    const { lane, direction, data, lost } = frame;
    const said = lane === 'control' ? controlWords(frame) : messageWords(data);
    return {
      lane: lane === 'control' ? 'CTRL' : 'MSG',
      arrow: direction === 'in' ? '←' : '→',
      ...said,
      text: truncateText(lost ? `LOST ${said.text}` : said.text),
      bad: lost === true || said.bad === true,
    };
  };
}

interface Said {
  readonly text: string;
  readonly ms?: number;
  readonly bad?: boolean;
}

/** What a control request is about: its subtype, or the MCP method, the server and the tool. */
export function describeRequest(request: JsonObject): string {
  if (request['subtype'] === 'can_use_tool') return `can_use_tool ${text(request['tool_name'])}`;
  if (request['subtype'] !== 'mcp_message') return text(request['subtype']);
  const message = object(request['message']);
  const name = object(message['params'])['name'];
  const what = `${text(message['method'] ?? 'an answer')}${typeof name === 'string' ? ` ${name}` : ''}`;
  return `${what} on ${text(request['server_name'])}`;
}

function detail(request: JsonObject): string {
  const params = object(object(request['message'])['params']);
  const args = request['subtype'] === 'can_use_tool' ? request['input'] : params['arguments'];
  return args === undefined ? '' : ` ${JSON.stringify(args)}`;
}

function messageWords(data: JsonObject): Said {
  const kind = [data['type'], data['subtype']].filter((word) => typeof word === 'string').join('/');
  switch (data['type']) {
    case 'assistant':
    case 'user':
      return { text: `${kind} ${contentWords(object(data['message'])['content'])}` };
    case 'stream_event':
      return { text: `${kind} ${eventWords(object(data['event']))}` };
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
      return { text: kind || 'a message without a type' };
  }
}

const BAD: ReadonlySet<string> = new Set(['noise', 'tool_response_lost', 'stalled']);

function contentWords(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((block: unknown) => {
      const { type, text: words, name, input, tool_use_id: id, is_error } = object(block);
      if (type === 'text') return text(words);
      if (type === 'tool_use') return `calls ${text(name)} ${JSON.stringify(input)}`;
      if (type === 'tool_result')
        return `${is_error === true ? 'failed' : 'result'} of ${text(id)}`;
      return text(type);
    })
    .join(' ');
}

function eventWords(event: JsonObject): string {
  const delta = object(event['delta']);
  const words = delta['text'] ?? delta['partial_json'] ?? delta['thinking'];
  return words === undefined ? text(event['type']) : JSON.stringify(words);
}

const truncateText = (words: string): string => {
  const line = words.replace(/\s+/g, ' ').trim();
  return line.length > EXCERPT ? `${line.slice(0, EXCERPT - 1)}…` : line;
};

const object = (value: unknown): JsonObject => (isObject(value) ? value : {});
const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
