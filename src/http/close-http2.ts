import type { Http2Session, Http2Stream } from 'node:http2';

// Node frees a stream that it still reads from if a session is destroyed, or a stream is reset with
// a code other than CANCEL, by code that runs while bytes are received: in a handler of an event,
// or in what a promise continues there. The process then crashes, sometimes much later (Node issue
// 64113, not fixed in Node 20). So both wait until the received bytes are processed.

/** Destroys a session, and then the socket that it may leave open. May be called twice. */
export function destroySession(
  session: Http2Session,
  options: {
    readonly error?: Error;
    readonly code?: number;
    readonly socket?: { destroy(): unknown } | undefined;
  } = {},
): void {
  const { error, code, socket } = options;
  setImmediate(() => {
    if (!session.destroyed) session.destroy(error, code);
    socket?.destroy();
  });
}

/** Resets a stream that is not closed by then. */
export function resetStream(stream: Http2Stream, code: number): void {
  setImmediate(() => {
    if (!stream.closed && !stream.destroyed) stream.close(code);
  });
}
