import type { StoreMethods } from '../../task/store/store.ts';
import { Random } from '../kernel/random.ts';
import type { AgentFault } from '../types.ts';
import type { CallFault } from './simulated-store.ts';

/** Something that happens to a process or a task, so many ms after an entry was committed. */
export type PlannedFault = { readonly after: number; readonly ms: number } & (
  | { readonly do: 'crash'; readonly againMs: number; readonly skewMs: number }
  | { readonly do: 'drain'; readonly againMs: number; readonly twice: boolean }
  | { readonly do: 'stop'; readonly forMs: number }
  | { readonly do: 'cut'; readonly forMs: number }
  | { readonly do: 'cancel' }
);

/** A reader of the task, which comes so many ms after an entry was committed. */
export interface PlannedReader {
  readonly do: 'read';
  readonly after: number;
  readonly ms: number;
  readonly from: number;
  readonly pauseMs: number;
  readonly ends?: ReaderEnd;
}

/** How a reader ends before the task: after so many entries, by break, abort or an error. */
export interface ReaderEnd {
  readonly entries: number;
  readonly how: 'break' | 'abort' | 'throw';
}

/** Everything that is decided before a run of an agent begins. */
export interface AgentSchedule {
  readonly seed: number;
  readonly machines: number;
  readonly heartbeatMs: number;
  readonly faults: readonly PlannedFault[];
  readonly readers: readonly PlannedReader[];
  readonly calls: readonly CallFault[];
  readonly answers: { readonly maxMs: number; readonly twice: boolean };
}

/** What a run without faults needs: the later schedules choose their points from it. */
export interface QuietRun {
  readonly entries: number;
  readonly ms: number;
}

/** The run without faults. */
export const quietSchedule = (seed: number): AgentSchedule => ({
  seed,
  machines: 1,
  heartbeatMs: 5000,
  faults: [],
  readers: [],
  calls: [],
  answers: { maxMs: 10, twice: false },
});

const CALLS: readonly (keyof StoreMethods)[] = [
  'submit',
  'append',
  'append',
  'append',
  'append',
  'release',
  'beat',
  'read',
  'claim',
  'setValues',
  'values',
];

export function planAgentRun(
  seed: number,
  allowed: readonly AgentFault[],
  quiet: QuietRun,
): AgentSchedule {
  const random = new Random(seed, 'schedule');
  const has = (fault: AgentFault): boolean => allowed.includes(fault);
  const kinds = (['crash', 'crash', 'drain', 'stop'] as const).filter(has);
  const machines = random.int(1, 2);
  const when = (): { after: number; ms: number } => ({
    after: random.int(1, quiet.entries),
    ms: random.chance(0.5) ? 0 : random.ms(0, Math.min(quiet.ms, 60_000)),
  });
  const faults: PlannedFault[] = [];
  if (kinds.length > 0)
    for (let count = random.int(0, 3); count > 0; count--)
      faults.push(planFault(random, random.pick(kinds), when()));
  if (has('store') && random.chance(0.3))
    faults.push({ do: 'cut', ...when(), forMs: random.ms(1, 20_000) });
  if (has('cancel') && random.chance(0.15)) faults.push({ do: 'cancel', ...when() });
  const isLate = has('answers') && random.chance(0.5);
  return {
    seed,
    machines,
    heartbeatMs: random.pick([1000, 5000]),
    faults,
    readers: has('readers') ? planReaders(random, when) : [],
    calls: has('store') && random.chance(0.5) ? planCalls(random) : [],
    answers: { maxMs: isLate ? 20_000 : 10, twice: isLate && random.chance(0.5) },
  };
}

function planFault(
  random: Random,
  kind: 'crash' | 'drain' | 'stop',
  when: { readonly after: number; readonly ms: number },
): PlannedFault {
  const againMs = random.ms(1, 10_000);
  if (kind === 'crash')
    return { do: kind, ...when, againMs, skewMs: random.pick([0, 0, -900, 1500]) };
  if (kind === 'drain') return { do: kind, ...when, againMs, twice: random.chance(0.5) };
  return { do: kind, ...when, forMs: random.ms(1, 40_000) };
}

function planReaders(
  random: Random,
  when: () => { readonly after: number; readonly ms: number },
): PlannedReader[] {
  return Array.from({ length: random.int(0, 2) }, () => {
    const reader = {
      do: 'read' as const,
      ...when(),
      from: random.pick([0, 0, 1]),
      pauseMs: random.pick([0, 20, 1000]),
    };
    if (!random.chance(0.5)) return reader;
    const how = random.pick(['break', 'abort', 'throw'] as const);
    return { ...reader, ends: { entries: random.int(0, 6), how } };
  });
}

function planCalls(random: Random): CallFault[] {
  return Array.from({ length: random.int(1, 3) }, () => ({
    method: random.pick(CALLS),
    nth: random.ms(1, 20),
    how: random.pick(['before', 'after', 'after', 'stall'] as const),
    ms: random.ms(1, 10_000),
  }));
}

/** Schedules that have one thing less than this one, the largest change first. */
export function* smallerAgentRuns(schedule: AgentSchedule): Generator<AgentSchedule> {
  const { faults, readers, calls, answers } = schedule;
  if (faults.length > 1) yield { ...schedule, faults: [] };
  if (calls.length > 1) yield { ...schedule, calls: [] };
  if (readers.length > 1) yield { ...schedule, readers: [] };
  for (const index of faults.keys()) yield { ...schedule, faults: faults.toSpliced(index, 1) };
  for (const index of calls.keys()) yield { ...schedule, calls: calls.toSpliced(index, 1) };
  for (const index of readers.keys()) yield { ...schedule, readers: readers.toSpliced(index, 1) };
  if (schedule.machines > 1) yield { ...schedule, machines: 1 };
  if (answers.twice) yield { ...schedule, answers: { ...answers, twice: false } };
  if (answers.maxMs > 10) yield { ...schedule, answers: { ...answers, maxMs: 10 } };
  for (const [index, fault] of faults.entries())
    if (fault.ms > 0) yield { ...schedule, faults: faults.with(index, { ...fault, ms: 0 }) };
}
