import type { AgentEvent, Usage } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { omitUndefined, asNumber, asObject, asString } from '../../json.ts';
import { parsed, toolFailure } from '../shared/tool-failure.ts';
import { type ProviderPart, providerParts } from './provider-parts.ts';

/**
 * The output that the SDK sends to the model when a tool threw: the only sign of such a failure.
 */
const THREW = 'An error occurred while running the tool';

/**
 * Reads the events of a run of the OpenAI Agents SDK. Text comes twice, normalized and as the
 * provider sent it; reasoning and arguments only in the provider's form.
 */
export class RunReader {
  readonly #callIds = new Map<string, string>();
  readonly #declined = new Set<string>();
  #step = 0;

  /** Marks a call as declined: its output reports that only as text. */
  decline(callId: string): void {
    this.#declined.add(callId);
  }

  read(event: JsonObject): readonly AgentEvent[] {
    const data = asObject(event['data']);
    switch (event['type']) {
      case 'raw_model_stream_event':
        return data['type'] === 'model'
          ? providerParts(asObject(data['event'])).flatMap((part) => this.#part(part))
          : this.#model(data);
      case 'run_item_stream_event':
        return this.#item(asString(event['name']), asObject(event['item']));
      case 'agent_updated_stream_event':
        return [
          { type: 'status', message: `Agent: ${asString(asObject(event['agent'])['name'])}` },
        ];
      default:
        return [];
    }
  }

  #model(data: JsonObject): readonly AgentEvent[] {
    switch (data['type']) {
      case 'response_started':
        this.#callIds.clear();
        return [{ type: 'step.started', step: ++this.#step }];
      case 'output_text_delta':
        return [{ type: 'text.delta', id: `${this.#step}:text`, delta: asString(data['delta']) }];
      case 'response_done': {
        const usage = readUsage(asObject(asObject(data['response'])['usage']));
        return [{ type: 'step.finished', step: this.#step, usage }];
      }
      default:
        return [];
    }
  }

  #part(part: ProviderPart): readonly AgentEvent[] {
    switch (part.type) {
      case 'reasoning':
        return [{ type: 'reasoning.delta', id: `${this.#step}:reasoning`, delta: part.delta }];
      case 'call':
        this.#callIds.set(part.key, part.callId);
        return [{ type: 'tool.started', callId: part.callId, name: part.name }];
      case 'args': {
        const callId = this.#callIds.get(part.key);
        return callId === undefined ? [] : [{ type: 'tool.args', callId, delta: part.delta }];
      }
    }
  }

  #item(kind: string, item: JsonObject): readonly AgentEvent[] {
    const raw = asObject(item['rawItem']);
    const callId = asString(raw['callId']) || asString(raw['id']);
    const name = asString(raw['name']);
    switch (kind) {
      case 'tool_called':
      case 'handoff_requested':
        return [{ type: 'tool.called', callId, name, args: parsed(asString(raw['arguments'])) }];
      case 'tool_output': {
        const output = item['output'] ?? raw['output'];
        const failed =
          this.#declined.has(callId) || (typeof output === 'string' && output.startsWith(THREW));
        if (!failed) return [{ type: 'tool.completed', callId, name, output }];
        return [{ type: 'tool.failed', callId, name, error: toolFailure(asString(output)) }];
      }
      case 'handoff_occurred': {
        const target = asString(asObject(item['targetAgent'])['name']);
        return [
          {
            type: 'tool.completed',
            callId,
            name,
            output: asObject(raw['output'])['text'] ?? target,
          },
          { type: 'status', message: `Handed over to ${target}` },
        ];
      }
      default:
        return [];
    }
  }
}

function readUsage(usage: JsonObject): Usage {
  return omitUndefined<Usage>({
    inputTokens: asNumber(usage['inputTokens']),
    outputTokens: asNumber(usage['outputTokens']),
    reasoningTokens: asNumber(asObject(usage['outputTokensDetails'])['reasoning_tokens']),
    cacheReadTokens: asNumber(asObject(usage['inputTokensDetails'])['cached_tokens']),
  });
}
