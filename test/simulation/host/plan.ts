import { Random } from '../random.ts';

/** The longest delay of a timer. */
export const NEVER_MS = 0x7fffffff;

/** How a tool of the app behaves: the CLI says it in the arguments. */
export interface ToolPlan {
  readonly act: 'return' | 'throw' | 'hang' | 'deaf';
  readonly ms: number;
}

/** One thing that the scripted CLI does in a turn. */
export type CliAction =
  | { readonly do: 'say'; readonly messages: number }
  | { readonly do: 'pause'; readonly ms: number }
  /** Calls tools of the app, all in parallel. */
  | {
      readonly do: 'call';
      readonly tools: readonly ToolPlan[];
      /** The turn does not wait for them. */
      readonly background: boolean;
    }
  /** Calls a tool and withdraws the call. */
  | { readonly do: 'withdraw'; readonly tool: ToolPlan; readonly ms: number }
  /** Asks for a permission; a person may never answer. */
  | { readonly do: 'permit'; readonly ms: number };

/** What the app does with its session or query, and when. */
export type AppAction = { readonly at: number } & (
  | { readonly do: 'send' }
  | { readonly do: 'interrupt' }
  | { readonly do: 'request'; readonly abortMs?: number }
  | { readonly do: 'ready'; readonly abortMs?: number }
  | { readonly do: 'endInput'; readonly force: boolean }
  | { readonly do: 'abort' }
  | { readonly do: 'dispose'; readonly times: number }
);

/** What goes wrong outside of the app. */
export type HostFault =
  | { readonly do: 'die'; readonly at: number; readonly code: number | null }
  | { readonly do: 'stop'; readonly at: number; readonly ms: number }
  /** The CLI reads nothing more: a later write fails with EPIPE. */
  | { readonly do: 'deafen'; readonly at: number }
  /** The n-th line of the CLI. */
  | {
      readonly do: 'truncate' | 'duplicate' | 'noise' | 'die in line';
      readonly nth: number;
    };

export interface ReaderPlan {
  readonly lane: 'messages' | 'frames' | 'response' | 'none';
  readonly pauseMs: number;
  /** It leaves its loop after so many items, and begins another one. */
  readonly leaveAfter: number | undefined;
  readonly how: 'break' | 'throw';
}

/** One schedule of a host and its agent CLI. */
export interface HostPlan {
  readonly part: 'host';
  readonly seed: number;
  readonly kind: 'session' | 'query';
  readonly turns: readonly (readonly CliAction[])[];
  readonly cli: {
    readonly namesTurns: boolean;
    readonly startMs: number;
    readonly initMs: number;
    readonly exitMs: number;
    /** It does not exit at the end of its input; `all`: not with SIGTERM either. */
    readonly stays: 'no' | 'input' | 'all';
    readonly ignoresInterrupt: boolean;
    readonly failsTurns: boolean;
  };
  readonly limits: {
    readonly interruptMs: number;
    readonly exitMs: number;
    readonly stall: { readonly afterMs: number; readonly failMs: number };
    readonly graceMs: number;
    readonly killMs: number;
    readonly readyMs: number;
  };
  readonly actions: readonly AppAction[];
  readonly reader: ReaderPlan;
  readonly faults: readonly HostFault[];
  readonly throwingTap: boolean;
  readonly throwingLogger: boolean;
}

/** Until when the app acts and things go wrong. */
export const HOST_BUSY_MS = 10_000;

export function planHost(seed: number): HostPlan {
  const random = new Random(seed, 'host');
  const kind = random.pick(['session', 'session', 'query'] as const);
  const turns = random.int(1, 3);
  const isFaulty = random.chance(0.75);
  const isHasty = random.chance(0.5);
  const rare = (share: number): boolean => isFaulty && random.chance(share);
  return {
    part: 'host',
    seed,
    kind,
    turns: Array.from({ length: turns }, () => [
      ...Array.from({ length: random.int(1, 4) }, () => planCliAction(random)),
      ...(random.chance(0.3) ? [planLateCall(random)] : []),
    ]),
    cli: {
      namesTurns: random.chance(0.6),
      startMs: random.ms(0, 500),
      initMs: random.ms(0, 800),
      exitMs: random.ms(0, 500),
      stays: rare(0.2) ? random.pick(['input', 'all'] as const) : 'no',
      ignoresInterrupt: rare(0.2),
      failsTurns: rare(0.15),
    },
    limits: {
      interruptMs: random.pick([500, 10_000]),
      exitMs: random.pick([500, 10_000]),
      stall: { afterMs: random.pick([20_000, 60_000]), failMs: 3000 },
      graceMs: random.pick([100, 2000]),
      killMs: random.pick([100, 5000]),
      readyMs: random.pick([500, 60_000]),
    },
    actions: [
      ...Array.from({ length: turns }, (_, turn) => ({
        do: 'send' as const,
        at: turn === 0 ? random.ms(0, 100) : random.ms(0, 6000),
      })),
      ...(isHasty ? planAppActions(random) : []),
    ].toSorted((one, other) => one.at - other.at),
    reader: {
      lane: random.pick(['messages', 'messages', 'frames', 'response', 'none'] as const),
      pauseMs: random.pick([0, 0, 5, 300]),
      leaveAfter: random.chance(0.3) ? random.int(0, 5) : undefined,
      how: random.pick(['break', 'throw'] as const),
    },
    faults: isFaulty ? planHostFaults(random) : [],
    throwingTap: random.chance(0.1),
    throwingLogger: random.chance(0.1),
  };
}

