import { getEventListeners } from 'node:events';
import { DuolaneError } from '../../../src/errors.ts';
import { isFinal } from '../../../src/event/index.ts';
import type { Agent, Entry } from '../../../src/event/types.ts';
import { SIGNAL_TIMER } from '../globals.ts';
import { Network } from '../network/network.ts';
import { scriptedAgent } from '../tasks/agents.ts';
import { Cluster } from '../tasks/cluster.ts';
import { Database } from '../tasks/database.ts';
import { checkLog } from '../tasks/laws.ts';
import { Ledger } from '../tasks/ledger.ts';
import { AGENT_TIMER } from '../tasks/replica.ts';
import type { Machine, World } from '../world.ts';
import { A2AReplica, ORIGIN } from './a2a-replica.ts';
import { ConversationRun, type Surroundings } from './conversation.ts';
import { A2A_BUSY_MS, type A2APlan, type Conversation } from './plan.ts';
import { PublishedEvents } from './published-events.ts';

/** How long everything has to come to its end, once nothing more goes wrong. */
const PATIENCE_MS = 30 * 60_000;
const QUIET_MS = 10_000;

/** Runs one schedule of A2A: servers on replicas, and clients over a network. */
export async function runA2A(world: World, plan: A2APlan): Promise<void> {
  await new A2AWorld(world, plan).run();
}

class A2AWorld {
  readonly #world: World;
  readonly #plan: A2APlan;
  readonly #db: Database;
  readonly #ledger: Ledger;
  readonly #cluster: Cluster<A2AReplica>;
  readonly #network: Network;
  readonly #published = new PublishedEvents();
  readonly #agents: Record<string, Agent> = {};
  readonly #clients: readonly Machine[];
  readonly #around: Surroundings;
  readonly #working = new Map<string, number>();

