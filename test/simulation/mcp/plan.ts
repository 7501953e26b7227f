import { type NetFault, planNetFaults, WITHOUT_REPEATS } from '../network/plan-faults.ts';
import { Random } from '../random.ts';

/** One call of a tool. */
export interface CallPlan {
  readonly at: number;
  readonly client: number;
  /** The number of the call: everything that belongs to it carries this number. */
  readonly n: number;
  readonly act: 'return' | 'throw' | 'hang' | 'deaf';
  readonly ms: number;
  readonly progress: number;
  readonly logs: number;
  readonly asks: number;
  /** The caller stops the call after so many ms, or leaves its loop after so many events. */
  readonly abortMs?: number;
  readonly leaveAfter?: number;
  /** How long the reader takes for each event. */
  readonly pauseMs: number;
}

export interface McpClientPlan {
  readonly protocol: 'auto' | 'session' | 'stateless';
  /** Questions go to `onRequest`, or end the call, which is repeated with the answers. */
  readonly answersBy: 'onRequest' | 'input';
  readonly answerMs: number;
  readonly listens: boolean;
  readonly timeoutMs: number;
  /** It closes its connection at this time, so many times in parallel. */
  readonly closes?: { readonly at: number; readonly times: number };
}

/** What goes wrong with a process. */
export type ProcessFault = { readonly at: number } & (
  | { readonly do: 'kill'; readonly againMs: number }
  | { readonly do: 'stop'; readonly ms: number }
  | { readonly do: 'deafen' }
  | { readonly do: 'noise' | 'half a line' }
);

/** One schedule of MCP: a server, perhaps a bridge, and clients. */
export interface McpPlan {
  readonly part: 'mcp';
  readonly seed: number;
  /** How the server is reached, by the clients or by the bridge. */
  readonly upstream: 'http' | 'stdio';
  /** How clients reach the bridge; undefined without a bridge. */
  readonly bridge: 'http' | 'stdio' | undefined;
  readonly bridgeProtocol: 'auto' | 'session' | 'stateless';
  readonly idleMs: number;
  readonly clients: readonly McpClientPlan[];
  readonly calls: readonly CallPlan[];
  /** When the list of tools changes. */
  readonly changes: readonly number[];
  readonly faults: readonly ProcessFault[];
  readonly netFaults: readonly NetFault[];
}

/** Until when calls begin and things go wrong. */
export const MCP_BUSY_MS = 10_000;

const PROTOCOLS = ['auto', 'session', 'session', 'stateless'] as const;

export function planMcp(seed: number): McpPlan {
  const random = new Random(seed, 'mcp');
  const upstream = random.pick(['http', 'http', 'stdio'] as const);
  const bridge = random.pick([undefined, 'http', 'http', 'stdio'] as const);
  const clients = Array.from({ length: random.int(1, 2) }, () => planClient(random));
  const isFaulty = random.chance(0.7);
  return {
    part: 'mcp',
    seed,
    upstream,
    bridge,
    bridgeProtocol: random.pick(PROTOCOLS),
    idleMs: random.pick([20_000, 60_000]),
    clients,
    calls: Array.from({ length: random.int(1, 6) }, (_, n) => planCall(random, n, clients.length)),
    changes: Array.from({ length: random.int(0, 2) }, () => random.ms(100, MCP_BUSY_MS)),
    faults: isFaulty ? planProcessFaults(random) : [],
    netFaults: isFaulty ? planNetFaults(random, WITHOUT_REPEATS) : [],
  };
}

const planClient = (random: Random): McpClientPlan => ({
  protocol: random.pick(PROTOCOLS),
  answersBy: random.pick(['onRequest', 'input'] as const),
  answerMs: random.pick([0, random.ms(0, 3000)]),
  listens: random.chance(0.4),
  timeoutMs: random.pick([5000, 60_000]),
  ...(random.chance(0.2) && {
    closes: { at: random.ms(0, MCP_BUSY_MS), times: random.int(1, 3) },
  }),
});

function planCall(random: Random, n: number, clients: number): CallPlan {
  return {
    at: random.ms(0, MCP_BUSY_MS / 2),
    client: random.int(0, clients - 1),
    n: n + 1,
    act: random.pick(['return', 'return', 'return', 'return', 'throw', 'hang', 'deaf'] as const),
    ms: random.pick([0, random.ms(0, 200), random.ms(0, 4000)]),
    progress: random.pick([0, 0, 1, 3, 8]),
    logs: random.pick([0, 0, 1, 3]),
    asks: random.pick([0, 0, 0, 1, 2]),
    pauseMs: random.pick([0, 0, 0, 300]),
    ...(random.chance(0.25) && { abortMs: random.ms(0, 3000) }),
    ...(random.chance(0.1) && { leaveAfter: random.int(0, 3) }),
  };
}

function planProcessFaults(random: Random): ProcessFault[] {
  return Array.from({ length: random.int(0, 2) }, (): ProcessFault => {
    const at = random.ms(0, MCP_BUSY_MS);
    const what = random.pick(['kill', 'kill', 'stop', 'deafen', 'noise', 'half a line'] as const);
    if (what === 'kill') return { do: what, at, againMs: random.ms(1, 5000) };
    if (what === 'stop') return { do: what, at, ms: random.ms(1, 20_000) };
    return { do: what, at };
  });
}

/** Plans that have one thing less than this one, the largest change first. */
export function* smallerMcpPlans(plan: McpPlan): Generator<McpPlan> {
  const { calls, faults, netFaults, changes, clients } = plan;
  for (const index of calls.keys()) yield { ...plan, calls: calls.toSpliced(index, 1) };
  for (const index of faults.keys()) yield { ...plan, faults: faults.toSpliced(index, 1) };
  for (const index of netFaults.keys()) yield { ...plan, netFaults: netFaults.toSpliced(index, 1) };
  for (const index of changes.keys()) yield { ...plan, changes: changes.toSpliced(index, 1) };
  if (clients.length > 1)
    yield {
      ...plan,
      clients: clients.slice(0, 1),
      calls: calls.map((call) => ({ ...call, client: 0 })),
    };
  for (const [index, { closes, ...client }] of clients.entries()) {
    if (closes) yield { ...plan, clients: clients.with(index, client) };
    if (client.listens)
      yield { ...plan, clients: clients.with(index, { ...client, listens: false }) };
  }
  for (const [index, call] of calls.entries()) {
    const { abortMs: _a, leaveAfter: _l, ...rest } = call;
    if (Object.keys(rest).length < Object.keys(call).length)
      yield { ...plan, calls: calls.with(index, rest) };
    for (const key of ['progress', 'logs', 'asks', 'pauseMs'] as const)
      if (call[key] > 0) yield { ...plan, calls: calls.with(index, { ...call, [key]: 0 }) };
  }
  if (plan.bridge !== undefined) yield { ...plan, bridge: undefined };
}
