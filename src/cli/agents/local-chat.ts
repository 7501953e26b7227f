import { randomUUID } from 'node:crypto';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Logger, Part } from '../../event/types.ts';
import type { AgentModule } from '../../serve/types.ts';
import { completeTurn, type ConverseOptions } from '../../task/run/complete-turn.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { createRunner } from '../../task/run/runner.ts';
import type { TaskLog } from '../../task/types.ts';
import type { PrintableEvent } from '../terminal/entry-printer.ts';

export type SayOptions = Required<ConverseOptions>;

/** A talk with one agent, here or elsewhere. */
export interface AgentChat extends AsyncDisposable {
  readonly name: string;
  /** One turn to its end, questions included. */
  say(parts: readonly Part[], options: SayOptions): AsyncIterable<PrintableEvent>;
}

/** With an agent in this process, on a log in memory. Disposing ends what still runs, then the module's resources. */
export function openLocalChat(
  name: string,
  module: AgentModule,
  logger: Logger,
): AgentChat & { readonly log: TaskLog } {
  const log = memoryLog();
  const runner = createRunner({ log, agents: { [name]: module.default }, logger });
  const context = randomUUID();
  return {
    name,
    log,
    say(parts, options) {
      const place = { agent: name, task: randomUUID(), context, messageId: randomUUID() };
      return completeTurn({ runner, log }, { ...place, parts }, options);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await runner[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
      for (const resource of module.options?.resources?.toReversed() ?? [])
        await resource[Symbol.asyncDispose]();
    }),
  };
}
