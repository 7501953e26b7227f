import { DuolaneError } from '../../errors.ts';
import { codeOfStatus, retryAfterMs } from '../../event/retry/model-error.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** A whole answer as text. Throws `too_large` over 64 MiB, and reads no further. */
export async function readResponse(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES)
      throw new DuolaneError(
        'too_large',
        `the server's answer is over ${MAX_ANSWER_BYTES} bytes; ask it for less, such as a shorter history`,
      );
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** What an HTTP status says, where its body says nothing that A2A knows; what the caller did wrong is not `retryable`. */
export function httpFailure({ status, headers }: Response, message: string): DuolaneError {
  const code = status < 400 ? 'server' : codeOfStatus(status);
  const wait = retryAfterMs(headers.get('retry-after'), Date.now());
  return new DuolaneError(code, message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
  });
}
