import { DuolaneError } from '../../errors.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Agent, Entry, Turn } from '../../event/types.ts';
import { omitUndefined } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Machine, World } from '../kernel/world.ts';
import type { AgentSimulation, SimulatedRun } from '../types.ts';
import type { AgentSchedule, PlannedFault, PlannedReader } from './agent-schedule.ts';
import { Cluster, QUIET_MS } from './cluster.ts';
import { checkTaskLogs, followTaskLog } from './log-laws.ts';
import { SimulatedStore } from './simulated-store.ts';

const TASK = 'task';
const AGENT = 'agent';
/** The `graceMs` of the runner: how long an agent has to end when its signal aborts. */
const GRACE_MS = 5000;
/** How long an agent has in addition, for what its process still has to do. */
const SLACK_MS = 1000;

/** Runs one schedule of an agent. Returns its run, if the task has ended. */
export async function runAgent(
  world: World,
  schedule: AgentSchedule,
  agent: Agent,
  options: AgentSimulation,
): Promise<SimulatedRun | undefined> {
  const run = new AgentWorld(world, schedule, agent, options);
  await run.toEnd();
  return run.result();
}

interface ActiveCall {
  readonly machine: Machine;
}

class AgentWorld {
  readonly #world: World;
  readonly #schedule: AgentSchedule;
  readonly #options: AgentSimulation;
  readonly #store: SimulatedStore;
  readonly #cluster: Cluster;
  readonly #active = new Set<ActiveCall>();
  readonly #canceled = new Set<string>();
  #messages = 0;

