import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { play, type ScriptAnswer } from './script.ts';
import { type Model, type ModelEvent, type ModelRequest, NO_USAGE } from './types.ts';

/**
 * What a `module:` file exports by default: the answer to a conversation, as text, as a scripted
 * answer, or as a stream of text pieces and events.
 */
export type ModelFunction = (
  request: ModelRequest,
  options: { readonly signal: AbortSignal },
) =>
  | string
  | ScriptAnswer
  | AsyncIterable<string | ModelEvent>
  | Promise<string | ScriptAnswer | AsyncIterable<string | ModelEvent>>;

/** A function of the conversation as a model. */
export function moduleModel(name: string, exported: unknown): Model {
  if (typeof exported !== 'function') {
    throw new DuolaneError('invalid', `${name} must export a function by default`);
  }
  const answer = exported as ModelFunction;
  return {
    name,
    keySource: 'none',
    async *stream(request, { signal }) {
      const said = await answer(request, { signal });
      if (typeof said === 'string') yield* play({ text: said }, request, signal);
      else if (isStream(said)) yield* spoken(said, signal);
      else if (isObject(said)) yield* play(said, request, signal);
      else
        throw new DuolaneError('invalid', `${name} answered ${typeof said}, not text or a stream`);
    },
  };
}

async function* spoken(
  stream: AsyncIterable<string | ModelEvent>,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent, void, undefined> {
  let called = false;
  for await (const piece of stream) {
    signal.throwIfAborted();
    const event: ModelEvent = typeof piece === 'string' ? { type: 'text', text: piece } : piece;
    called ||= event.type === 'tool_use';
    yield event;
    if (event.type === 'stop') return;
  }
  yield { type: 'stop', reason: called ? 'tool_use' : 'end_turn', usage: NO_USAGE };
}

const isStream = (value: unknown): value is AsyncIterable<string | ModelEvent> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
