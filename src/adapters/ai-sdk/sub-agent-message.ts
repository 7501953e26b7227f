import type { AgentEvent, AgentEventBody } from '../../event/types.ts';
import { asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { toolFailure } from '../shared/safe-read.ts';

/** Whether a tool tells what an agent says that it asked: as `readUIMessageStream` gives it. */
export const isUiMessage = (output: unknown): output is JsonObject =>
  isObject(output) && output['role'] === 'assistant' && Array.isArray(output['parts']);

/**
 * The message of a sub-agent, which comes whole each time that it has grown: what is new in it is
 * told, with the call that asked as its path. It carries no usage, so neither do the steps.
 */
export class GrowingMessage {
  readonly #callId: string;
  /** How much of each text was told, by the place of its part. */
  readonly #told = new Map<number, number>();
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
            return this.#words('text.delta', asString(part['text']), index);
          case 'reasoning':
            return this.#words('reasoning.delta', asString(part['text']), index);
          default:
            return this.#call(part);
        }
      })
      .map((event) => ({ ...event, path }));
  }

  #words(
    type: 'text.delta' | 'reasoning.delta',
    words: string,
    index: number,
  ): readonly AgentEventBody[] {
    const delta = words.slice(this.#told.get(index) ?? 0);
    this.#told.set(index, words.length);
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
    const error = toolFailure(asString(part['errorText']) || 'it was not allowed');
    return [...called, { type: 'tool.failed', callId, name, error }];
  }
}
