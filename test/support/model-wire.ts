import type { JsonObject } from '../../src/json.ts';
import type { ModelReply } from './model-server.ts';

/** A reply in the format of one provider: a stream, a complete response, or an error. */
export interface ModelWire {
  /** Text blocks of the event stream, in order. */
  stream(reply: ModelReply, model: string): string[];
  /** The response to a request without `stream`. */
  whole(reply: ModelReply, model: string): unknown;
  error(type: string, message: string): unknown;
  /** An error inside a stream that began with status 200. */
  streamError(type: string, message: string): string;
}

export const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
};

export const errorType = (status: number): string => ERROR_TYPES[status] ?? 'api_error';

export const pieces = (text: string | readonly string[] | undefined): readonly string[] =>
  typeof text === 'string' ? (text.match(/\S*\s*/g)?.filter(Boolean) ?? []) : (text ?? []);

const halves = (json: string): string[] => {
  const middle = Math.ceil(json.length / 2);
  return [json.slice(0, middle), json.slice(middle)].filter(Boolean);
};

export const toolsOf = (
  reply: ModelReply,
): readonly { readonly id: string; readonly name: string; readonly input: JsonObject }[] =>
  (reply.tools ?? []).map(({ id, name, input = {} }, index) => ({
    id: id ?? `toolu_${name}_${index}`,
    name,
    input,
  }));

export const usageOf = ({
  usage: { input = 10, output = 5 } = {},
}: ModelReply): { readonly input: number; readonly output: number } => ({ input, output });

const event = (type: string, fields: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

/** The Messages API. */
export const anthropic: ModelWire = {
  stream(reply, model) {
    const { input, output } = usageOf(reply);
    const blocks = [
      ...(reply.thinking === undefined
        ? []
        : [
            {
              start: { type: 'thinking', thinking: '', signature: '' },
              deltas: [
                ...pieces(reply.thinking).map((thinking) => ({ type: 'thinking_delta', thinking })),
                { type: 'signature_delta', signature: 'signed' },
              ],
            },
          ]),
      ...(reply.text === undefined
        ? []
        : [
            {
              start: { type: 'text', text: '' },
              deltas: pieces(reply.text).map((text) => ({ type: 'text_delta', text })),
            },
          ]),
      ...toolsOf(reply).map(({ id, name, input: args }) => ({
        start: { type: 'tool_use', id, name, input: {} },
        deltas: halves(JSON.stringify(args)).map((partial_json) => ({
          type: 'input_json_delta',
          partial_json,
        })),
      })),
    ];
    const message = { ...head(model), content: [], stop_reason: null, stop_sequence: null };
    const usage = { input_tokens: input, output_tokens: 1 };
    return [
      event('message_start', { message: { ...message, usage } }),
      ...blocks.flatMap(({ start, deltas }, index) => [
        event('content_block_start', { index, content_block: start }),
        ...deltas.map((delta) => event('content_block_delta', { index, delta })),
        event('content_block_stop', { index }),
      ]),
      event('message_delta', {
        delta: { stop_reason: stopReason(reply), stop_sequence: null },
        usage: { output_tokens: output },
      }),
      event('message_stop'),
    ];
  },
  whole(reply, model) {
    const { input, output } = usageOf(reply);
    const { thinking, text } = reply;
    return {
      ...head(model),
      content: [
        ...(thinking === undefined
          ? []
          : [{ type: 'thinking', thinking: pieces(thinking).join(''), signature: 'signed' }]),
        ...(text === undefined ? [] : [{ type: 'text', text: pieces(text).join('') }]),
        ...toolsOf(reply).map((tool) => ({ type: 'tool_use', ...tool })),
      ],
      stop_reason: stopReason(reply),
      stop_sequence: null,
      usage: { input_tokens: input, output_tokens: output },
    };
  },
  error: (type, message) => ({ type: 'error', error: { type, message } }),
  streamError: (type, message) => event('error', { error: { type, message } }),
};

let messages = 0;
const head = (model: string) => ({
  id: `msg_${++messages}`,
  type: 'message',
  role: 'assistant',
  model,
});

const stopReason = ({ stopReason: reason, tools }: ModelReply): string =>
  reason ?? (tools?.length ? 'tool_use' : 'end_turn');

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

/** Chat completions, as many local servers offer them. */
export const openai: ModelWire = {
  stream(reply, model) {
    const common = {
      id: `chatcmpl-${++messages}`,
      object: 'chat.completion.chunk',
      created: 1,
      model,
    };
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      data({ ...common, choices: [{ index: 0, delta, finish_reason }] });
    const reasoning = reply.reasoningField ?? 'reasoning_content';
    return [
      chunk({ role: 'assistant', content: '' }),
      ...pieces(reply.thinking).map((text) => chunk({ [reasoning]: text })),
      ...pieces(reply.text).map((content) => chunk({ content })),
      ...toolsOf(reply).flatMap(({ id, name, input }, index) => {
        const [first = '', ...rest] = halves(JSON.stringify(input));
        const part = (fields: object): string => chunk({ tool_calls: [{ index, ...fields }] });
        return [
          part({ id, type: 'function', function: { name, arguments: first } }),
          ...rest.map((text) => part({ function: { arguments: text } })),
        ];
      }),
      chunk({}, finishReason(reply)),
      data({ ...common, choices: [], usage: openaiUsage(reply) }),
      'data: [DONE]\n\n',
    ];
  },
  whole(reply, model) {
    const tool_calls = toolsOf(reply).map(({ id, name, input }) => ({
      id,
      type: 'function',
      function: { name, arguments: JSON.stringify(input) },
    }));
    const message = {
      role: 'assistant',
      content: reply.text === undefined ? null : pieces(reply.text).join(''),
      ...(reply.thinking !== undefined && {
        [reply.reasoningField ?? 'reasoning_content']: pieces(reply.thinking).join(''),
      }),
      ...(tool_calls.length > 0 && { tool_calls }),
    };
    return {
      id: `chatcmpl-${++messages}`,
      object: 'chat.completion',
      created: 1,
      model,
      choices: [{ index: 0, message, finish_reason: finishReason(reply) }],
      usage: openaiUsage(reply),
    };
  },
  error: (type, message) => ({ error: { message, type, code: null } }),
  streamError: (type, message) => data({ error: { message, type, code: null } }),
};

const finishReason = ({ stopReason: reason, tools }: ModelReply): string =>
  reason ?? (tools?.length ? 'tool_calls' : 'stop');

function openaiUsage(reply: ModelReply): object {
  const { input, output } = usageOf(reply);
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
}
