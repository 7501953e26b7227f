import type { ErrorCode } from '../errors.ts';
import type { AgentEvent, AgentEventBody, FinishReason, Frame, Usage } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import { failure, list, number, object, plain, text } from './read.ts';

/** One frame of an agent CLI's pipe to what it says about the run. */
export type FrameReader = (frame: Frame) => readonly AgentEvent[];

interface Block {
  readonly id: string;
  readonly callId: string;
}

/**
 * Reads both lanes of a stream-json pipe as agent events: pure, so the adapter, `wrap` and `replay`
 * say the same about the same frames. With partial messages on, text comes from the deltas and the
 * whole block that follows is not said again; with them off, it comes from the block.
 */
export function frameReader(): FrameReader {
  const streamed = new Set<string>(); // API messages whose blocks came as deltas
  const names = new Map<string, string>(); // tool names by call id
  const blocks = new Map<number, Block>();
  let message = '';
  let step = 0;
  let started = false;
  let said = false; // text of this step that a retry would void
  let usage: Usage | undefined;
  let reason: FinishReason | undefined;
  let firstChunkMs: number | undefined;

  const streamEvent = (event: JsonObject, frame: JsonObject): AgentEventBody[] => {
    const index = number(event['index']) ?? 0;
    switch (event['type']) {
      case 'message_start': {
        message = text(object(event['message'])['id']) || `message-${step}`;
        streamed.add(message);
        blocks.clear();
        said = false;
        usage = readUsage(object(event['message'])['usage']);
        reason = undefined;
        firstChunkMs = number(frame['ttft_ms']);
        return [{ type: 'step.started', step: ++step }];
      }
      case 'content_block_start': {
        const block = object(event['content_block']);
        const callId = text(block['id']);
        blocks.set(index, { id: `${message}:${index}`, callId });
        if (block['type'] !== 'tool_use') return [];
        names.set(callId, text(block['name']));
        return [{ type: 'tool.started', callId, name: text(block['name']) }];
      }
      case 'content_block_delta':
        return delta(blocks.get(index), object(event['delta']));
      case 'message_delta':
        usage = { ...usage, ...readUsage(event['usage']) };
        reason = STOP[text(object(event['delta'])['stop_reason'])] ?? 'other';
        return [];
      case 'message_stop':
        // Withdrawn: the retry that follows takes back the text of a step that is still open.
        if (frame['abandoned_blocks'] !== undefined) return [];
        return [
          {
            type: 'step.finished',
            step,
            ...(reason && { reason }),
            ...(usage && { usage }),
            ...(firstChunkMs !== undefined && { firstChunkMs }),
          },
        ];
      default:
        return [];
    }
  };

  const delta = (block: Block | undefined, change: JsonObject): AgentEventBody[] => {
    if (!block) return [];
    switch (change['type']) {
      case 'text_delta':
        said = true;
        return [{ type: 'text.delta', id: block.id, delta: text(change['text']) }];
      case 'thinking_delta':
        return [{ type: 'reasoning.delta', id: block.id, delta: text(change['thinking']) }];
      case 'input_json_delta':
        return [{ type: 'tool.args', callId: block.callId, delta: text(change['partial_json']) }];
      default:
        return [];
    }
  };

  /** One finished block per frame; several frames share one API message id. */
  const assistant = (frame: JsonObject): AgentEventBody[] => {
    if (frame['error'] !== undefined) return []; // the CLI's own words about a failed call; the result says it
    const body = object(frame['message']);
    const whole = !streamed.has(text(body['id']));
    return list(body['content']).flatMap((block, index): AgentEventBody[] => {
      const id = `${text(body['id'])}:${text(frame['uuid']) || index}`;
      switch (block['type']) {
        case 'tool_use': {
          const [callId, name] = [text(block['id']), text(block['name'])];
          names.set(callId, name);
          return [{ type: 'tool.called', callId, name, args: block['input'] }];
        }
        case 'text':
          return whole ? [{ type: 'text.end', id, text: text(block['text']) }] : [];
        case 'thinking':
          return whole ? [{ type: 'reasoning.end', id, text: text(block['thinking']) }] : [];
        default:
          return [];
      }
    });
  };

  const user = (frame: JsonObject): AgentEventBody[] =>
    list(object(frame['message'])['content']).flatMap((block): AgentEventBody[] => {
      if (block['type'] !== 'tool_result') return [];
      const callId = text(block['tool_use_id']);
      const name = names.get(callId) ?? 'unknown';
      const output = frame['tool_use_result'] ?? block['content'];
      if (block['is_error'] !== true) return [{ type: 'tool.completed', callId, name, output }];
      const words = plain(block['content']) || 'the tool failed';
      return [{ type: 'tool.failed', callId, name, error: failure('tool', words) }];
    });

  const system = (frame: JsonObject): AgentEventBody[] => {
    switch (frame['subtype']) {
      case 'init': {
        if (started) return [];
        started = true;
        const [model, sessionId] = [text(frame['model']), text(frame['session_id'])];
        return [{ type: 'run.started', ...(model && { model }), ...(sessionId && { sessionId }) }];
      }
      case 'api_retry': {
        const discard = said;
        said = false;
        const status = number(frame['error_status']);
        const delayMs = number(frame['retry_delay_ms']);
        const error = failure(codeOf(status, text(frame['error'])), text(frame['error']), status);
        const attempt = number(frame['attempt']) ?? 1;
        return [
          { type: 'retry', attempt, error, discard, ...(delayMs !== undefined && { delayMs }) },
        ];
      }
      case 'permission_denied':
        return [{ type: 'status', message: `${text(frame['tool_name'])} was not allowed` }];
      case 'informational':
      case 'notification': {
        const words = text(frame['content']) || text(frame['message']) || text(frame['text']);
        return words ? [{ type: 'status', message: words }] : [];
      }
      default:
        return [];
    }
  };

  const progress = (frame: JsonObject): AgentEventBody[] => {
    const id = text(frame['tool_use_id']);
    // A heartbeat has an id of its own and names the call as its parent.
    const callId = names.has(id) ? id : text(frame['parent_tool_use_id']);
    if (!names.has(callId)) return [];
    const seconds = number(frame['elapsed_time_seconds']);
    const words =
      text(frame['message']) || (seconds === undefined ? '' : `running for ${seconds} s`);
    return [{ type: 'tool.progress', callId, ...(words && { message: words }) }];
  };

  const read = (frame: JsonObject): AgentEventBody[] => {
    switch (frame['type']) {
      case 'system':
        return system(frame);
      case 'stream_event':
        return streamEvent(object(frame['event']), frame);
      case 'assistant':
        return assistant(frame);
      case 'user':
        return user(frame);
      case 'tool_progress':
        return progress(frame);
      case 'result':
        return [readResult(frame)];
      default:
        return [];
    }
  };

  return (frame) => {
    if (frame.lane === 'control') return [controlEvent(frame)];
    if (frame.direction === 'out') return [];
    const parent = text(frame.data['parent_tool_use_id']);
    const sub = parent !== '' && frame.data['type'] !== 'tool_progress';
    return read(frame.data).map((body) => ({
      ...body,
      at: frame.at,
      ...(sub && { path: [parent] }),
    }));
  };
}

