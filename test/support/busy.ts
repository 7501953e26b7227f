import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** How long an empty program takes to start on a quiet machine of the class that CI has. */
const QUIET_START_MS = 50;

/**
 * How many times slower than a quiet machine this one is now, at least 1: a limit in milliseconds is
 * multiplied by it, so that a busy machine fails no test.
 */
export async function slowness(): Promise<number> {
  const starts = [await nodeStartMs(), await nodeStartMs()];
  return Math.max(1, ...starts.map((ms) => ms / QUIET_START_MS));
}

async function nodeStartMs(): Promise<number> {
  const start = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - start;
}

/**
 * By which factor the CPU time of `run` grows when its size grows by four: some 4 if it is linear, 16
 * if it is quadratic. The least of three tries, since garbage collection counts too.
 */
export async function growth(
  size: number,
  run: (size: number) => void | Promise<void>,
): Promise<number> {
  const cpuTime = async (of: number): Promise<number> => {
    const before = process.cpuUsage();
    await run(of);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  await run(size); // compiles
  let least = Infinity;
  for (let tries = 0; tries < 3 && least > 8; tries++)
    least = Math.min(least, (await cpuTime(4 * size)) / Math.max(1, await cpuTime(size)));
  return least;
}
