import type { AgentEventBody, FinishReason, Usage } from '../../event/types.ts';
import {
  asNumber,
  asObject,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';

interface Block {
  readonly id: string;
  readonly callId: string;
}

/** The state that the speakers of one pipe share. */
export interface SpeakerContext {
  /** API messages whose blocks were streamed as deltas. */
  readonly streamed: Set<string>;
  /** Tool names by call id. */
  readonly names: Map<string, string>;
  /** Model calls so far. */
  steps: number;
}

/**
 * Reads the raw events of one speaker on a stream-json pipe as agent events. The agent and each of
 * its sub-agents have one, since their events interleave and use the same block numbers.
 */
export class Speaker {
  readonly #talk: SpeakerContext;
  readonly #blocks = new Map<number, Block>();
  #message = '';
  #step = 0;
  #hasText = false;
  #usage: Usage | undefined;
  #reason: FinishReason | undefined;
  #firstChunkMs: number | undefined;

  constructor(talk: SpeakerContext) {
    this.#talk = talk;
  }

  read(event: JsonObject, frame: JsonObject): AgentEventBody[] {
    const index = asNumber(event['index']) ?? 0;
    switch (event['type']) {
      case 'message_start':
        return [this.#start(asObject(event['message']), frame)];
      case 'content_block_start': {
        const block = asObject(event['content_block']);
        const [callId, name] = [asString(block['id']), asString(block['name'])];
        this.#blocks.set(index, { id: `${this.#message}:${index}`, callId });
        if (block['type'] !== 'tool_use') return [];
        this.#talk.names.set(callId, name);
        return [{ type: 'tool.started', callId, name }];
      }
      case 'content_block_delta':
        return this.#delta(this.#blocks.get(index), asObject(event['delta']));
      case 'message_delta':
        this.#usage = { ...this.#usage, ...readApiUsage(event['usage']) };
        this.#reason = STOP[asString(asObject(event['delta'])['stop_reason'])] ?? 'other';
        return [];
      case 'message_stop':
        // An abandoned message: the retry that follows voids the text of the step, which stays
        // open.
        return frame['abandoned_blocks'] === undefined ? [this.#stop()] : [];
      default:
        return [];
    }
  }

  /** Whether a retry voids text of the open step. Resets it: call it once for each retry. */
  takeBack(): boolean {
    const hadText = this.#hasText;
    this.#hasText = false;
    return hadText;
  }

  #start(message: JsonObject, frame: JsonObject): AgentEventBody {
    this.#step = ++this.#talk.steps;
    this.#message = asString(message['id']) || `message-${this.#step}`;
    this.#talk.streamed.add(this.#message);
    this.#blocks.clear();
    this.#hasText = false;
    this.#usage = readApiUsage(message['usage']);
    this.#reason = undefined;
    this.#firstChunkMs = asNumber(frame['ttft_ms']);
    return { type: 'step.started', step: this.#step };
  }

  #delta(block: Block | undefined, change: JsonObject): AgentEventBody[] {
    if (!block) return [];
    switch (change['type']) {
      case 'text_delta':
        this.#hasText = true;
        return [{ type: 'text.delta', id: block.id, delta: asString(change['text']) }];
      case 'thinking_delta':
        return [{ type: 'reasoning.delta', id: block.id, delta: asString(change['thinking']) }];
      case 'input_json_delta':
        return [
          { type: 'tool.args', callId: block.callId, delta: asString(change['partial_json']) },
        ];
      default:
        return [];
    }
  }

  #stop(): AgentEventBody {
    // A later retry belongs to another model call, and must not void the text of this one.
    this.#hasText = false;
    return omitUndefined<AgentEventBody & { readonly type: 'step.finished' }>({
      type: 'step.finished',
      step: this.#step,
      reason: this.#reason,
      usage: this.#usage,
      firstChunkMs: this.#firstChunkMs,
    });
  }
}

const STOP: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool-calls',
  max_tokens: 'length',
  refusal: 'content-filter',
};

/** Token usage of the Messages API. */
export function readApiUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  return omitUndefined<Usage>({
    inputTokens: asNumber(value['input_tokens']),
    outputTokens: asNumber(value['output_tokens']),
    cacheReadTokens: asNumber(value['cache_read_input_tokens']),
    cacheWriteTokens: asNumber(value['cache_creation_input_tokens']),
  });
}
