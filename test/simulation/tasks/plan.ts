import type { StoreMethods } from '../../../src/task/store/store.ts';
import { Random } from '../random.ts';
import type { CallFault, Sharing } from './database.ts';

/** One thing that a scripted agent does. */
export type Action =
  | { readonly do: 'say'; readonly words: number }
  | { readonly do: 'pause'; readonly ms: number; readonly deaf: boolean }
  | { readonly do: 'call'; readonly ms: number }
  | {
      readonly do: 'step';
      readonly ms: number;
      /** So many attempts fail, of as many as are allowed. */
      readonly failures: number;
      readonly attempts: number;
    }
  | { readonly do: 'steps'; readonly count: number; readonly ms: number }
  | { readonly do: 'ask' }
  /** Asks and sleeps at the same time. */
  | { readonly do: 'both'; readonly ms: number }
  | { readonly do: 'sleep'; readonly ms: number }
  | { readonly do: 'wait'; readonly timeoutMs?: number }
  | { readonly do: 'store' }
  | { readonly do: 'history' }
  | { readonly do: 'throw' };

export interface AgentPlan {
  readonly name: string;
  readonly resumable?: boolean;
  readonly actions: readonly Action[];
}

/** What happens from outside, and when. */
export type Happening = { readonly at: number } & (
  | {
      readonly do: 'submit';
      readonly task: string;
      readonly agent: string;
      readonly message: string;
      readonly owner?: string;
      readonly on: number;
    }
  | { readonly do: 'cancel'; readonly task: string; readonly on: number }
  | {
      readonly do: 'read';
      readonly task: string;
      readonly on: number;
      readonly after: number;
      readonly pauseMs: number;
      /** The reader leaves after so many entries: by break, by abort, or by an error of its own. */
      readonly leaves?: { readonly after: number; readonly how: 'break' | 'abort' | 'throw' };
    }
  | { readonly do: 'kill'; readonly on: number; readonly againMs: number; readonly skewMs: number }
  | { readonly do: 'stop'; readonly on: number; readonly ms: number }
  | { readonly do: 'drain'; readonly on: number; readonly againMs: number; readonly twice: boolean }
  | { readonly do: 'cut'; readonly on: number; readonly ms: number }
  | { readonly do: 'down'; readonly ms: number }
  | { readonly do: 'clock'; readonly on: number; readonly ms: number }
  | { readonly do: 'look'; readonly on: number; readonly task: string }
  | { readonly do: 'stray'; readonly task: string; readonly on: number; readonly id: string }
);

/** What can happen to machines, connections and the store. */
export type MachineFault = Extract<
  Happening,
  { readonly do: 'kill' | 'stop' | 'drain' | 'cut' | 'down' | 'clock' }
>;

/** How a person behaves: how long an answer takes, and whether it comes twice. */
export interface Person {
  readonly minMs: number;
  readonly maxMs: number;
  readonly twice: number;
}

/** One schedule: everything that is decided before the run begins. */
export interface Plan {
  readonly part: 'tasks';
  readonly seed: number;
  readonly sharing: Sharing;
  readonly machines: number;
  readonly log: {
    readonly heartbeatMs: number;
    readonly leaseMs: number;
    readonly pollMs: number;
    readonly cancelTimeoutMs: number;
  };
  readonly runner: {
    readonly maxRuns: number;
    readonly graceMs: number;
    readonly suspendAfterMs: number;
    readonly queue: boolean;
    readonly timeoutMs?: number;
  };
  readonly agents: readonly AgentPlan[];
  readonly person: Person;
  readonly happenings: readonly Happening[];
  readonly callFaults: readonly CallFault[];
  /** The machines are disposed some time after the last task has ended, else immediately. */
  readonly rests: boolean;
  /** The logger of the machines throws. */
  readonly throwingLogger: boolean;
}

const FAULTY: readonly (keyof StoreMethods)[] = [
  'submit',
  'append',
  'append',
  'append',
  'append',
  'release',
  'release',
  'beat',
  'read',
  'read',
  'claim',
  'claim',
  'cancel',
  'setValues',
  'values',
  'heads',
  'page',
];

/** Until when things happen from outside. Afterwards everything must come to its end. */
export const BUSY_MS = 30_000;

