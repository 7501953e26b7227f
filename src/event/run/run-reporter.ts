import type { Failure } from '../../errors.ts';
import type { Logger, Turn } from '../types.ts';
import { toEventFailure } from './parse-event.ts';

const MAX_WARNINGS = 20;

/** Logs what a run drops and withholds. */
export class RunReporter {
  readonly #turn: Turn;
  readonly #logger: Logger;
  #warnings = 0;

  constructor(turn: Turn, logger: Logger) {
    this.#turn = turn;
    this.#logger = logger;
  }

  /** Returns the failure that clients may see. Logs what they may not see. */
  failureOf(value: unknown): Failure {
    const { agent, task } = this.#turn;
    return toEventFailure(value, (message, stack) =>
      this.#logger.error(`agent ${agent} failed: ${message}`, {
        task,
        ...(stack !== undefined && { stack }),
      }),
    );
  }

  readonly warn = (message: string): void => {
    if (this.#warnings++ >= MAX_WARNINGS) return;
    const { agent, task } = this.#turn;
    const last =
      this.#warnings === MAX_WARNINGS ? '; further warnings of this run are not logged' : '';
    this.#logger.warn(`agent ${agent}: ${message}${last}`, { task });
  };
}
