/**
 * Returns the milliseconds of a clock that never jumps: not when the wall clock is set, and not
 * when a thread restarts, since all threads of a process share it. It measures leases. Never 0.
 */
export const steadyNow = (): number => Number(process.hrtime.bigint() / 1_000_000n) + 1;
