import { Random } from '../kernel/random.ts';
import type { ToolFault } from '../types.ts';

/** One call of a schedule: which one, when, and how its caller behaves. */
export interface PlannedCall {
  /** The index in `calls` of the options. */
  readonly call: number;
  readonly at: number;
  /** The reader waits so long after each event. */
  readonly pauseMs: number;
  /** The signal of the call aborts so many ms after it was made; before it, if negative. */
  readonly abortMs?: number;
  /** The reader ends after so many events. */
  readonly ends?: { readonly events: number; readonly how: 'break' | 'throw' };
}

/** Everything that is decided before a run of tools begins. */
export interface ToolSchedule {
  readonly seed: number;
  readonly calls: readonly PlannedCall[];
  /** When the connection is lost. */
  readonly cuts: readonly number[];
}

/** Each call alone, one after the other has ended. */
export const quietCall = (seed: number, call: number): ToolSchedule => ({
  seed,
  calls: [{ call, at: 0, pauseMs: 0 }],
  cuts: [],
});

/** Plans a run. `ms`: how long each call took alone. */
export function planToolRun(
  seed: number,
  allowed: readonly ToolFault[],
  ms: readonly number[],
): ToolSchedule {
  const random = new Random(seed, 'schedule');
  const has = (fault: ToolFault): boolean => allowed.includes(fault);
  const longest = Math.max(10, ...ms);
  const count = has('parallel') ? random.int(1, 6) : 1;
  const calls = Array.from({ length: count }, (): PlannedCall => {
    const call = random.int(0, ms.length - 1);
    const most = 1.5 * Math.max(10, ms[call] ?? 0);
    const planned = {
      call,
      at: random.ms(0, longest),
      pauseMs: has('readers') && random.chance(0.3) ? random.ms(1, 1000) : 0,
    };
    if (has('abort') && random.chance(0.4))
      return { ...planned, abortMs: random.chance(0.1) ? -1 : random.ms(0, most) };
    if (has('readers') && random.chance(0.2)) {
      const how = random.pick(['break', 'throw'] as const);
      return { ...planned, ends: { events: random.int(1, 3), how } };
    }
    return planned;
  });
  const cuts = has('cut') && random.chance(0.3) ? [random.ms(1, 2 * longest)] : [];
  return { seed, calls, cuts };
}

/** Schedules that have one thing less than this one, the largest change first. */
export function* smallerToolRuns(schedule: ToolSchedule): Generator<ToolSchedule> {
  const { calls, cuts } = schedule;
  if (cuts.length > 0) yield { ...schedule, cuts: [] };
  for (const index of calls.keys()) yield { ...schedule, calls: calls.toSpliced(index, 1) };
  for (const [index, { call, at, pauseMs, ...rest }] of calls.entries()) {
    const replace = (planned: PlannedCall): ToolSchedule => ({
      ...schedule,
      calls: calls.with(index, planned),
    });
    if (Object.keys(rest).length > 0) yield replace({ call, at, pauseMs });
    if (pauseMs > 0) yield replace({ call, at, pauseMs: 0, ...rest });
    if (at > 0) yield replace({ call, at: 0, pauseMs, ...rest });
  }
}
