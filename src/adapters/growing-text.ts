import { DuolaneError } from '../errors.ts';
import type { Agent, AgentContext, Turn } from '../event/types.ts';
import { readModel } from './shared/framework-agent.ts';

/**
 * Creates an agent from a source that yields its complete text so far each time, as `stream_text()`
 * of Pydantic AI and `partialOutputStream` do; the new end becomes the next delta. A text that does
 * not start with the one before fails the run, since deltas could no longer be joined. On a cancel
 * `ctx.signal` aborts and the source's iterator is returned.
 *
 * @example
 * ```ts
 * import { growingText } from 'duolane/adapters';
 * import { serve } from 'duolane/serve';
 *
 * const agent = growingText(async function* () {
 *   yield 'Hel';
 *   yield 'Hello';
 * });
 * await using served = await serve(agent);
 * ```
 */
export function growingText(
  source: (turn: Turn, ctx: AgentContext) => AsyncIterable<string>,
): Agent {
  return async function* (turn, ctx) {
    let sent = '';
    yield { type: 'run.started' };
    yield* readModel(
      () => source(turn, ctx),
      ctx.signal,
      (text) => {
        if (!text.startsWith(sent))
          throw new DuolaneError(
            'malformed',
            'the source changed its earlier text: expected the complete text so far each time',
          );
        const delta = text.slice(sent.length);
        sent = text;
        return [{ type: 'text.delta', id: 'text', delta }] as const;
      },
    );
  };
}
