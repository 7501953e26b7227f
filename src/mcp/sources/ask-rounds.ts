import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError, malformed } from '../../errors.ts';

/** How often one request may ask for answers before it must give a result. */
export const MAX_INPUT_ROUNDS = 8;

/**
 * An `ask` that knows some answers and collects the questions for the rest. A question without an
 * answer rejects with `suspended`, which ends the attempt: nothing waits in memory for a person,
 * and the next attempt finds the answer.
 */
export class CollectingAsk {
  readonly #known: readonly Answer[];
  readonly #questions = new Map<string, InputRequest>();

  constructor(known: readonly Answer[]) {
    this.#known = known;
  }

  readonly ask: Ask = async (request) => {
    const known = this.#known.find(({ id }) => id === request.id);
    if (known) return known;
    this.#questions.set(request.id, request);
    throw new DuolaneError('suspended', `waiting for the answer to question "${request.id}"`);
  };

  /**
   * Returns the questions if they are the reason why the attempt threw. Rethrows any other error,
   * also a `suspended` of another `ask`, for which there are no questions here.
   */
  questionsAfter(error: unknown): readonly InputRequest[] {
    const suspended = error instanceof DuolaneError && error.code === 'suspended';
    if (!suspended || this.#questions.size === 0) throw error;
    return [...this.#questions.values()];
  }
}

/** The outcome of one attempt: its result, or what to answer before the next attempt. */
export type InputAttempt<Result, Questions> =
  | { readonly result: Result }
  | { readonly questions: Questions };

/**
 * Repeats a request until it gives a result. `again` answers the questions of the last attempt and
 * makes the next one. The first attempt is an argument, so that the many requests that ask nothing
 * can return before they get here. Throws the error of `exceeded` after `MAX_INPUT_ROUNDS`: a peer
 * that asks forever must not keep a request open forever.
 */
export async function askInRounds<Result, Questions>(
  first: InputAttempt<Result, Questions>,
  again: (questions: Questions) => Promise<InputAttempt<Result, Questions>>,
  exceeded: () => DuolaneError,
): Promise<Result> {
  let attempt = first;
  for (let round = 1; 'questions' in attempt; round += 1) {
    if (round > MAX_INPUT_ROUNDS) throw exceeded();
    attempt = await again(attempt.questions);
  }
  return attempt.result;
}

/** The error for a peer that asks more often than `MAX_INPUT_ROUNDS`. */
export const tooManyRounds = (what: string): DuolaneError =>
  malformed(`${what} asked more than ${MAX_INPUT_ROUNDS} times: expected a result`);
