import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/** Whether a process runs; a zombie does not count. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

/** Ends processes that a failed test would leave running. */
export function tidy(pids: readonly number[]): void {
  onTestFinished(() => {
    for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL');
  });
}

/** Waits until no process runs, and returns those that still run after `ms`. */
export async function survivors(pids: readonly number[], ms: number): Promise<number[]> {
  const deadline = performance.now() + ms;
  for (;;) {
    const alive = pids.filter(isAlive);
    if (alive.length === 0 || performance.now() > deadline) return alive;
    await sleep(20);
  }
}
