import { DuolaneError } from '../errors.ts';

/** A question that has an answer already; `details` name the first answer. Not retryable. */
export class AlreadyAnsweredError extends DuolaneError {
  override readonly name = 'AlreadyAnsweredError';
  readonly details: Readonly<Record<string, string>>;

  constructor(message: string, details: Readonly<Record<string, string>>) {
    super('conflict', message, { retryable: false });
    this.details = details;
  }
}
