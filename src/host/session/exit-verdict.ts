import { DuolaneError } from '../../errors.ts';
import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Exit } from '../../process/types.ts';
import { peerError } from './peer-error.ts';
import type { TurnTracker } from './turn-tracker.ts';

/** The facts about a session when its process has exited. */
export interface ExitFacts {
  readonly exit: Exit;
  readonly turns: Pick<TurnTracker, 'settled' | 'open' | 'last'>;
  /** Responses that could not be delivered while the process still ran. */
  readonly lost: number;
  readonly initialized: boolean;
  readonly frames: readonly JsonObject[];
}

/**
 * Decides whether the exit of a CLI is a failure. If every turn has its result, nothing that
 * happens at shutdown is a failure; it is `noise`, which is logged. The rule is about the current
 * turn, so an earlier result does not hide the failure of a later turn.
 */
export function exitVerdict(ending: ExitFacts): {
  readonly error?: DuolaneError;
  readonly noise: boolean;
} {
  const { exit, turns, lost, initialized, frames } = ending;
  if (exit.startError) return { error: DuolaneError.from(exit.startError), noise: false };
  const { settled, open, last } = turns;
  if (settled && last) {
    // A CLI exits with code 1 after an error result.
    const expected = exit.code === 0 || (exit.code === 1 && last.isError);
    return { noise: !expected || lost > 0 };
  }
  const what = open > 0 ? 'before the result of the turn' : 'before it was ready';
  if (lost > 0) {
    const text = `${what}; ${lost} response(s) could not reach it, since stdin was closed`;
    return { error: peerError('response_lost', text, exit, frames), noise: false };
  }
  if (exit.code === 0 && open === 0 && initialized) return { noise: false };
  return { error: peerError('peer_exited', what, exit, frames), noise: false };
}

/** The error of a CLI's exit, if it is a failure; noise is logged. */
export function judgeExit(
  ending: ExitFacts,
  lostInAll: number,
  logger: Logger,
): DuolaneError | undefined {
  const { error, noise } = exitVerdict(ending);
  const { stderr: _, ...how } = ending.exit;
  if (noise || (!error && lostInAll > 0))
    logger.warn('ignored at shutdown: the turn has its result', { ...how, lost: lostInAll });
  return error;
}
