import type { ErrorCode } from '../../errors.ts';
import { codeOfModel } from '../../event/retry/model-error.ts';
import type { AgentEvent, AgentEventBody, Frame, Usage } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { asObjects, asNumber, asObject, asString } from '../../json.ts';
import { toFailure, toolResultText } from '../shared/safe-read.ts';
import { readApiUsage, Speaker, type SpeakerContext } from './speaker.ts';

/** One frame of an agent CLI's pipe to what it says about the run. */
export type FrameReader = (frame: Frame) => readonly AgentEvent[];

/**
 * Reads both lanes of a stream-json pipe as agent events: pure, so the adapter, `wrap` and `replay`
 * say the same about the same frames. With partial messages on, text comes from the deltas and the
 * whole block that follows is not said again; with them off, it comes from the block.
 */
export function frameReader(): FrameReader {
  const talk: SpeakerContext = { streamed: new Set(), names: new Map(), steps: 0 };
  const { streamed, names } = talk;
  const speakers = new Map<string, Speaker>();
  let started = false;

  /** Who speaks in a frame; sub-agents go by the id of the call that started them. */
  const speaker = (frame: JsonObject): Speaker => {
    const parent = asString(frame['parent_tool_use_id']);
    const known = speakers.get(parent) ?? new Speaker(talk);
    speakers.set(parent, known);
    return known;
  };

  /** One finished block per frame; several frames share one API message id. */
  const assistant = (frame: JsonObject): AgentEventBody[] => {
    if (frame['error'] !== undefined) return []; // the CLI's own words about a failed call; the result says it
    const body = asObject(frame['message']);
    const whole = !streamed.has(asString(body['id']));
    return asObjects(body['content']).flatMap((block, index): AgentEventBody[] => {
      const id = `${asString(body['id'])}:${asString(frame['uuid']) || index}`;
      switch (block['type']) {
        case 'tool_use': {
          const [callId, name] = [asString(block['id']), asString(block['name'])];
          names.set(callId, name);
          return [{ type: 'tool.called', callId, name, args: block['input'] }];
        }
        case 'text':
          return whole ? [{ type: 'text.end', id, text: asString(block['text']) }] : [];
        case 'thinking':
          return whole ? [{ type: 'reasoning.end', id, text: asString(block['thinking']) }] : [];
        default:
          return [];
      }
    });
  };

  const user = (frame: JsonObject): AgentEventBody[] =>
    asObjects(asObject(frame['message'])['content']).flatMap((block): AgentEventBody[] => {
      if (block['type'] !== 'tool_result') return [];
      const callId = asString(block['tool_use_id']);
      const name = names.get(callId) ?? 'unknown';
      speakers.delete(callId);
      const output = frame['tool_use_result'] ?? block['content'];
      if (block['is_error'] !== true) return [{ type: 'tool.completed', callId, name, output }];
      const words = toolResultText(block['content']) || 'the tool failed';
      return [{ type: 'tool.failed', callId, name, error: toFailure('tool', words) }];
    });

  const system = (frame: JsonObject): AgentEventBody[] => {
    switch (frame['subtype']) {
      case 'init': {
        if (started) return [];
        started = true;
        const [model, sessionId] = [asString(frame['model']), asString(frame['session_id'])];
        return [{ type: 'run.started', ...(model && { model }), ...(sessionId && { sessionId }) }];
      }
      case 'api_retry': {
        const discard = speaker(frame).takeBack();
        const status = asNumber(frame['error_status']);
        const delayMs = asNumber(frame['retry_delay_ms']);
        const error = toFailure(
          codeOf(status, asString(frame['error'])),
          asString(frame['error']),
          status,
        );
        const attempt = asNumber(frame['attempt']) ?? 1;
        return [
          { type: 'retry', attempt, error, discard, ...(delayMs !== undefined && { delayMs }) },
        ];
      }
      case 'permission_denied':
        return [{ type: 'status', message: `${asString(frame['tool_name'])} was not allowed` }];
      case 'informational':
      case 'notification': {
        const words =
          asString(frame['content']) || asString(frame['message']) || asString(frame['text']);
        return words ? [{ type: 'status', message: words }] : [];
      }
      default:
        return [];
    }
  };

  const progress = (frame: JsonObject): AgentEventBody[] => {
    const id = asString(frame['tool_use_id']);
    // A heartbeat has an id of its own and names the call as its parent.
    const callId = names.has(id) ? id : asString(frame['parent_tool_use_id']);
    if (!names.has(callId)) return [];
    const seconds = asNumber(frame['elapsed_time_seconds']);
    const words =
      asString(frame['message']) || (seconds === undefined ? '' : `running for ${seconds} s`);
    return [{ type: 'tool.progress', callId, ...(words && { message: words }) }];
  };

  const read = (frame: JsonObject): AgentEventBody[] => {
    switch (frame['type']) {
      case 'system':
        return system(frame);
      case 'stream_event':
        return speaker(frame).read(asObject(frame['event']), frame);
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
    if (isDecision(frame.data)) return [decisionEvent(frame)];
    const parent = asString(frame.data['parent_tool_use_id']);
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
  const words = asString(frame['result']);
  const usage = { ...readApiUsage(frame['usage']), ...cost(frame['total_cost_usd']) };
  const base = { type: 'run.finished', text: words, usage } as const;
  if (frame['is_error'] !== true) {
    const output = frame['structured_output'];
    return { ...base, outcome: 'completed', ...(output !== undefined && { output }) };
  }
  const errors = Array.isArray(frame['errors']) ? frame['errors'].map(String).join('; ') : '';
  const status = asNumber(frame['api_error_status']);
  const subtype = asString(frame['subtype']);
  const code = RESULTS[subtype] ?? codeOf(status, words);
  const error = toFailure(code, errors || words || `the agent ended with ${subtype}`, status);
  return { ...base, text: '', outcome: 'failed', error };
}

/** A control frame for the page; one that carries a tool call is joined to it by the call's id. */
function controlEvent(frame: Frame): AgentEvent {
  const request = asObject(frame.data['request']);
  const params = asObject(asObject(request['message'])['params']);
  const callId =
    asString(asObject(params['_meta'])['claudecode/toolUseId']) || asString(request['tool_use_id']);
  return { type: 'frame', frame, at: frame.at, ...(callId && { callId }) };
}

/** Decisions about tool calls, of the CLI's policy and of the host: the log keeps them as they are. */
const isDecision = ({ type, subtype }: JsonObject): boolean =>
  type === 'system' && (subtype === 'policy_decision' || subtype === 'permission_decision');

function decisionEvent(frame: Frame): AgentEvent {
  const callId = asString(frame.data['tool_use_id']);
  return { type: 'frame', frame, at: frame.at, ...(callId && { callId }) };
}

const RESULTS: Readonly<Record<string, ErrorCode>> = {
  error_max_turns: 'max_steps',
  error_max_budget_usd: 'max_steps',
  error_max_structured_output_retries: 'malformed',
  error_during_execution: 'interrupted',
};

/** What a status of a provider, or the CLI's own word for an error, means to us. */
const codeOf = (status: number | undefined, word: string): ErrorCode =>
  codeOfModel(status, word) ?? (status === undefined && word !== '' ? 'network' : 'server');

const cost = (value: unknown): Usage => (typeof value === 'number' ? { costUsd: value } : {});
