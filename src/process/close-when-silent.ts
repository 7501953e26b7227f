import type { Readable } from 'node:stream';

/** How long a pipe may stay silent after the child's exit while another process still holds it. */
const SILENCE_MS = 250;

/**
 * Closes the output pipe of a child that has exited. A descendant may hold the pipe open for ever.
 * What is in the pipe is still read; once it stays silent while we do read, it is closed.
 */
export function closeWhenSilent(
  pipe: Readable,
  bytesRead: () => number,
  isPaused: () => boolean,
): void {
  if (pipe.closed) return;
  let seen = -1;
  const look = (): void => {
    const read = bytesRead();
    if (read === seen && !isPaused()) pipe.destroy();
    seen = read;
  };
  // After the poll phase: a loop that was blocked must read before it judges.
  const timer = setInterval(() => setImmediate(look), SILENCE_MS);
  timer.unref(); // a pipe that is read holds the process by itself, an unread one must not
  pipe.once('close', () => clearInterval(timer));
}
