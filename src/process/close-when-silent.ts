import type { Readable } from 'node:stream';

/** How long a pipe may be silent after the child's exit while another process holds it open. */
const SILENCE_MS = 250;
/**
 * The output of a child before its exit is in the pipe, which holds a few hundred kilobytes. After
 * this many checks, or this many bytes, all of it has been read, and anything that still comes was
 * written by another process.
 */
const MAX_CHECKS = 20;
const MAX_BYTES = 16 * 1024 * 1024;

/**
 * Closes the output pipe of a child that has exited. A descendant may hold the pipe open, and write
 * to it, forever. What is in the pipe is still read; the pipe is closed once it stays silent while
 * we read, or once everything that the child can have written has been read.
 */
export function closeWhenSilent(
  pipe: Readable,
  bytesRead: () => number,
  isPaused: () => boolean,
): void {
  if (pipe.closed) return;
  const atExit = bytesRead();
  let seen = -1;
  let checks = 0;
  const check = (): void => {
    const read = bytesRead();
    if (!isPaused()) checks += 1;
    const isSilent = read === seen && !isPaused();
    if (isSilent || checks > MAX_CHECKS || read - atExit > MAX_BYTES) pipe.destroy();
    seen = read;
  };
  // Check after the poll phase: an event loop that was blocked must read before it decides.
  const timer = setInterval(() => setImmediate(check), SILENCE_MS);
  timer.unref(); // a pipe that is read keeps the process alive; this timer must not
  pipe.once('close', () => clearInterval(timer));
}
