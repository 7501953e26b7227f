import { DuolaneError } from '../../errors.ts';
import { readBodyText } from '../../http/read-body.ts';
import { codeOfStatus, parseRetryAfter } from '../../http-status.ts';

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Reads a complete response as text. Throws `too_large` after 64 MiB and reads no further. */
export function readResponse(response: Response): Promise<string> {
  const tooLarge = (): DuolaneError =>
    new DuolaneError(
      'too_large',
      `the response of the server exceeds ${MAX_RESPONSE_BYTES} bytes; request less, e.g. with a smaller historyLength`,
    );
  return readBodyText(response, MAX_RESPONSE_BYTES, tooLarge);
}

/**
 * The error of an HTTP status whose body has no A2A error. A mistake of the caller is not
 * `retryable`.
 */
export function httpFailure({ status, headers }: Response, message: string): DuolaneError {
  const code = status < 400 ? 'server' : codeOfStatus(status);
  const wait = parseRetryAfter(headers.get('retry-after'), Date.now());
  return new DuolaneError(code, message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
  });
}
