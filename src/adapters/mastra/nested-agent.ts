import type { AgentEvent } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { type Approval, PartReader } from '../ai-sdk/part-reader.ts';
import { asObject, asString } from '../../json.ts';
import { partOf } from './chunks.ts';

/**
 * Reads the chunks of one agent as events. The chunks of a sub-agent arrive as output of its tool
 * call; their events get that call in their path, at any depth.
 */
export class NestedAgent {
  readonly #parts = new PartReader();
  readonly #nested = new Map<string, NestedAgent>();

  takeApprovals(): readonly Approval[] {
    return this.#parts.takeApprovals();
  }

  read(chunk: JsonObject): readonly AgentEvent[] {
    const { toolCallId, output } = asObject(chunk['payload']);
    const callId = asString(toolCallId);
    const inner = asObject(output);
    if (chunk['type'] === 'tool-result') this.#nested.delete(callId);
    if (chunk['type'] !== 'tool-output' || inner['from'] !== 'AGENT')
      return this.#parts.read(partOf(chunk));
    // The failure of a sub-agent is reported as the failure of its call, which follows.
    if (inner['type'] === 'error') return [];
    const agent = this.#nested.get(callId) ?? new NestedAgent();
    this.#nested.set(callId, agent);
    return agent.read(inner).map((event) => ({ ...event, path: [callId, ...(event.path ?? [])] }));
  }
}