  constructor(world: World, schedule: AgentSchedule, agent: Agent, options: AgentSimulation) {
    this.#world = world;
    this.#schedule = schedule;
    this.#options = options;
    const { machines, heartbeatMs, calls } = schedule;
    this.#store = new SimulatedStore(world, machines === 1 ? 'alone' : 'replicas', calls);
    this.#store.onEntry = (entry) => this.#committed(entry);
    this.#cluster = new Cluster(world, this.#store, {
      machines,
      agents: { [AGENT]: this.#watched(agent) },
      settings: {
        log: { heartbeatMs, leaseMs: 4 * heartbeatMs, cancelTimeoutMs: 2 * GRACE_MS },
        runner: { graceMs: GRACE_MS },
      },
    });
    this.#cluster.onKilled = (machine) => {
      for (const call of this.#active) if (call.machine === machine) this.#active.delete(call);
    };
  }

  async toEnd(): Promise<void> {
    const world = this.#world;
    const { input = 'hello', limitMs = 86_400_000 } = this.#options;
    const parts = typeof input === 'string' ? [{ text: input }] : input;
    this.#submit({ agent: AGENT, task: TASK, context: 'context', messageId: 'message', parts });
    const isOver = (): boolean => !this.#cluster.isBusy && this.#isFinal();
    await world.run(limitMs, () => world.violations.length > 0 || isOver());
    if (world.violations.length > 0) return;
    if (!isOver()) this.#reportStuck();
    await world.run(world.now + QUIET_MS, () => false);
    await this.#cluster.close();
    checkTaskLogs(world, this.#store, {
      canceled: this.#canceled,
      // What a run fails with is compared with the run without faults.
      mayFail: () => true,
    });
  }

  result(): SimulatedRun | undefined {
    const entries = this.#store.entries.get(TASK) ?? [];
    const end = entries.findLast((entry) => entry.type === 'run.finished');
    if (!end || !this.#isFinal()) return undefined;
    const { outcome, text, output, error } = end;
    const { seed } = this.#schedule;
    return omitUndefined<SimulatedRun>({ seed, outcome, text, output, error, entries });
  }

  #isFinal(): boolean {
    return isFinal(this.#store.get(TASK)?.state ?? 'submitted');
  }

  #reportStuck(): void {
    const snapshot = this.#store.get(TASK);
    if (!snapshot || isFinal(snapshot.state)) {
      this.#world.broken('every promise settles', `${this.#cluster.open} calls are open`);
      return;
    }
    const { state, pending, waits = [], running } = snapshot;
    const waiting = [...pending, ...waits].map(({ id }) => id).join('", "');
    this.#world.broken(
      'every task ends',
      `after ${Math.round(this.#world.now)} ms the task is ${state}${running ? ' and running' : ''}` +
        `${waiting === '' ? '' : `, and waits for "${waiting}"`}; a simulation does not wait for sockets`,
    );
  }

  /** The agent, and a look whether it ends in time when its signal aborts. */
  #watched(agent: Agent): Agent {
    const world = this.#world;
    const active = this.#active;
    const watched: Agent = async function* (turn, context) {
      const call = { machine: world.current };
      active.add(call);
      const unlisten = onAbort(context.signal, () => {
        world.after(GRACE_MS + SLACK_MS, world.outside, 'look for the agent', () => {
          if (active.has(call) && !call.machine.dead && call.machine.stoppedUntil <= world.now)
            world.broken(
              'an agent ends when its signal aborts',
              `it still runs ${GRACE_MS + SLACK_MS} ms later`,
            );
        });
      });
      try {
        yield* agent(turn, context);
      } finally {
        unlisten();
        active.delete(call);
      }
    };
    const { resumable, continues } = agent;
    return Object.assign(watched, omitUndefined({ resumable, continues }));
  }

  #committed(entry: Entry): void {
    const world = this.#world;
    const { faults, readers } = this.#schedule;
    for (const fault of [...faults, ...readers])
      if (fault.after === entry.seq) {
        const end = this.#cluster.begin();
        world.after(fault.ms, world.outside, fault.do, () => {
          end();
          this.#happen(fault);
        });
      }
    if (entry.type === 'input.required') this.#answer(entry.request);
    if (entry.type === 'step.stored' && entry.kind === 'event' && entry.status === 'waiting')
      this.#answer({ id: entry.id });
  }

  #happen(fault: PlannedFault | PlannedReader): void {
    const world = this.#world;
    const cluster = this.#cluster;
    const holder = this.#store.holders.get(TASK);
    const slot = Math.max(0, holder ? cluster.slotOf(holder) : 0);
    const replica = cluster.at(slot);
    world.count(fault.do);
    switch (fault.do) {
      case 'crash':
        return cluster.kill(slot, fault.againMs, fault.skewMs);
      case 'drain':
        return cluster.drain(slot, fault.againMs, fault.twice);
      case 'stop':
        if (replica) world.stop(replica.machine, fault.forMs);
        return;
      case 'cut':
        if (replica) this.#store.of(replica.machine)?.cut(fault.forMs);
        return;
      case 'cancel':
        return this.#cancel();
      case 'read':
        return this.#read(fault);
    }
  }

  #submit(turn: Turn): void {
    this.#cluster.request(
      this.#world.random('clients').int(0, this.#schedule.machines - 1),
      (replica) => replica.runner.submit(turn),
      () => {}, // a late or repeated answer may be refused
    );
  }

  #cancel(): void {
    this.#cluster.request(
      0,
      (replica) => replica.log.requestCancel(TASK, 'canceled by the simulation'),
      (result) => {
        if (!(result instanceof DuolaneError)) this.#canceled.add(TASK);
        else if (result.code !== 'closed')
          this.#world.broken('a cancel is accepted or comes too late', result.message);
      },
    );
  }

  #read({ from, pauseMs, ends }: PlannedReader): void {
    const world = this.#world;
    const replica = this.#cluster.alive(0);
    if (!replica) return;
    let isOver = false;
    const close = this.#cluster.begin();
    const end = (): void => {
      isOver = true;
      close();
    };
    this.#cluster.whenDead(replica, end, () => isOver);
    world.after(0, replica.machine, 'read', () => {
      const reader = omitUndefined({ task: TASK, from, pauseMs, ends });
      followTaskLog(world, this.#store, replica, reader).then(end, (error: unknown) => {
        world.broken('every failure is typed', String(error));
        end();
      });
    });
  }

  #answer(request: Parameters<NonNullable<AgentSimulation['answer']>>[0]): void {
    const world = this.#world;
    const random = world.random('people');
    const { maxMs, twice } = this.#schedule.answers;
    const { answer = () => ({ action: 'accept' as const }) } = this.#options;
    for (let each = 0; each < (twice ? 2 : 1); each++) {
      const end = this.#cluster.begin();
      world.after(random.ms(1, maxMs), world.outside, `answer ${request.id}`, () => {
        end();
        if (this.#isFinal()) return;
        const messageId = `answer/${++this.#messages}`;
        const answers = [{ ...answer(request), id: request.id }];
        this.#submit({
          agent: AGENT,
          task: TASK,
          context: 'context',
          messageId,
          parts: [],
          answers,
        });
      });
    }
  }
}
