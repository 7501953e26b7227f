import type { Readable } from 'node:stream';

/** How long a pipe may stay silent after the child's exit while another process still holds it. */
const SILENCE_MS = 250;
/**
 * What a child wrote before its exit is in the pipe, which holds some hundred kilobytes. After so many
 * reads, or so many bytes, all of it has been read, and what still comes is from another process.
 */
const MOST_LOOKS = 20;
const MOST_BYTES = 16 * 1024 * 1024;

/**
 * Closes the output pipe of a child that has exited. A descendant may hold the pipe open for ever,
 * and write to it. What is in the pipe is still read; once it stays silent while we do read, or all
 * that the child can have written was read, it is closed.
 */
export function closeWhenSilent(
  pipe: Readable,
  bytesRead: () => number,
  isPaused: () => boolean,
): void {
  if (pipe.closed) return;
  const atExit = bytesRead();
  let seen = -1;
  let looks = 0;
  const look = (): void => {
    const read = bytesRead();
    if (!isPaused()) looks += 1;
    const isSilent = read === seen && !isPaused();
    if (isSilent || looks > MOST_LOOKS || read - atExit > MOST_BYTES) pipe.destroy();
    seen = read;
  };
  // After the poll phase: a loop that was blocked must read before it judges.
  const timer = setInterval(() => setImmediate(look), SILENCE_MS);
  timer.unref(); // a pipe that is read holds the process by itself, an unread one must not
  pipe.once('close', () => clearInterval(timer));
}
