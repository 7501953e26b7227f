import { randomUUID } from 'node:crypto';
import type { Answer, InputRequest } from '../ask.ts';
import type { Entry, Turn } from '../event/types.ts';
import type { Runner, TaskLog } from './types.ts';
import { onAbort } from '../stream/abort.ts';

export interface ConverseOptions {
  /** Asked when the agent waits for a person. */
  readonly ask: (request: InputRequest) => Promise<Answer>;
  /** Cancels the turn; what it says to its end still comes. */
  readonly signal?: AbortSignal;
}

/** One turn to its end, questions included, with whoever runs here: everything that its log says. */
export async function* converse(
  { runner, log }: { readonly runner: Runner; readonly log: TaskLog },
  turn: Turn,
  { ask, signal }: ConverseOptions,
): AsyncGenerator<Entry, void, undefined> {
  await runner.submit(turn);
  const cancel = (): void => void log.requestCancel(turn.task).catch(() => {}); // it had ended
  const unlisten = onAbort(signal, cancel);
  try {
    for await (const entry of log.read(turn.task, 0)) {
      yield entry;
      if (entry.type !== 'input.required' || signal?.aborted) continue;
      const answer = await ask(entry.request).catch((error: unknown) => {
        if (!signal?.aborted) throw error;
      });
      if (answer)
        await runner.submit({ ...turn, messageId: randomUUID(), parts: [], answers: [answer] });
    }
  } finally {
    unlisten();
  }
}
