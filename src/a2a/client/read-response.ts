import { DuolaneError } from '../../errors.ts';
import { codeOfStatus, retryAfterMs } from '../../event/retry/model-error.ts';

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Reads a complete response as text. Stops and throws `too_large` after 64 MiB. */
export async function readResponse(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_RESPONSE_BYTES)
      throw new DuolaneError(
        'too_large',
        `the response of the server exceeds ${MAX_RESPONSE_BYTES} bytes; request less, e.g. with a smaller historyLength`,
      );
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/**
 * The error of an HTTP status whose body has no A2A error. A mistake of the caller is not
 * `retryable`.
 */
export function httpFailure({ status, headers }: Response, message: string): DuolaneError {
  const code = status < 400 ? 'server' : codeOfStatus(status);
  const wait = retryAfterMs(headers.get('retry-after'), Date.now());
  return new DuolaneError(code, message, {
    status,
    ...(wait !== undefined && { retryAfterMs: wait }),
  });
}
