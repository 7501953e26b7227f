import { DuolaneError } from '../errors.ts';
import { modelError } from '../event/retry/model-error.ts';
import type { Agent, AgentContext, Turn } from '../event/types.ts';

/**
 * An agent from a source that yields all of its text so far, each time anew, as `stream_text()` of
 * Pydantic AI and `partialOutputStream` do: what is new of it becomes the next piece. A text that
 * does not begin with the one before fails the run, since nobody could join the pieces any more.
 * Leaving or cancelling returns the source's iterator, and `ctx.signal` aborts.
 */
export function growingText(
  source: (turn: Turn, ctx: AgentContext) => AsyncIterable<string>,
): Agent {
  return async function* (turn, ctx) {
    let said = '';
    yield { type: 'run.started' };
    try {
      for await (const text of source(turn, ctx)) {
        if (!text.startsWith(said))
          throw new DuolaneError(
            'malformed',
            'the text changed where it should have grown; yield all of it so far each time',
          );
        const delta = text.slice(said.length);
        said = text;
        yield { type: 'text.delta', id: 'text', delta };
      }
    } catch (error) {
      ctx.signal.throwIfAborted();
      throw modelError(error, 'internal');
    }
  };
}