/** How a turn ended, as the end of a run. */
export function readResult(frame: JsonObject): AgentEventBody & { readonly type: 'run.finished' } {
  const words = text(frame['result']);
  const usage = { ...readUsage(frame['usage']), ...cost(frame['total_cost_usd']) };
  const base = { type: 'run.finished', text: words, usage } as const;
  if (frame['is_error'] !== true) {
    const output = frame['structured_output'];
    return { ...base, outcome: 'completed', ...(output !== undefined && { output }) };
  }
  const errors = Array.isArray(frame['errors']) ? frame['errors'].map(String).join('; ') : '';
  const status = number(frame['api_error_status']);
  const subtype = text(frame['subtype']);
  const code = RESULTS[subtype] ?? codeOf(status, words);
  const error = failure(code, errors || words || `the agent ended with ${subtype}`, status);
  return { ...base, text: '', outcome: 'failed', error };
}

/** A control frame for the page; one that carries a tool call is joined to it by the call's id. */
function controlEvent(frame: Frame): AgentEvent {
  const request = object(frame.data['request']);
  const params = object(object(request['message'])['params']);
  const callId =
    text(object(params['_meta'])['claudecode/toolUseId']) || text(request['tool_use_id']);
  return { type: 'frame', frame, at: frame.at, ...(callId && { callId }) };
}

const RESULTS: Readonly<Record<string, ErrorCode>> = {
  error_max_turns: 'max_steps',
  error_max_budget_usd: 'max_steps',
  error_max_structured_output_retries: 'malformed',
  error_during_execution: 'interrupted',
};

const STOP: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool-calls',
  max_tokens: 'length',
  refusal: 'content-filter',
};

/** What an HTTP status of a provider, or its own word for it, means to us. */
function codeOf(status: number | undefined, word: string): ErrorCode {
  if (status === 429 || word === 'rate_limit') return 'rate_limited';
  if (status === 529 || word === 'overloaded') return 'overloaded';
  if (status === 401 || status === 403 || word === 'authentication_failed') return 'unauthorized';
  if (status !== undefined && status >= 500) return 'server';
  if (status !== undefined && status >= 400) return 'invalid';
  return status === undefined && word !== '' ? 'network' : 'server';
}

function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const pick = (name: string, wire: string): Usage => {
    const n = number(value[wire]);
    return n === undefined ? {} : { [name]: n };
  };
  return {
    ...pick('inputTokens', 'input_tokens'),
    ...pick('outputTokens', 'output_tokens'),
    ...pick('cacheReadTokens', 'cache_read_input_tokens'),
    ...pick('cacheWriteTokens', 'cache_creation_input_tokens'),
  };
}

const cost = (value: unknown): Usage => (typeof value === 'number' ? { costUsd: value } : {});
