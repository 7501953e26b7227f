import { randomUUID } from 'node:crypto';
import type { Answer, InputRequest } from '../ask.ts';
import type { Logger, Part } from '../event/types.ts';
import type { AgentModule } from '../serve/types.ts';
import { memoryLog } from '../task/memory.ts';
import { createRunner } from '../task/runner.ts';
import type { TaskLog } from '../task/types.ts';
import type { Shown } from './printer.ts';

export interface SayOptions {
  /** Asked when the agent waits for a person. */
  readonly ask: (request: InputRequest) => Promise<Answer>;
  /** Cancels the turn; what it says to its end still comes. */
  readonly signal: AbortSignal;
}

/** A talk with one agent, here or elsewhere. */
export interface Conversation extends AsyncDisposable {
  readonly name: string;
  /** One turn to its end, questions included. */
  say(parts: readonly Part[], options: SayOptions): AsyncIterable<Shown>;
}

/** With an agent in this process, on a log in memory. Disposing ends what still runs, then the module's resources. */
export function localConversation(
  name: string,
  module: AgentModule,
  logger: Logger,
): Conversation & { readonly log: TaskLog } {
  const log = memoryLog();
  const runner = createRunner({ log, agents: { [name]: module.default }, logger });
  const context = randomUUID();
  return {
    name,
    log,
    async *say(parts, { ask, signal }) {
      const place = { agent: name, task: randomUUID(), context };
      const submit = (turn: { parts: readonly Part[]; answers?: readonly Answer[] }): unknown =>
        runner.submit({ ...place, messageId: randomUUID(), ...turn });
      await submit({ parts });
      const cancel = (): void => void log.requestCancel(place.task).catch(() => {}); // it had ended
      signal.addEventListener('abort', cancel, { once: true });
      if (signal.aborted) cancel();
      try {
        for await (const entry of log.read(place.task, 0)) {
          yield entry;
          if (entry.type !== 'input.required' || signal.aborted) continue;
          const answer = await ask(entry.request).catch((error: unknown) => {
            if (!signal.aborted) throw error;
          });
          if (answer) await submit({ parts: [], answers: [answer] });
        }
      } finally {
        signal.removeEventListener('abort', cancel);
      }
    },
    async [Symbol.asyncDispose]() {
      await runner[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
      for (const resource of module.options?.resources?.toReversed() ?? [])
        await resource[Symbol.asyncDispose]();
    },
  };
}
