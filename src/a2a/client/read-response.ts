import { DuolaneError } from '../../errors.ts';
import { readBodyText } from '../../http/read-body.ts';
import { codeOfStatus, parseRetryAfter } from '../../http-status.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** A whole answer as text. Throws `too_large` over 64 MiB, and reads no further. */
export function readResponse(response: Response): Promise<string> {
  const tooLarge = (): DuolaneError =>
    new DuolaneError(
      'too_large',
      `the server's answer is over ${MAX_ANSWER_BYTES} bytes; ask it for less, such as a shorter history`,
    );
  return readBodyText(response, MAX_ANSWER_BYTES, tooLarge);
}

/** What an HTTP status says, where its body says nothing that A2A knows; what the caller did wrong is not `retryable`. */
export function httpFailure({ status, headers }: Response, message: string): DuolaneError {
  const code = status < 400 ? 'server' : codeOfStatus(status);
  const wait = parseRetryAfter(headers.get('retry-after'), Date.now());
  return new DuolaneError(code, message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
  });
}
