import type { Http2Session } from 'node:http2';
import { DuolaneError } from '../errors.ts';
import { destroySession } from '../http/close-http2.ts';

export interface KeepAliveOptions {
  /** How often the peer of a connection in use is pinged; 30 s by default. */
  readonly keepAliveMs?: number;
}

const KEEP_ALIVE_MS = 30_000;

/**
 * Detects a peer that vanished without closing the connection: while `inUse`, it is pinged, and the
 * connection ends with `network` if a ping is not acknowledged before the next is due.
 */
export function pingWhileInUse(
  session: Http2Session,
  inUse: () => boolean,
  { keepAliveMs = KEEP_ALIVE_MS }: KeepAliveOptions,
): void {
  let waiting = false;
  const timer = setInterval(() => {
    if (waiting)
      destroySession(session, {
        error: new DuolaneError(
          'network',
          `ping timed out after ${keepAliveMs} ms: no acknowledgement of the peer`,
        ),
      });
    else if (inUse() && !session.closed && !session.destroyed)
      waiting = session.ping(() => {
        waiting = false;
      });
  }, keepAliveMs);
  timer.unref();
  session.once('close', () => clearInterval(timer));
}

const PING_BURST = 100;
const PINGS_PER_SECOND = 2;

/**
 * Ends a connection whose client sends too many pings. Call the returned function whenever the
 * client is sent something: other gRPC libraries ping while they receive, to measure the bandwidth,
 * and may.
 */
export function limitPings(session: Http2Session): () => void {
  let [allowed, at] = [PING_BURST, Date.now()];
  let ending = false;
  session.on('ping', () => {
    const now = Date.now();
    allowed = Math.min(PING_BURST, allowed + ((now - at) / 1_000) * PINGS_PER_SECOND) - 1;
    at = now;
    if (allowed >= 0 || ending) return;
    ending = true;
    const calm = 11; // ENHANCE_YOUR_CALM
    session.goaway(calm, 0, Buffer.from('too_many_pings'));
    destroySession(session, { code: calm });
  });
  return () => {
    allowed = PING_BURST;
  };
}
