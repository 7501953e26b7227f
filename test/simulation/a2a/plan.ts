import { type NetFault, planNetFaults } from '../network/plan-faults.ts';
import { Random } from '../random.ts';
import {
  type AgentPlan,
  planAgent,
  planCallFaults,
  planFaults,
  planLimits,
  type MachineFault,
  type Plan,
} from '../tasks/plan.ts';

/** What a client does in one conversation: it sends a message and follows the task to its end. */
export interface Conversation {
  readonly at: number;
  readonly client: number;
  readonly agent: string;
  readonly message: string;
  /** `send`: one request that waits for the end. */
  readonly by: 'stream' | 'send';
  readonly pauseMs: number;
  /** The reader leaves after so many events, and resumes after a time. */
  readonly leaves?: {
    readonly after: number;
    readonly how: 'break' | 'abort' | 'disconnect' | 'throw';
    readonly backMs: number;
  };
  /** Cancels the task so long after its first event. */
  readonly cancelMs?: number;
  /** How long a person takes for an answer. */
  readonly answerMs: number;
  /** The answer is sent twice, by two requests. */
  readonly answersTwice: boolean;
  /** A second client subscribes so long after the first event. */
  readonly watchMs?: number;
}

export interface ClientPlan {
  readonly version: '1.0' | '0.3';
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  /** What the card says: it resumes by id; it streams and cannot resume; it does not stream. */
  readonly server: 'exact' | 'foreign' | 'poll';
  readonly silenceMs: number;
  readonly retryMs: number;
}

/** One schedule of A2A: replicas with servers, and clients. */
export interface A2APlan extends Pick<
  Plan,
  'seed' | 'sharing' | 'machines' | 'log' | 'runner' | 'agents' | 'callFaults' | 'throwingLogger'
> {
  readonly part: 'a2a';
  readonly heartbeatMs: number;
  readonly clients: readonly ClientPlan[];
  readonly conversations: readonly Conversation[];
  readonly happenings: readonly MachineFault[];
  readonly netFaults: readonly NetFault[];
}

/** Until when conversations begin and things go wrong. */
export const A2A_BUSY_MS = 20_000;

export function planA2A(seed: number): A2APlan {
  const random = new Random(seed, 'a2a');
  const sharing = random.chance(0.6) ? 'replicas' : 'alone';
  const machines = sharing === 'alone' ? 1 : random.int(1, 3);
  const agents = Array.from({ length: random.int(1, 2) }, (_, index): AgentPlan => {
    const plan = planAgent(random, `agent${index}`);
    return { ...plan, actions: plan.actions.map((it) => (it.do === 'wait' ? { do: 'ask' } : it)) };
  });
  const faulty = random.chance(0.8);
  const netFaulty = faulty && random.chance(0.85);
  const clients = Array.from({ length: random.int(1, 2) }, () => planClient(random));
  return {
    part: 'a2a',
    seed,
    sharing,
    machines,
    ...planLimits(random),
    agents,
    heartbeatMs: random.pick([500, 15_000]),
    clients,
    conversations: Array.from({ length: random.int(1, 3) }, (_, index) =>
      planConversation(random, index, clients.length, agents),
    ),
    happenings: faulty && random.chance(0.5) ? planFaults(random, machines, A2A_BUSY_MS) : [],
    callFaults: faulty && random.chance(0.3) ? planCallFaults(random) : [],
    netFaults: netFaulty ? planNetFaults(random) : [],
    throwingLogger: random.chance(0.05),
  };
}

const planClient = (random: Random): ClientPlan => ({
  version: random.pick(['1.0', '1.0', '0.3'] as const),
  binding: random.pick(['JSONRPC', 'JSONRPC', 'HTTP+JSON'] as const),
  server: random.pick(['exact', 'exact', 'exact', 'exact', 'foreign', 'poll'] as const),
  silenceMs: random.pick([2000, 20_000]),
  retryMs: random.pick([50, 250]),
});

function planConversation(
  random: Random,
  index: number,
  clients: number,
  agents: readonly AgentPlan[],
): Conversation {
  return {
    at: random.ms(0, A2A_BUSY_MS / 4),
    client: random.int(0, clients - 1),
    agent: random.pick(agents).name,
    message: `m${index}`,
    by: random.chance(0.85) ? 'stream' : 'send',
    pauseMs: random.pick([0, 0, 0, 20, 700]),
    answerMs: random.pick([1, random.ms(1, 500), random.ms(1, 10_000)]),
    answersTwice: random.chance(0.2),
    ...(random.chance(0.35) && {
      leaves: {
        after: random.int(0, 6),
        how: random.pick(['break', 'abort', 'disconnect', 'throw'] as const),
        backMs: random.ms(0, 3000),
      },
    }),
    ...(random.chance(0.2) && { cancelMs: random.ms(0, 6000) }),
    ...(random.chance(0.25) && { watchMs: random.ms(0, 4000) }),
  };
}

/** Plans that have one thing less than this one, the largest change first. */
export function* smallerA2APlans(plan: A2APlan): Generator<A2APlan> {
  const { conversations, happenings, callFaults, netFaults, agents } = plan;
  for (const index of conversations.keys())
    if (conversations.length > 1)
      yield { ...plan, conversations: conversations.toSpliced(index, 1) };
  for (const index of happenings.keys())
    yield { ...plan, happenings: happenings.toSpliced(index, 1) };
  for (const index of netFaults.keys()) yield { ...plan, netFaults: netFaults.toSpliced(index, 1) };
  for (const index of callFaults.keys())
    yield { ...plan, callFaults: callFaults.toSpliced(index, 1) };
  if (plan.machines > 1) {
    const machines = plan.machines - 1;
    const fewer = happenings.map((it) => ('on' in it ? { ...it, on: it.on % machines } : it));
    yield { ...plan, machines, happenings: fewer };
  }
  for (const [index, agent] of agents.entries())
    for (const action of agent.actions.keys()) {
      const actions = agent.actions.toSpliced(action, 1);
      yield { ...plan, agents: agents.with(index, { ...agent, actions }) };
    }
  for (const [index, { leaves: _l, cancelMs: _c, watchMs: _w, ...rest }] of conversations.entries())
    if (Object.keys(rest).length < Object.keys(conversations[index] ?? {}).length)
      yield { ...plan, conversations: conversations.with(index, rest) };
  if (plan.throwingLogger) yield { ...plan, throwingLogger: false };
}
