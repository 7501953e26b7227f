import { vi } from 'vitest';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** The start time of an empty program on an idle machine like those of CI. */
const QUIET_START_MS = 50;

/**
 * The factor by which this machine is slower now than an idle one, at least 1. Multiply a limit in
 * milliseconds by it, so that a busy machine fails no test.
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
 * The factor by which the CPU time of `run` grows when its size grows by four: about 4 if it is
 * linear, 16 if it is quadratic. Compares the least times of several tries: garbage collection and
 * a busy machine only add to a time.
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
  await run(size); // lets V8 compile the code
  let [small, large] = [Infinity, Infinity];
  for (let tries = 0; tries < 10 && !(large / small < 8); tries++) {
    large = Math.min(large, await cpuTime(4 * size));
    small = Math.min(small, Math.max(1, await cpuTime(size)));
  }
  return large / small;
}

/**
 * Waits until a check passes, and returns its result. The limit is for what never comes: a busy
 * machine may need long for what takes a moment on a quiet one.
 */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 120_000, interval: 20 });
