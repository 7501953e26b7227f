import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { play, type ScriptAnswer } from './script.ts';
import { type Model, type ModelEvent, type ModelRequest, NO_USAGE } from './types.ts';

/**
 * The default export of a `module:` file. It gets the messages and returns the model's message: as
 * text, as a scripted answer, or as a stream of texts and events.
 */
export type ModelFunction = (
  request: ModelRequest,
  options: { readonly signal: AbortSignal },
) =>
  | string
  | ScriptAnswer
  | AsyncIterable<string | ModelEvent>
  | Promise<string | ScriptAnswer | AsyncIterable<string | ModelEvent>>;

/** A model that calls the function of a module. */
export function moduleModel(name: string, exported: unknown): Model {
  if (typeof exported !== 'function') {
    throw new DuolaneError(
      'invalid',
      `invalid model "${name}": expected a function as default export`,
    );
  }
  const answer = exported as ModelFunction;
  return {
    name,
    keySource: 'none',
    async *stream(request, { signal }) {
      const returned = await answer(request, { signal });
      if (typeof returned === 'string') yield* play({ text: returned }, request, signal);
      else if (isStream(returned)) yield* readPieces(returned, signal);
      else if (isObject(returned)) yield* play(returned, request, signal);
      else
        throw new DuolaneError(
          'invalid',
          `model "${name}" returned ${typeof returned}: expected text, an object or a stream`,
        );
    },
  };
}

/** Converts pieces of text to model events, and adds the `stop` event if the stream has none. */
async function* readPieces(
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
