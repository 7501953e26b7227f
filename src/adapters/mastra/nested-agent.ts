import type { AgentEvent } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { type Approval, PartReader } from '../ai-sdk/part-reader.ts';
import { asObject, asString } from '../../json.ts';
import { partOf } from './chunks.ts';

/**
 * The chunks of one agent. Those of an agent that it asked come as the output of that tool call:
 * they are told with the call in their path, however deep agents ask agents.
 */
export class NestedAgent {
  readonly #parts = new PartReader();
  readonly #asked = new Map<string, NestedAgent>();

  takeApprovals(): readonly Approval[] {
    return this.#parts.takeApprovals();
  }

  read(chunk: JsonObject): readonly AgentEvent[] {
    const { toolCallId, output } = asObject(chunk['payload']);
    const callId = asString(toolCallId);
    const inner = asObject(output);
    if (chunk['type'] === 'tool-result') this.#asked.delete(callId);
    if (chunk['type'] !== 'tool-output' || inner['from'] !== 'AGENT')
      return this.#parts.read(partOf(chunk));
    // What broke an agent that was asked is the failure of its call, which follows.
    if (inner['type'] === 'error') return [];
    const voice = this.#asked.get(callId) ?? new NestedAgent();
    this.#asked.set(callId, voice);
    return voice.read(inner).map((event) => ({ ...event, path: [callId, ...(event.path ?? [])] }));
  }
}
