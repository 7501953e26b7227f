import { randomUUID } from 'node:crypto';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Logger, Part } from '../../event/types.ts';
import type { AgentModule } from '../../serve/types.ts';
import { completeTurn, type ConverseOptions } from '../../task/run/complete-turn.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { createRunner } from '../../task/run/runner.ts';
import type { TaskLog } from '../../task/types.ts';
import { closeResources } from './load-agent.ts';
import type { PrintableEvent } from '../terminal/entry-printer.ts';

/** Options of one turn: how to ask the user, and the signal that cancels it. */
export type SayOptions = Required<ConverseOptions>;

/** A conversation with one agent, in this process or on a server. */
export interface AgentChat extends AsyncDisposable {
  readonly name: string;
  /** Runs one turn to its end, including its questions. */
  say(parts: readonly Part[], options: SayOptions): AsyncIterable<PrintableEvent>;
}

/**
 * Opens a chat with an agent in this process, on a log in memory. Disposing ends its runs, and then
 * closes the module's resources.
 */
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
      const turn = { agent: name, task: randomUUID(), context, messageId: randomUUID() };
      return completeTurn({ runner, log }, { ...turn, parts }, options);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await runner[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
      await closeResources(module);
    }),
  };
}
