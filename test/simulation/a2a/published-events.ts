import { a2aEncoder } from '../../../src/a2a/protocol/stream-encoder.ts';
import { TaskFold } from '../../../src/a2a/client/task-fold.ts';
import { CLIENT_10 } from '../../../src/a2a/protocol/client-dialect.ts';
import { CLIENT_03, RPC_DIALECTS } from '../../../src/a2a/v0.3/json-rpc-dialect.ts';
import { CLIENT_03_REST, DIALECT_03_REST } from '../../../src/a2a/v0.3/rest-dialect.ts';
import type { A2AStreamEvent } from '../../../src/a2a/protocol/model.ts';
import { compareIds, type Identified, withIds } from '../../../src/event/event-id.ts';
import type { Encoder, Entry } from '../../../src/event/types.ts';
import type { ClientPlan } from './plan.ts';

interface Published {
  readonly encode: Encoder<Identified<A2AStreamEvent>>;
  readonly events: Identified<A2AStreamEvent>[];
}

/** The events of every task, encoded as its entries are committed: what clients must see. */
export class PublishedEvents {
  readonly #tasks = new Map<string, Published>();

  commit(entry: Entry, task: string): void {
    let published = this.#tasks.get(task);
    if (!published)
      this.#tasks.set(task, (published = { encode: withIds(a2aEncoder().encode), events: [] }));
    published.events.push(...published.encode(entry));
  }

  at(task: string, index: number): Identified<A2AStreamEvent> | undefined {
    return this.#tasks.get(task)?.events[index];
  }

  count(task: string): number {
    return this.#tasks.get(task)?.events.length ?? 0;
  }

  /** The number of the first event after an id. */
  after(task: string, id: string): number {
    const events = this.#tasks.get(task)?.events ?? [];
    const index = events.findIndex((event) => compareIds(event.id, id) > 0);
    return index < 0 ? events.length : index;
  }

  /** The task that all events together give to a client. */
  fold(task: string, client: Form): TaskFold {
    const fold = new TaskFold();
    for (const { out } of this.#tasks.get(task)?.events ?? []) fold.apply(received(out, client));
    return fold;
  }
}

/** How a client encodes messages. */
type Form = Pick<ClientPlan, 'version' | 'binding'>;

/** An event as a client gets it. */
export function received(event: A2AStreamEvent, { version, binding }: Form): A2AStreamEvent {
  const isRest = version === '0.3' && binding === 'HTTP+JSON';
  const server = isRest ? DIALECT_03_REST : RPC_DIALECTS[version];
  const encoded: unknown = JSON.parse(JSON.stringify(server.encodeEvent(event, false)));
  const client = isRest ? CLIENT_03_REST : version === '1.0' ? CLIENT_10 : CLIENT_03;
  return client.decodeEvent(encoded).event;
}
