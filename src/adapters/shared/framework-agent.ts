import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentEvent, Part } from '../../event/types.ts';

/** Marks an agent that continues an interrupted run with the answers of the log. */
export const continuingAgent = (agent: Agent): Agent => Object.assign(agent, { continues: true });

/**
 * Reads the stream of a framework. After an abort, every error is replaced by the reason of the
 * abort: frameworks throw errors of their own then. Any other error is one of the model.
 */
export async function* readModel<Item, Out>(
  start: () => AsyncIterable<Item> | Iterable<Item> | PromiseLike<AsyncIterable<Item>>,
  signal: AbortSignal,
  read: (item: Item) => Iterable<Out>,
): AsyncGenerator<Out, void, undefined> {
  try {
    for await (const item of await start()) yield* read(item);
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
}

/** The event for text of a model message: a delta if it is partial, else the complete text. */
export function textEvents(
  kind: 'text' | 'reasoning',
  id: string,
  text: string,
  isPartial: boolean,
): readonly AgentEvent[] {
  if (text === '') return [];
  return isPartial
    ? [{ type: `${kind}.delta` as const, id, delta: text }]
    : [{ type: `${kind}.end` as const, id, text }];
}

/** A part of a turn as text, for frameworks that know only text and bytes. */
export function partText(part: Exclude<Part, { readonly bytes: unknown }>): string {
  if ('text' in part) return part.text;
  return 'data' in part ? JSON.stringify(part.data) : part.url;
}
