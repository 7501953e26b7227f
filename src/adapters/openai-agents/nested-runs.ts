import type { AgentEvent } from '../../event/types.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';
import { SideChannel } from '../shared/side-channel.ts';
import { RunReader } from './run-reader.ts';

/** The argument of `onStream` of `agent.asTool()`, as far as the adapter uses it. */
export interface OpenAiNested {
  readonly event: unknown;
  readonly toolCall?: unknown;
}

/** Runs of agents that are called as tools; their events arrive beside the stream of the run. */
export class NestedRuns {
  readonly aside: SideChannel<readonly AgentEvent[]> = new SideChannel();
  readonly #readers = new Map<string, RunReader>();
  /** By call: what its agent has shown, if the calls are durable. */
  readonly #shown: Map<string, AgentEvent[]> | undefined;
  readonly #called = new Set<string>();
  readonly #waiting = new Map<string, () => void>();

  constructor(isDurable: boolean) {
    this.#shown = isDurable ? new Map() : undefined;
  }

  readonly onStream = ({ event, toolCall }: OpenAiNested): Promise<void> => {
    const callId = asString(asObject(toolCall)['callId']) || 'agent';
    const reader = this.#readers.get(callId) ?? new RunReader();
    this.#readers.set(callId, reader);
    const events = reader
      .read(asObject(event))
      .map((each): AgentEvent => ({ ...each, path: [callId] }));
    if (this.#shown) {
      const shown = this.#shown.get(callId) ?? [];
      this.#shown.set(callId, shown);
      for (const each of events) addShown(shown, each);
    }
    return this.aside.push(events);
  };

  /** Takes note of an event of the run itself. */
  onEvent(event: AgentEvent): void {
    if (event.type !== 'tool.called') return;
    this.#called.add(event.callId);
    this.#waiting.get(event.callId)?.();
  }

  /** Returns what the agent of a call has shown. */
  take(callId: string): readonly AgentEvent[] {
    const shown = this.#shown?.get(callId) ?? [];
    this.#shown?.delete(callId);
    return shown;
  }

  /** Shows again what the agent of a call has shown, after the call itself. */
  async repeat(callId: string, events: readonly JsonObject[]): Promise<void> {
    if (events.length === 0) return;
    if (!this.#called.has(callId))
      await new Promise<void>((resolve) => this.#waiting.set(callId, resolve));
    await this.aside.push(events as object as readonly AgentEvent[]);
  }
}

function addShown(shown: AgentEvent[], event: AgentEvent): void {
  const last = shown.at(-1);
  const isDelta = event.type === 'text.delta' || event.type === 'reasoning.delta';
  if (isDelta && last?.type === event.type && last.id === event.id)
    shown[shown.length - 1] = { ...last, delta: last.delta + event.delta };
  else if (event.type === 'tool.args' && last?.type === event.type && last.callId === event.callId)
    shown[shown.length - 1] = { ...last, delta: last.delta + event.delta };
  else shown.push(event);
}
