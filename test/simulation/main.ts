// Runs in a process of its own, since it replaces the clocks of Node. Prints one line of JSON.
import { parseArgs } from 'node:util';
import { describePlan, shrink } from './shrink.ts';
import { PART_NAMES } from './part-names.ts';
import { planOf, realNow, simulate } from './simulate.ts';

/** What one process has run. */
export interface Report {
  readonly schedules: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly ms: number;
  /** A hash over the traces of all schedules. */
  readonly hash: string;
  /** What happened from outside, and how often. */
  readonly counts: Readonly<Record<string, number>>;
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly seed: number;
  readonly law: string;
  readonly what: string;
  /** The smallest schedule that still breaks the law, and its trace. */
  readonly schedule?: string;
  readonly trace?: readonly string[];
}

const { values } = parseArgs({
  options: {
    from: { type: 'string', default: '1' },
    schedules: { type: 'string', default: '1' },
    /** Ends after so many failures. */
    failures: { type: 'string', default: '1' },
    /** Ends after so much time. */
    seconds: { type: 'string' },
    /** Runs only this part. */
    part: { type: 'string' },
    shrink: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
  },
});
const from = Number(values.from);
const part = PART_NAMES.find((each) => each === values.part);
const end = realNow() + Number(values.seconds ?? Infinity) * 1000;
const began = realNow();
const counts: Record<string, number> = {};
const failures: Failure[] = [];
let [schedules, events, virtualMs, hash] = [0, 0, 0, 0];
const last = from + Number(values.schedules);
for (let seed = from; seed < last && realNow() < end; seed++) {
  const plan = planOf(seed, part);
  const outcome = await simulate(plan, { trace: values.trace });
  schedules++;
  events += outcome.events;
  virtualMs += outcome.virtualMs;
  hash = (Math.imul(hash, 31) + Number.parseInt(outcome.hash, 16)) >>> 0;
  for (const [what, count] of outcome.counts) counts[what] = (counts[what] ?? 0) + count;
  if (values.trace) process.stderr.write(`${outcome.lines.join('\n')}\n`);
  const [violation] = outcome.violations;
  if (!violation) continue;
  const { law, what } = violation;
  if (values.shrink) {
    const breaks = async (each: typeof plan): Promise<boolean> =>
      (await simulate(each)).violations[0]?.law === law;
    const smallest = await shrink(plan, breaks);
    const { lines, violations } = await simulate(smallest, { trace: true });
    const broken = violations[0]?.what ?? what;
    failures.push({ seed, law, what: broken, schedule: describePlan(smallest), trace: lines });
  } else failures.push({ seed, law, what });
  if (failures.length >= Number(values.failures)) break;
}
const ms = Math.round(realNow() - began);
const report: Report = {
  schedules,
  events,
  virtualMs: Math.round(virtualMs),
  ms,
  hash: hash.toString(16),
  counts,
  failures,
};
process.stdout.write(`${JSON.stringify(report)}\n`);
