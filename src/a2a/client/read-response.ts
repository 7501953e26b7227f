import { DuolaneError } from '../../errors.ts';
import { codeOfStatus, parseRetryAfter } from '../../http-status.ts';

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Reads a complete response as text. Throws `too_large` after 64 MiB and reads no further. */
export async function readResponse(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  // An announced length does not count: the body may be compressed, and a page cannot see that in
  // the response of another origin.
  for await (const chunk of bytesOf(response)) {
    bytes += chunk.byteLength;
    if (bytes > MAX_RESPONSE_BYTES)
      throw new DuolaneError(
        'too_large',
        `the response of the server exceeds ${MAX_RESPONSE_BYTES} bytes; request less, e.g. with a smaller historyLength`,
      );
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * The chunks of a body; `read` wraps the wait for each. It uses a reader, because a stream is not
 * iterable in every browser. Throws `network` if the connection is lost.
 */
export async function* bytesOf(
  { body }: Response,
  read: <T>(work: Promise<T>) => Promise<T> = (work) => work,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader();
  try {
    while (reader) {
      const { done, value } = await read(reader.read());
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw toNetworkError(error);
  } finally {
    // A connection that is lost cannot be closed, and the caller has stopped reading.
    reader?.cancel().catch(() => {});
  }
}

/** An error of `fetch` as `network`. A `DuolaneError` stays as it is. */
export const toNetworkError = (error: unknown): DuolaneError =>
  error instanceof DuolaneError
    ? error
    : new DuolaneError('network', 'the connection to the agent was lost', { cause: error });

/**
 * The error of a redirect that is not followed. A browser does not show where one leads
 * (`opaqueredirect`).
 */
export const refusedRedirect = (url: string, to: string | null): DuolaneError =>
  new DuolaneError(
    'invalid',
    to === null
      ? `${url} redirects to an address that the browser does not show; use that address`
      : `${url} redirects to ${to}; use that address`,
  );

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
