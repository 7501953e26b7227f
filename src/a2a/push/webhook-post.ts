import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { DuolaneError } from '../../errors.ts';
import { parseRetryAfter } from '../../http-status.ts';
import { type Address, pinnedLookup } from '../../http/public-address.ts';
import { onAbort } from '../../stream/abort.ts';

/** One request to a push receiver. */
export interface Posting {
  readonly url: string;
  readonly address: Address;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Posts to exactly this address. Follows no redirect, which could lead to a private address, and
 * reads only the status of the response. Throws `network` without a response, and `server` for a
 * status outside of 200 to 299; 410 Gone is not `retryable`.
 */
export function post({ url, address, headers, body, timeoutMs, signal }: Posting): Promise<void> {
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      agent: false,
      lookup: pinnedLookup([address]),
    });
    const stop = (reason: unknown): void => void sent.destroy(DuolaneError.from(reason));
    const timer = setTimeout(
      () =>
        stop(
          new DuolaneError(
            'timeout',
            `the push receiver timed out after ${timeoutMs} ms: no response`,
          ),
        ),
      timeoutMs,
    );
    const unlisten = onAbort(signal, stop);
    sent.once('close', () => {
      clearTimeout(timer);
      unlisten();
      // Node closes a connection that switches protocols (101), and emits neither a response nor
      // an error. The delivery would wait forever, also when it is aborted, and so would the
      // shutdown of the server. No effect after any other end.
      reject(
        new DuolaneError('network', 'the push receiver sent no response: the connection closed'),
      );
    });
    sent.once('error', (error) => reject(DuolaneError.from(error, 'network')));
    sent.once('response', (response) => {
      const { statusCode: status = 0 } = response;
      const wait = parseRetryAfter(response.headers['retry-after'], Date.now());
      response.destroy();
      if (status >= 200 && status < 300) return resolve();
      reject(
        new DuolaneError('server', `the push receiver returned HTTP ${status}`, {
          status,
          retryable: status !== 410,
          ...(wait && { retryAfterMs: wait }),
        }),
      );
    });
    sent.end(body);
  });
}
