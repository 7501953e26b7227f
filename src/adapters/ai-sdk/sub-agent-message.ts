import type { AgentEvent, AgentEventBody } from '../../event/types.ts';
import { asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { toolFailure } from '../shared/tool-failure.ts';

/** Whether a tool output is the message of a sub-agent, as `readUIMessageStream` yields it. */
export const isUiMessage = (output: unknown): output is JsonObject =>
  isObject(output) && output['role'] === 'assistant' && Array.isArray(output['parts']);

/**
 * Reads the growing message of a sub-agent, which is sent complete each time: the new parts become
 * events, with the call of the sub-agent as their path. The message has no usage, so its steps have
 * none either.
 */
export class GrowingMessage {
  readonly #callId: string;
  /** How many characters of each text were yielded, by the index of its part. */
  readonly #sent = new Map<number, number>();
  readonly #called = new Set<string>();
  readonly #ended = new Set<string>();
  #steps = 0;

  constructor(callId: string) {
    this.#callId = callId;
  }

  read(message: JsonObject): readonly AgentEvent[] {
    const path = [this.#callId];
    let steps = 0;
    return asObjects(message['parts'])
      .flatMap((part, index): readonly AgentEventBody[] => {
        switch (part['type']) {
          case 'step-start':
            if (++steps <= this.#steps) return [];
            this.#steps = steps;
            return [{ type: 'step.started', step: steps }];
          case 'text':
            return this.#delta('text.delta', asString(part['text']), index);
          case 'reasoning':
            return this.#delta('reasoning.delta', asString(part['text']), index);
          default:
            return this.#call(part);
        }
      })
      .map((event) => ({ ...event, path }));
  }

  #delta(
    type: 'text.delta' | 'reasoning.delta',
    text: string,
    index: number,
  ): readonly AgentEventBody[] {
    const delta = text.slice(this.#sent.get(index) ?? 0);
    this.#sent.set(index, text.length);
    return delta === '' ? [] : [{ type, id: `${this.#callId}:${index}`, delta }];
  }

  #call(part: JsonObject): readonly AgentEventBody[] {
    const callId = asString(part['toolCallId']);
    const kind = asString(part['type']);
    const name = asString(part['toolName']) || kind.replace(/^tool-/, '');
    const state = asString(part['state']);
    if (callId === '' || state === 'input-streaming' || this.#ended.has(callId)) return [];
    const called: AgentEventBody[] = this.#called.has(callId)
      ? []
      : [{ type: 'tool.called', callId, name, args: part['input'] }];
    this.#called.add(callId);
    if (!state.startsWith('output-') || part['preliminary'] === true) return called;
    this.#ended.add(callId);
    if (state === 'output-available')
      return [...called, { type: 'tool.completed', callId, name, output: part['output'] }];
    const error = toolFailure(asString(part['errorText']) || 'the call was declined');
    return [...called, { type: 'tool.failed', callId, name, error }];
  }
}
