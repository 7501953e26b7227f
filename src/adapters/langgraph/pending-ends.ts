import type { AgentEvent } from '../../event/types.ts';
import { asObject, asObjects, asString, isObject } from '../../json.ts';

interface PendingEnd {
  readonly event: AgentEvent;
  readonly callId: string;
  /** The node that made the call. */
  readonly node: string;
}

/**
 * Holds back the ends of tool calls until the checkpointer has what their node has written. A call
 * whose end was shown is then not made again after a crash. The end of a call whose node does not
 * finish, since it asks a person, is dropped: the graph makes that call again.
 */
export class PendingEnds {
  #pending: PendingEnd[] = [];

  /** Takes the events of an item of the stream; returns those to show now. */
  take(item: unknown, events: readonly AgentEvent[]): readonly AgentEvent[] {
    const node = nodeOf(item);
    return events.filter((event) => {
      const isEnd = event.type === 'tool.completed' || event.type === 'tool.failed';
      if (isEnd) this.#pending.push({ event, callId: event.callId, node });
      return !isEnd;
    });
  }

  /** Returns the ends whose results the item reports as written; show them when that is durable. */
  release(item: unknown): readonly AgentEvent[] {
    const [, mode, payload] = Array.isArray(item) ? (item as readonly unknown[]) : [];
    if (mode !== 'updates' || this.#pending.length === 0) return [];
    const update = asObject(payload);
    const written = new Set(
      Object.values(update)
        .filter(isObject)
        .flatMap(({ messages }) => asObjects(messages))
        .map((message) => asString(message['tool_call_id']))
        .filter((callId) => callId !== ''),
    );
    return this.#remove(({ callId, node }) =>
      written.size > 0 ? written.has(callId) : Object.hasOwn(update, node),
    );
  }

  /** Returns all ends, for a graph that has ended. */
  releaseAll(): readonly AgentEvent[] {
    return this.#remove(() => true);
  }

  /** Drops all ends, for a graph that waits for a person. */
  clear(): void {
    this.#pending = [];
  }

  #remove(which: (end: PendingEnd) => boolean): readonly AgentEvent[] {
    const all = this.#pending;
    this.#pending = all.filter((end) => !which(end));
    return all.filter(which).map(({ event }) => event);
  }
}

/** The node that runs is the last segment of the namespace, such as `tools:5c1f…`. */
function nodeOf(item: unknown): string {
  const [namespace] = Array.isArray(item) ? (item as readonly unknown[]) : [];
  const last: unknown = Array.isArray(namespace) ? namespace.at(-1) : undefined;
  return asString(last).split(':', 1)[0] ?? '';
}
