import { DuolaneError, type Failure } from '../errors.ts';

/**
 * A durable step failed for good. It is the same when the agent is called again: the failure is in
 * the log. In the process that ran the step, `cause` is the original error.
 */
export class StepError extends DuolaneError {
  override readonly name = 'StepError';
  /** The id of the step. */
  readonly step: string;
  readonly attempts: number;

  constructor(step: string, attempts: number, failure: Failure, cause?: unknown) {
    const { code, message, ...rest } = failure;
    super(code, message, { ...rest, cause });
    this.step = step;
    this.attempts = attempts;
  }
}
