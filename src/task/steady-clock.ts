/**
 * Milliseconds of a clock that never jumps: not when the wall clock is set, and not with a restart of
 * a thread, since all threads of a process share it. Leases are measured by it. Never 0.
 */
export const steadyNow = (): number => Number(process.hrtime.bigint() / 1_000_000n) + 1;