export function planTasks(seed: number): Plan {
  const random = new Random(seed, 'plan');
  const sharing: Sharing = random.chance(0.65) ? 'replicas' : 'alone';
  const machines = sharing === 'alone' ? 1 : random.int(1, 3);
  const limits = planLimits(random);
  const agents = Array.from({ length: random.int(1, 2) }, (_, index) =>
    planAgent(random, `agent${index}`),
  );
  const tasks = Array.from({ length: random.int(1, 4) }, (_, index) => `t${index}`);
  // A share of the runs is quiet, or only loses replies: then the laws are stricter.
  const faulty = random.chance(0.85);
  const losesReplies = faulty && random.chance(0.2);
  return {
    part: 'tasks',
    seed,
    sharing,
    machines,
    ...limits,
    agents,
    person: { minMs: 1, maxMs: random.pick([5, 500, 20_000]), twice: random.pick([0, 0.3]) },
    happenings: [
      ...tasks.flatMap((task) => planTask(random, task, agents, machines)),
      ...(faulty && !losesReplies ? planFaults(random, machines, BUSY_MS) : []),
    ].toSorted((one, other) => one.at - other.at),
    callFaults: losesReplies ? planLostReplies(random) : faulty ? planCallFaults(random) : [],
    rests: random.chance(0.5),
    throwingLogger: random.chance(0.1),
  };
}

/** The limits of a log and its runner. */
export function planLimits(random: Random): Pick<Plan, 'log' | 'runner'> {
  const heartbeatMs = random.pick([200, 1000, 5000]);
  const graceMs = random.pick([50, 500, 5000]);
  return {
    log: {
      heartbeatMs,
      leaseMs: heartbeatMs * random.pick([2, 4]),
      pollMs: random.pick([200, 1000, 5000, 5000]),
      cancelTimeoutMs: 2 * graceMs + random.pick([500, 5000]),
    },
    runner: {
      maxRuns: random.pick([1, 1, 2, 10]),
      graceMs,
      suspendAfterMs: random.pick([0, 100, 5000]),
      queue: random.chance(0.2),
      ...(random.chance(0.2) && { timeoutMs: random.pick([500, 5000, 60_000]) }),
    },
  };
}

export function planAgent(random: Random, name: string): AgentPlan {
  const resumable = random.pick([undefined, undefined, true, false]);
  const actions = Array.from({ length: random.int(1, 6) }, () => planAction(random));
  return { name, ...(resumable !== undefined && { resumable }), actions };
}

function planAction(random: Random): Action {
  const kind = random.pick([
    'say',
    'say',
    'pause',
    'call',
    'step',
    'step',
    'step',
    'steps',
    'ask',
    'ask',
    'both',
    'sleep',
    'wait',
    'store',
    'history',
    'throw',
  ] as const);
  const ms = random.ms(0, 3000);
  switch (kind) {
    case 'say':
      return { do: kind, words: random.int(1, 5) };
    case 'pause':
      return { do: kind, ms, deaf: random.chance(0.2) };
    case 'call':
      return { do: kind, ms };
    case 'both':
      return { do: kind, ms: random.ms(1, 20_000) };
    case 'step':
      return {
        do: kind,
        ms,
        failures: random.pick([0, 0, 0, 1, 3]),
        attempts: random.pick([1, 3]),
      };
    case 'steps':
      return { do: kind, count: random.int(2, 3), ms };
    case 'sleep':
      return { do: kind, ms: random.ms(1, 30_000) };
    case 'wait':
      return { do: kind, ...(random.chance(0.4) && { timeoutMs: random.ms(1, 20_000) }) };
    case 'throw':
      // An agent that always fails shows little.
      return random.chance(0.3) ? { do: kind } : { do: 'say', words: 1 };
    default:
      return { do: kind };
  }
}

function planTask(
  random: Random,
  task: string,
  agents: readonly AgentPlan[],
  machines: number,
): Happening[] {
  const on = (): number => random.int(0, machines - 1);
  const at = (): number => random.ms(0, BUSY_MS / 2);
  const agent = random.pick(agents).name;
  const owner = random.chance(0.3) ? { owner: random.pick(['ann', 'bob']) } : {};
  const begin = random.ms(0, 3000);
  const submit = (when: number, message: string): Happening => ({
    do: 'submit',
    at: when,
    task,
    agent,
    message,
    on: on(),
    ...owner,
  });
  const found: Happening[] = [submit(begin, `${task}/m0`)];
  // The same message again, as after a lost response; and a further turn.
  if (random.chance(0.3)) found.push(submit(begin + random.ms(0, 2000), `${task}/m0`));
  if (random.chance(0.3)) found.push(submit(begin + at(), `${task}/m1`));
  if (random.chance(0.3)) found.push({ do: 'cancel', at: begin + at(), task, on: on() });
  if (random.chance(0.05)) found.push({ do: 'cancel', at: begin + at(), task, on: on() });
  if (random.chance(0.2)) found.push({ do: 'look', at: begin + at(), task, on: on() });
  if (random.chance(0.1))
    found.push({ do: 'stray', at: begin + at(), task, on: on(), id: random.pick(['x', 'q1']) });
  for (let readers = random.int(0, 2); readers > 0; readers--)
    found.push({
      do: 'read',
      at: begin + random.ms(0, 10_000),
      task,
      on: on(),
      after: random.pick([0, 0, 1, 3]),
      pauseMs: random.pick([0, 0, 20, 1000]),
      ...(random.chance(0.4) && {
        leaves: { after: random.int(0, 6), how: random.pick(['break', 'abort', 'throw'] as const) },
      }),
    });
  return found;
}

