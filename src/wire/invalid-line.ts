import type { DuolaneError } from '../errors.ts';

/**
 * A line that is not a JSON object, or is too long. It is reported, and decoding continues after
 * it.
 */
export class InvalidLine {
  /** `malformed`: not JSON, or not an object. `too_large`: longer than `maxBytes`. */
  readonly error: DuolaneError;
  /** The line, or its first thousand characters. */
  readonly text: string;
  /** The last 256 bytes of a line that is too long; empty for others. */
  readonly end: string;

  constructor(error: DuolaneError, text: string, end = '') {
    this.error = error;
    this.text = text;
    this.end = end;
  }
}
