import type { AgentEvent, Usage } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { defined, list, number, object, parsed, text, toolFailure } from '../shared/safe-read.ts';

/** What the SDK gives a model when a tool threw; it says nowhere else that one did. */
const THREW = 'An error occurred while running the tool';

/**
 * Reads the events of a run of the OpenAI Agents SDK. Text comes twice, normalised and as the
 * provider sent it; reasoning and arguments only in the latter, in the words of its API.
 */
export class RunReader {
  readonly #callIds = new Map<string, string>();
  readonly #declined = new Set<string>();
  #step = 0;

  /** A call whose output will only say so in prose. */
  decline(callId: string): void {
    this.#declined.add(callId);
  }

  read(event: JsonObject): readonly AgentEvent[] {
    const data = object(event['data']);
    switch (event['type']) {
      case 'raw_model_stream_event':
        return data['type'] === 'model' ? this.#provider(object(data['event'])) : this.#model(data);
      case 'run_item_stream_event':
        return this.#item(text(event['name']), object(event['item']));
      case 'agent_updated_stream_event':
        return [{ type: 'status', message: `Agent: ${text(object(event['agent'])['name'])}` }];
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
        return [{ type: 'text.delta', id: `${this.#step}:text`, delta: text(data['delta']) }];
      case 'response_done': {
        const usage = readUsage(object(object(data['response'])['usage']));
        return [{ type: 'step.finished', step: this.#step, usage }];
      }
      default:
        return [];
    }
  }

  /** Chat completions have `choices`; events of the Responses API have a `type`. */
  #provider(event: JsonObject): readonly AgentEvent[] {
    const itemId = text(event['item_id']);
    switch (event['type']) {
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#thought(text(event['delta']));
      case 'response.output_item.added': {
        const item = object(event['item']);
        if (item['type'] !== 'function_call') return [];
        return this.#started(text(item['id']), text(item['call_id']), text(item['name']));
      }
      case 'response.function_call_arguments.delta':
        return this.#args(itemId, text(event['delta']));
      default:
        return this.#chunk(object(object(list(event['choices'])[0])['delta']));
    }
  }

  #chunk(delta: JsonObject): readonly AgentEvent[] {
    const calls = list(delta['tool_calls']).flatMap((call) => {
      const key = String(number(call['index']) ?? 0);
      const { name, arguments: args } = object(call['function']);
      const started = call['id'] ? this.#started(key, text(call['id']), text(name)) : [];
      return [...started, ...this.#args(key, text(args))];
    });
    return [
      ...this.#thought(text(delta['reasoning_content']) || text(delta['reasoning'])),
      ...calls,
    ];
  }

  #thought(delta: string): readonly AgentEvent[] {
    return delta === '' ? [] : [{ type: 'reasoning.delta', id: `${this.#step}:reasoning`, delta }];
  }

  #started(key: string, callId: string, name: string): readonly AgentEvent[] {
    this.#callIds.set(key, callId);
    return [{ type: 'tool.started', callId, name }];
  }

  #args(key: string, delta: string): readonly AgentEvent[] {
    const callId = this.#callIds.get(key);
    return callId === undefined || delta === '' ? [] : [{ type: 'tool.args', callId, delta }];
  }

  #item(kind: string, item: JsonObject): readonly AgentEvent[] {
    const raw = object(item['rawItem']);
    const callId = text(raw['callId']) || text(raw['id']);
    const name = text(raw['name']);
    switch (kind) {
      case 'tool_called':
      case 'handoff_requested':
        return [{ type: 'tool.called', callId, name, args: parsed(text(raw['arguments'])) }];
      case 'tool_output': {
        const output = item['output'] ?? raw['output'];
        const failed =
          this.#declined.has(callId) || (typeof output === 'string' && output.startsWith(THREW));
        if (!failed) return [{ type: 'tool.completed', callId, name, output }];
        return [{ type: 'tool.failed', callId, name, error: toolFailure(text(output)) }];
      }
      case 'handoff_occurred': {
        const target = text(object(item['targetAgent'])['name']);
        return [
          { type: 'tool.completed', callId, name, output: object(raw['output'])['text'] ?? target },
          { type: 'status', message: `Handed over to ${target}` },
        ];
      }
      default:
        return [];
    }
  }
}

function readUsage(usage: JsonObject): Usage {
  return defined<Usage>({
    inputTokens: number(usage['inputTokens']),
    outputTokens: number(usage['outputTokens']),
    reasoningTokens: number(object(usage['outputTokensDetails'])['reasoning_tokens']),
    cacheReadTokens: number(object(usage['inputTokensDetails'])['cached_tokens']),
  });
}