/** What happens to the machines and the store before `busyMs`. */
export function planFaults(random: Random, machines: number, busyMs: number): MachineFault[] {
  const found: MachineFault[] = [];
  for (let count = random.int(0, 4); count > 0; count--) {
    const at = random.ms(1, busyMs);
    const on = random.int(0, machines - 1);
    const againMs = random.ms(1, 10_000);
    switch (
      random.pick(['kill', 'kill', 'stop', 'stop', 'drain', 'cut', 'down', 'clock'] as const)
    ) {
      case 'kill':
        found.push({ do: 'kill', at, on, againMs, skewMs: random.pick([0, 0, -900, 1500]) });
        break;
      case 'stop':
        found.push({ do: 'stop', at, on, ms: random.ms(1, 40_000) });
        break;
      case 'drain':
        found.push({ do: 'drain', at, on, againMs, twice: random.chance(0.5) });
        break;
      case 'cut':
        found.push({ do: 'cut', at, on, ms: random.ms(1, 20_000) });
        break;
      case 'down':
        found.push({ do: 'down', at, ms: random.ms(1, 15_000) });
        break;
      default:
        found.push({ do: 'clock', at, on, ms: random.pick([-3000, -500, 700, 5000]) });
    }
  }
  return found;
}

export function planCallFaults(random: Random): CallFault[] {
  return Array.from({ length: random.int(0, 4) }, () => ({
    method: random.pick(FAULTY),
    nth: random.ms(1, 20),
    how: random.pick(['before', 'after', 'after', 'stall', 'drain'] as const),
    ms: random.ms(1, 30_000),
  }));
}

/** Replies that are lost, and reads that take a little longer. */
function planLostReplies(random: Random): CallFault[] {
  return Array.from({ length: random.int(1, 8) }, () => {
    const method = random.pick(['submit', 'submit', 'cancel', 'append', 'read', 'read'] as const);
    const nth = random.int(1, 8);
    if (method === 'read') return { method, nth, how: 'stall' as const, ms: random.int(1, 300) };
    return { method, nth, how: 'after' as const, ms: random.ms(1, 500) };
  });
}

/** Plans that have one thing less than this one, the largest change first. */
export function* smallerPlans(plan: Plan): Generator<Plan> {
  for (const smaller of plansWithLess(plan)) yield withExistingMachines(smaller);
}

function* plansWithLess(plan: Plan): Generator<Plan> {
  const { happenings, callFaults, agents } = plan;
  for (let size = happenings.length; size >= 1; size = size >> 1)
    for (let from = 0; from < happenings.length; from += size)
      yield { ...plan, happenings: happenings.toSpliced(from, size) };
  if (callFaults.length > 0) yield { ...plan, callFaults: [] };
  for (const index of callFaults.keys())
    yield { ...plan, callFaults: callFaults.toSpliced(index, 1) };
  if (plan.machines > 1) yield { ...plan, machines: plan.machines - 1 };
  for (const [index, agent] of agents.entries())
    for (const action of agent.actions.keys()) {
      const actions = agent.actions.toSpliced(action, 1);
      yield { ...plan, agents: agents.with(index, { ...agent, actions }) };
    }
  if (plan.throwingLogger) yield { ...plan, throwingLogger: false };
  if (plan.person.twice > 0) yield { ...plan, person: { ...plan.person, twice: 0 } };
}

// A machine that no longer exists is replaced by one that does.
const withExistingMachines = (plan: Plan): Plan => ({
  ...plan,
  happenings: plan.happenings.map((it) => ('on' in it ? { ...it, on: it.on % plan.machines } : it)),
});
