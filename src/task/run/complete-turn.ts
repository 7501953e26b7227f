import { randomUUID } from 'node:crypto';
import type { Ask } from '../../ask.ts';
import type { Entry, Turn } from '../../event/types.ts';
import { onAbort, raceAbort } from '../../stream/abort.ts';
import type { Runner, TaskLog } from '../types.ts';

export interface ConverseOptions {
  /** Called for each question of the agent. Its signal aborts when the turn is cancelled. */
  readonly ask: Ask;
  /** Cancels the turn. The loop still yields the entries up to its end. */
  readonly signal?: AbortSignal;
}

/** Runs one turn to its end, with answers from `ask`. Yields every entry of the task. */
export async function* completeTurn(
  { runner, log }: { readonly runner: Runner; readonly log: TaskLog },
  turn: Turn,
  { ask, signal }: ConverseOptions,
): AsyncGenerator<Entry, void, undefined> {
  await runner.submit(turn);
  const unlisten = onAbort(signal, () => {
    log.requestCancel(turn.task).catch(() => {}); // the task has ended
  });
  try {
    for await (const entry of log.read(turn.task, 0)) {
      yield entry;
      if (entry.type !== 'input.required' || signal?.aborted) continue;
      const asked = ask(entry.request, signal ? { signal } : {});
      // Rejects when the signal aborts, also if `ask` ignores it.
      const answer = await raceAbort(asked, signal).catch((error: unknown) => {
        if (!signal?.aborted) throw error;
      });
      if (answer)
        await runner.submit({ ...turn, messageId: randomUUID(), parts: [], answers: [answer] });
    }
  } finally {
    unlisten();
  }
}
