import type { ErrorCode } from '../../errors.ts';
import { codeOfModel } from '../../event/retry/model-error.ts';
import type { AgentEvent, AgentEventBody, Frame, Usage } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { asObjects, asNumber, asObject, asString } from '../../json.ts';
import { toFailure, toolResultText } from '../shared/tool-failure.ts';
import { readApiUsage, Speaker, type SpeakerContext } from './speaker.ts';

/**
 * Converts one frame of an agent CLI's pipe to agent events. Call it with every frame, in order.
 */
export type FrameReader = (frame: Frame) => readonly AgentEvent[];

/**
 * Reads both lanes of a stream-json pipe as agent events. It has no side effects, so the adapter,
 * `wrap` and `replay` get the same events from the same frames. With partial messages, text comes
 * from the deltas and the complete block that follows is skipped; without, it comes from the block.
 * `openCalls` are those of an earlier run, whose results the CLI may send now.
 *
 * @example
 * ```ts
 * import { openSession } from 'duolane';
 * import { frameReader } from 'duolane/adapters';
 *
 * await using session = await openSession({ lanes: 'both' });
 * await session.send('Hello');
 * const read = frameReader();
 * for await (const frame of session.frames())
 *   for (const event of read(frame)) console.log(event.type);
 * ```
 */
export function frameReader(
  openCalls: readonly { readonly callId: string; readonly name: string }[] = [],
): FrameReader {
  const known = openCalls.map(({ callId, name }) => [callId, name] as const);
  const talk: SpeakerContext = { streamed: new Set(), names: new Map(known), steps: 0 };
  const { streamed, names } = talk;
  const speakers = new Map<string, Speaker>();
  let started = false;

  /** The speaker of a frame; a sub-agent is named by the id of the call that started it. */
  const speaker = (frame: JsonObject): Speaker => {
    const parent = asString(frame['parent_tool_use_id']);
    const known = speakers.get(parent) ?? new Speaker(talk);
    speakers.set(parent, known);
    return known;
  };

  /** One finished block per frame; several frames share one API message id. */
  const assistant = (frame: JsonObject): AgentEventBody[] => {
    // The CLI's own text about a failed model call; the result frame reports the failure.
    if (frame['error'] !== undefined) return [];
    const body = asObject(frame['message']);
    const isNew = !streamed.has(asString(body['id']));
    return asObjects(body['content']).flatMap((block, index): AgentEventBody[] => {
      const id = `${asString(body['id'])}:${asString(frame['uuid']) || index}`;
      switch (block['type']) {
        case 'tool_use': {
          const [callId, name] = [asString(block['id']), asString(block['name'])];
          names.set(callId, name);
          return [{ type: 'tool.called', callId, name, args: block['input'] }];
        }
        case 'text':
          return isNew ? [{ type: 'text.end', id, text: asString(block['text']) }] : [];
        case 'thinking':
          return isNew ? [{ type: 'reasoning.end', id, text: asString(block['thinking']) }] : [];
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
        return [{ type: 'status', message: `${asString(frame['tool_name'])} was denied` }];
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
    // A heartbeat has its own id and names the call as its parent.
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

/** Converts a result frame to the `run.finished` event. */
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

/**
 * A control frame as an event, for the page. One that carries a tool call gets the id of the call.
 */
function controlEvent(frame: Frame): AgentEvent {
  const request = asObject(frame.data['request']);
  const params = asObject(asObject(request['message'])['params']);
  const callId =
    asString(asObject(params['_meta'])['claudecode/toolUseId']) || asString(request['tool_use_id']);
  return { type: 'frame', frame, at: frame.at, ...(callId && { callId }) };
}

/** Whether a frame is a decision of the CLI's policy or the host. The log stores it unchanged. */
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

/** Our error code for the status of a provider, or for the CLI's name of an error. */
const codeOf = (status: number | undefined, word: string): ErrorCode =>
  codeOfModel(status, word) ?? (status === undefined && word !== '' ? 'network' : 'server');

const cost = (value: unknown): Usage => (typeof value === 'number' ? { costUsd: value } : {});