  constructor(world: World, plan: A2APlan) {
    this.#world = world;
    this.#plan = plan;
    const { happenings, callFaults, netFaults, sharing } = plan;
    const clocksMove = happenings.some((it) => it.do === 'clock' || it.do === 'kill');
    const isCalm = happenings.length === 0 && callFaults.length === 0;
    this.#db = new Database(world, sharing, callFaults);
    this.#ledger = new Ledger(world, this.#db, {
      clocksMove,
      isQuiet: isCalm || sharing === 'alone',
      promptMs: isCalm ? 2 * plan.log.heartbeatMs + 1000 : undefined,
    });
    this.#db.onEntry = (entry, task) => this.#committed(entry, task);
    for (const agent of plan.agents) this.#agents[agent.name] = scriptedAgent(agent, this.#ledger);
    this.#network = new Network(world, netFaults);
    this.#cluster = new Cluster(
      world,
      this.#db,
      this.#ledger,
      (machine) => new A2AReplica(world, this.#db, machine, plan, this.#network, this.#agents),
    );
    this.#cluster.onKilled = (machine) => this.#network.lose(machine);
    this.#network.route(ORIGIN, () => this.#choose());
    this.#clients = plan.clients.map((_, index) => world.machine(`client${index}`));
    this.#around = {
      world,
      network: this.#network,
      published: this.#published,
      isQuiet: isCalm && netFaults.length === 0,
      mayEndEarly: netFaults.some(({ how }) => how === 'end'),
      stateOf: (task) => this.#db.get(task)?.state,
      canceled: new Set(),
      track: (what, work) => this.#track(what, work),
      controllers: [],
    };
  }

  #committed(entry: Entry, task: string): void {
    this.#ledger.commit(entry, task);
    this.#published.commit(entry, task);
  }

  /** Any machine that listens; one that shuts down may still get a request. */
  #choose(): A2AReplica | undefined {
    const random = this.#network.random;
    const on = random.int(0, this.#plan.machines - 1);
    const wanted = this.#cluster.slots[on];
    if (wanted?.leaving && !wanted.machine.dead && random.chance(0.2)) return wanted;
    return this.#cluster.alive(on);
  }

  async run(): Promise<void> {
    const world = this.#world;
    const plan = this.#plan;
    for (let slot = 0; slot < plan.machines; slot++) this.#cluster.start(slot, 0);
    for (const fault of plan.happenings) {
      this.#cluster.open++;
      world.after(fault.at, world.outside, fault.do, () => {
        this.#cluster.open--;
        world.count(fault.do);
        this.#cluster.happen(fault);
      });
    }
    for (const conversation of plan.conversations) this.#converse(conversation);
    const limit = A2A_BUSY_MS + PATIENCE_MS;
    await world.run(limit, () => world.violations.length > 0 || this.#isOver());
    if (world.violations.length > 0) return;
    for (const [what, count] of this.#working)
      world.broken('every promise settles', `${count} of ${what}`);
    this.#reportStuck();
    const calmAt = Math.max(world.now, this.#network.stalledUntil);
    await world.run(calmAt + QUIET_MS, () => false);
    this.#checkClients();
    await this.#cluster.disposeAll(PATIENCE_MS);
    this.#network.check();
    checkLog(world, plan, this.#db, this.#ledger.texts, this.#around.canceled);
  }

  #isOver(): boolean {
    if (this.#working.size > 0 || !this.#cluster.isCalm) return false;
    for (const task of this.#db.entries.keys())
      if (!isFinal(this.#db.get(task)?.state ?? 'submitted')) return false;
    return true;
  }

  #reportStuck(): void {
    for (const task of this.#db.entries.keys()) {
      const state = this.#db.get(task)?.state ?? 'submitted';
      if (!isFinal(state)) this.#world.broken('every task ends', `${task} is ${state}`);
    }
  }

  // ——— clients

  #converse(conversation: Conversation): void {
    const { client, at, message, cancelMs, watchMs } = conversation;
    const machine = this.#clients[client] as Machine;
    const other = this.#clients.at(-1) as Machine;
    const plan = this.#plan.clients[client];
    const watching = this.#plan.clients.at(-1);
    if (!plan || !watching) return;
    this.#on(machine, at, `conversation ${message}`, async () => {
      const run = new ConversationRun(this.#around, conversation, plan);
      run.onTask = (task) => {
        if (cancelMs !== undefined)
          this.#on(machine, cancelMs, `cancel ${message}`, () =>
            new ConversationRun(this.#around, conversation, plan).cancel(task),
          );
        if (watchMs !== undefined)
          this.#on(other, watchMs, `watch ${message}`, () =>
            new ConversationRun(this.#around, conversation, watching).watch(task),
          );
      };
      await run.run();
    });
  }

  /** Runs work of an app on its machine, later. */
  #on(machine: Machine, ms: number, what: string, work: () => Promise<void>): void {
    this.#begin(what);
    this.#world.after(ms, machine, what, () => {
      this.#end(what);
      this.#track(what, work());
    });
  }

  #track(what: string, work: Promise<unknown>): void {
    this.#begin(what);
    work.then(
      () => this.#end(what),
      (error: unknown) => {
        this.#end(what);
        const isTyped = error instanceof DuolaneError && error.code !== 'internal';
        if (!isTyped)
          this.#world.broken('every failure is typed', `${what}: ${(error as Error).stack}`);
        else if (this.#around.isQuiet)
          this.#world.broken('without a fault, nothing fails', `${what}: ${error.stack}`);
      },
    );
  }

  #begin(what: string): void {
    this.#working.set(what, (this.#working.get(what) ?? 0) + 1);
  }

  #end(what: string): void {
    const rest = (this.#working.get(what) ?? 0) - 1;
    if (rest > 0) this.#working.set(what, rest);
    else this.#working.delete(what);
  }

  // ——— what is left

  #checkClients(): void {
    const world = this.#world;
    for (const machine of this.#clients)
      for (const { where, event } of machine.timers)
        if (where !== AGENT_TIMER && where !== SIGNAL_TIMER)
          world.broken(
            'no timer is left of a client',
            `${where} of ${Math.round((event?.at ?? 0) - world.now)} ms`,
          );
    for (const { signal } of this.#around.controllers)
      if (getEventListeners(signal, 'abort').length > 0)
        world.broken('no listener is left of a client', 'abort');
    for (const replica of this.#cluster.slots) replica?.checkSlots();
  }
}
