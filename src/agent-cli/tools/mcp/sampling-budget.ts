import { DuolaneError } from '../../../errors.ts';

/**
 * Counts the sampling requests of one MCP server. A request does not name the call that it belongs
 * to, so it counts for all calls that run: the count starts again when no call is left.
 */
export class SamplingBudget {
  #calls = 0;
  #used = 0;

  /** Call it at the start of a tool call, and the returned function at its end. */
  begin(): () => void {
    if (this.#calls === 0) this.#used = 0;
    this.#calls += 1;
    return () => {
      this.#calls -= 1;
    };
  }

  /** Counts a request. Throws if no call runs, or if the calls have used their requests up. */
  take(maxRequests: number): void {
    if (this.#calls === 0)
      throw new DuolaneError(
        'unauthorized',
        'sampling is not allowed now: no tool call of this server is running',
      );
    if (this.#used >= maxRequests)
      throw new DuolaneError(
        'too_large',
        `the call exceeds the limit of ${maxRequests} sampling requests (sampling.maxRequests)`,
      );
    this.#used += 1;
  }
}
