import { randomUUID } from 'node:crypto';
import type { Answer, Ask } from '../../ask.ts';
import type { Entry, Turn } from '../../event/types.ts';
import { onAbort } from '../../stream/index.ts';
import type { Runner, TaskLog } from '../types.ts';

export interface ConverseOptions {
  /** Asked when the agent waits for a person. Its signal aborts when the turn is cancelled. */
  readonly ask: Ask;
  /** Cancels the turn; what it says to its end still comes. */
  readonly signal?: AbortSignal;
}

/** One turn to its end, questions included, with whoever runs here: everything that its log says. */
export async function* completeTurn(
  { runner, log }: { readonly runner: Runner; readonly log: TaskLog },
  turn: Turn,
  { ask, signal }: ConverseOptions,
): AsyncGenerator<Entry, void, undefined> {
  await runner.submit(turn);
  const unlisten = onAbort(signal, () => {
    log.requestCancel(turn.task).catch(() => {}); // it had ended
  });
  try {
    for await (const entry of log.read(turn.task, 0)) {
      yield entry;
      if (entry.type !== 'input.required' || signal?.aborted) continue;
      const asked = ask(entry.request, signal ? { signal } : {});
      const answer = await unlessAborted(asked, signal).catch((error: unknown) => {
        if (!signal?.aborted) throw error;
      });
      if (answer)
        await runner.submit({ ...turn, messageId: randomUUID(), parts: [], answers: [answer] });
    }
  } finally {
    unlisten();
  }
}

/** Rejects when the signal aborts, also if the person is asked by code that ignores it. */
function unlessAborted(asked: Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, reject);
    asked.then(resolve, reject).finally(unlisten);
  });
}
