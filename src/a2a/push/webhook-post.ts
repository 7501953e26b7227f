import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { DuolaneError } from '../../errors.ts';
import { parseRetryAfter } from '../../http-status.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Address } from './public-address.ts';

export interface Posting {
  readonly url: string;
  readonly address: Address;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Posts to exactly this address, follows no redirect and reads nothing of the answer but its status.
 * Throws `network` when there is none, `server` when it is no success (410: not `retryable`).
 */
export function post({ url, address, headers, body, timeoutMs, signal }: Posting): Promise<void> {
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      agent: false,
      lookup: (_host, options, give) => {
        if (options.all) give(null, [address]);
        else give(null, address.address, address.family);
      },
    });
    const stop = (reason: unknown): void => void sent.destroy(DuolaneError.from(reason));
    const timer = setTimeout(
      () => stop(new DuolaneError('timeout', `no answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const unlisten = onAbort(signal, stop);
    sent.once('close', () => {
      clearTimeout(timer);
      unlisten();
    });
    sent.once('error', (error) => reject(DuolaneError.from(error, 'network')));
    sent.once('response', (response) => {
      const { statusCode: status = 0 } = response;
      const wait = parseRetryAfter(response.headers['retry-after'], Date.now());
      response.destroy();
      if (status >= 200 && status < 300) return resolve();
      reject(
        new DuolaneError('server', `the receiver answered ${status}`, {
          status,
          retryable: status !== 410,
          ...(wait && { retryAfterMs: wait }),
        }),
      );
    });
    sent.end(body);
  });
}
