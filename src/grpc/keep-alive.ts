import type { Http2Session } from 'node:http2';
import { DuolaneError } from '../errors.ts';

export interface KeepAliveOptions {
  /** How often the other end of a connection in use is asked whether it lives; 30 s by default. */
  readonly keepAliveMs?: number;
}

const KEEP_ALIVE_MS = 30_000;

/**
 * Notices a peer that has vanished without a word: while `inUse`, it is pinged, and the connection
 * ends with `network` when a ping is not answered before the next is due.
 */
export function pingWhileInUse(
  session: Http2Session,
  inUse: () => boolean,
  { keepAliveMs = KEEP_ALIVE_MS }: KeepAliveOptions,
): void {
  let waiting = false;
  const timer = setInterval(() => {
    if (waiting)
      session.destroy(
        new DuolaneError('network', `the peer has not answered a ping for ${keepAliveMs} ms`),
      );
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
 * Ends a connection whose client pings for the sake of it. Returns what to call when the client is
 * sent something: other stacks measure the road by pings while they receive, and may.
 */
export function limitPings(session: Http2Session): () => void {
  let [left, at] = [PING_BURST, Date.now()];
  session.on('ping', () => {
    const now = Date.now();
    left = Math.min(PING_BURST, left + ((now - at) / 1_000) * PINGS_PER_SECOND) - 1;
    at = now;
    if (left >= 0 || session.destroyed) return;
    const calm = 11; // ENHANCE_YOUR_CALM
    session.goaway(calm, 0, Buffer.from('too_many_pings'));
    session.destroy(undefined, calm);
  });
  return () => {
    left = PING_BURST;
  };
}