function planTool(random: Random): ToolPlan {
  return {
    act: random.pick(['return', 'return', 'return', 'throw', 'hang', 'deaf'] as const),
    ms: random.pick([0, random.ms(0, 50), random.int(0, 4000)]),
  };
}

/** A call whose answer comes after the result of its turn. */
const planLateCall = (random: Random): CliAction => ({
  do: 'call',
  tools: [{ act: 'return', ms: random.int(0, 1000) }],
  background: true,
});

function planCliAction(random: Random): CliAction {
  switch (random.pick(['say', 'say', 'pause', 'call', 'call', 'withdraw', 'permit'] as const)) {
    case 'say':
      return { do: 'say', messages: random.int(1, 5) };
    case 'pause':
      return { do: 'pause', ms: random.ms(0, 2000) };
    case 'call': {
      const tools = Array.from({ length: random.int(1, 3) }, () => planTool(random));
      return { do: 'call', tools, background: random.chance(0.4) };
    }
    case 'withdraw':
      return { do: 'withdraw', tool: planTool(random), ms: random.ms(0, 500) };
    default:
      return { do: 'permit', ms: random.chance(0.1) ? NEVER_MS : random.ms(0, 500) };
  }
}

function planAppActions(random: Random): AppAction[] {
  return Array.from({ length: random.int(1, 3) }, (): AppAction => {
    const at = random.ms(0, HOST_BUSY_MS);
    const abort = random.chance(0.5) ? { abortMs: random.ms(0, 1000) } : {};
    switch (
      random.pick(['interrupt', 'request', 'ready', 'endInput', 'abort', 'dispose'] as const)
    ) {
      case 'interrupt':
        return { do: 'interrupt', at };
      case 'request':
        return { do: 'request', at, ...abort };
      case 'ready':
        return { do: 'ready', at, ...abort };
      case 'endInput':
        return { do: 'endInput', at, force: random.chance(0.4) };
      case 'abort':
        return { do: 'abort', at };
      default:
        return { do: 'dispose', at, times: random.int(1, 3) };
    }
  });
}

function planHostFaults(random: Random): HostFault[] {
  return Array.from({ length: random.int(1, 2) }, (): HostFault => {
    const at = random.ms(0, HOST_BUSY_MS);
    const nth = random.ms(1, 25);
    const what = random.pick([
      'die',
      'die',
      'stop',
      'deafen',
      'truncate',
      'duplicate',
      'noise',
      'die in line',
    ] as const);
    switch (what) {
      case 'die':
        return { do: what, at, code: random.pick([0, 1, null]) };
      case 'stop':
        return { do: what, at, ms: random.ms(1, 30_000) };
      case 'deafen':
        return { do: what, at };
      default:
        return { do: what, nth };
    }
  });
}

/** Plans that have one thing less than this one. */
export function* smallerHostPlans(plan: HostPlan): Generator<HostPlan> {
  for (const index of plan.faults.keys())
    yield { ...plan, faults: plan.faults.toSpliced(index, 1) };
  for (const index of plan.actions.keys())
    yield { ...plan, actions: plan.actions.toSpliced(index, 1) };
  for (const [turn, actions] of plan.turns.entries())
    for (const index of actions.keys())
      yield { ...plan, turns: plan.turns.with(turn, actions.toSpliced(index, 1)) };
  if (plan.throwingTap) yield { ...plan, throwingTap: false };
  if (plan.throwingLogger) yield { ...plan, throwingLogger: false };
  if (plan.cli.stays !== 'no') yield { ...plan, cli: { ...plan.cli, stays: 'no' } };
}
