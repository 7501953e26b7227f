import { isFinal } from '../../../src/event/index.ts';
import { DuolaneError } from '../../../src/errors.ts';
import type { Agent, Entry, Turn } from '../../../src/event/types.ts';
import type { World } from '../world.ts';
import { scriptedAgent } from './agents.ts';
import { Cluster, QUIET_MS } from './cluster.ts';
import { checkLog, follow, hasFaults, isPrompt } from './laws.ts';
import { Database } from './database.ts';
import { Ledger } from './ledger.ts';
import { BUSY_MS, type Happening, type Plan } from './plan.ts';
import { Replica } from './replica.ts';

/** How long everything has to come to its end, once nothing more goes wrong. */
const PATIENCE_MS = 20 * 60_000;

/** Runs one schedule of part 1: replicas, runners, readers, and people who answer. */
export async function runTasks(world: World, plan: Plan): Promise<void> {
  await new TaskWorld(world, plan).run();
}

class TaskWorld {
  readonly #world: World;
  readonly #plan: Plan;
  readonly #db: Database;
  readonly #ledger: Ledger;
  readonly #agents: Record<string, Agent> = {};
  readonly #cluster: Cluster<Replica>;
  #messages = 0;
  readonly #canceled = new Set<string>();

  constructor(world: World, plan: Plan) {
    this.#world = world;
    this.#plan = plan;
    const clocksMove = plan.happenings.some((it) => it.do === 'clock' || it.do === 'kill');
    const isQuiet = !hasFaults(plan) || plan.sharing === 'alone';
    this.#db = new Database(world, plan.sharing, plan.callFaults);
    this.#ledger = new Ledger(world, this.#db, {
      clocksMove,
      isQuiet,
      promptMs: isPrompt(plan) ? 2 * plan.log.heartbeatMs + 1000 : undefined,
    });
    this.#db.onEntry = (entry, task) => this.#committed(entry, task);
    for (const agent of plan.agents) this.#agents[agent.name] = scriptedAgent(agent, this.#ledger);
    this.#cluster = new Cluster(
      world,
      this.#db,
      this.#ledger,
      (machine) => new Replica(world, this.#db, machine, plan, this.#agents),
    );
  }

  async run(): Promise<void> {
    const world = this.#world;
    for (let slot = 0; slot < this.#plan.machines; slot++) this.#cluster.start(slot, 0);
    for (const happening of this.#plan.happenings) {
      this.#cluster.open++;
      world.after(happening.at, world.outside, happening.do, () => {
        this.#cluster.open--;
        world.count(happening.do);
        this.#happen(happening);
      });
    }
    const limit = BUSY_MS + PATIENCE_MS;
    await world.run(limit, () => world.violations.length > 0 || this.#isOver());
    if (world.violations.length > 0) return;
    if (!this.#isOver()) this.#reportStuck();
    if (this.#plan.rests) {
      await world.run(world.now + QUIET_MS, () => false);
      this.#checkAgents();
    }
    await this.#cluster.disposeAll(PATIENCE_MS);
    this.#checkLog();
  }

  #isOver(): boolean {
    if (!this.#cluster.isCalm) return false;
    for (const task of this.#db.entries.keys())
      if (!isFinal(this.#db.get(task)?.state ?? 'submitted')) return false;
    return true;
  }

  #reportStuck(): void {
    const world = this.#world;
    if (this.#cluster.open > 0)
      world.broken('every promise settles', `${this.#cluster.open} calls are open`);
    for (const task of this.#db.entries.keys()) {
      const snapshot = this.#db.get(task);
      if (!snapshot || isFinal(snapshot.state)) continue;
      const { state, pending, waits = [], running, canceling } = snapshot;
      const waiting = [...pending, ...waits].map(({ id }) => id).join(' ');
      world.broken(
        'every task ends',
        `${task} is ${state} (running ${running}, canceling ${canceling}, waits for "${waiting}")`,
      );
    }
  }

  // ——— what happens from outside

  #happen(happening: Happening): void {
    switch (happening.do) {
      case 'submit': {
        const { task, agent, message, owner, on } = happening;
        const turn = { agent, task, context: 'c', messageId: message, parts: [{ text: 'hi' }] };
        return this.#submit(owner === undefined ? turn : { ...turn, owner }, on);
      }
      case 'cancel':
        return this.#cancel(happening.task, happening.on);
      case 'read':
        return this.#read(happening);
      case 'look':
        return this.#look(happening.on, happening.task);
      case 'stray':
        return this.#stray(happening.on, happening.task, happening.id);
      default:
        return this.#cluster.happen(happening);
    }
  }

  /**
   * Calls something on a machine, as a client over a network does: it repeats the call when the
   * machine dies or the store fails, and ends with the result or a refusal.
   */
  #request<T>(
    on: number,
    call: (replica: Replica) => Promise<T>,
    done: (result: T | DuolaneError) => void,
  ): void {
    const world = this.#world;
    const over = this.#cluster.begin();
    const end = (result: T | DuolaneError): void => {
      over();
      done(result);
    };
    const attempt = (): void => {
      const replica = this.#cluster.alive(on);
      if (!replica) return void world.after(500, world.outside, 'try again', attempt);
      let settled = false;
      const settle = (result: T | DuolaneError, again: boolean): void => {
        if (settled) return;
        settled = true;
        if (again) world.after(700, world.outside, 'try again', attempt);
        else world.after(0, world.outside, 'reply', () => end(result));
      };
      world.after(0.1, replica.machine, 'request', () => {
        call(replica).then(
          (result) => settle(result, false),
          (error: unknown) => {
            const failure = DuolaneError.from(error);
            if (failure.code === 'internal')
              world.broken('every failure is typed', String(failure.stack));
            const isRefusal = failure.code === 'conflict' || !failure.retryable;
            settle(failure, !isRefusal || (failure.code === 'closed' && !replica.isAlive));
          },
        );
      });
      this.#cluster.whenDead(
        replica,
        () => {
          if (settled) return;
          settled = true;
          attempt();
        },
        () => settled,
      );
    };
    attempt();
  }

  #submit(turn: Turn, on: number): void {
    const { task, messageId } = turn;
    this.#request(
      on,
      (replica) => replica.runner.submit(turn),
      (result) => {
        if (result instanceof DuolaneError) {
          const isStored = this.#db.entries
            .get(task)
            ?.some((each) => each.type === 'turn.submitted' && each.turn.messageId === messageId);
          if (isStored) this.#world.broken('a stored message is not refused', result.message);
          return;
        }
        const stored = this.#db.entries.get(task)?.[result.seq - 1];
        const found = stored?.type === 'turn.submitted' ? stored.turn.messageId : undefined;
        if (found !== messageId)
          this.#world.broken('a turn is durable when submit resolves', `${messageId}: ${found}`);
      },
    );
  }

  #cancel(task: string, on: number): void {
    this.#request(
      on,
      (replica) => replica.log.requestCancel(task, 'enough'),
      (result) => {
        if (result instanceof DuolaneError) {
          const { code } = result;
          if (code !== 'closed' && code !== 'not_found')
            this.#world.broken('a cancel is accepted or closed', `${task}: ${result.message}`);
        } else this.#canceled.add(task);
      },
    );
  }

  #look(on: number, task: string): void {
    this.#request(
      on,
      async ({ log }) => {
        const snapshot = await log.get(task);
        let listed = false;
        for await (const { task: each } of log.list({})) listed ||= each === task;
        const { ok } = await log.health();
        return { seq: snapshot?.seq ?? 0, listed, ok, count: await log.count({}) };
      },
      (result) => {
        if (!(result instanceof DuolaneError) && result.seq > 0 && result.count === 0)
          this.#world.broken('a task that exists is counted', task);
      },
    );
  }

  /** Answers a question that was not asked: it must be refused. */
  #stray(on: number, task: string, id: string): void {
    const known = this.#db.get(task);
    if (!known) return;
    const { agent, owner } = known;
    const messageId = `stray/${++this.#messages}`;
    const turn = { agent, task, context: 'c', messageId, parts: [], ...(owner && { owner }) };
    const answers = [{ id: `stray/${id}`, action: 'accept', content: 'stray' } as const];
    this.#request(
      on,
      (replica) => replica.runner.submit({ ...turn, answers }),
      (result) => {
        if (!(result instanceof DuolaneError))
          this.#world.broken('an answer without a question is refused', id);
      },
    );
  }

  // ——— readers

  #read(happening: Happening & { readonly do: 'read' }): void {
    const { task, on } = happening;
    const replica = this.#cluster.alive(on);
    if (!replica || !this.#db.entries.has(task)) return;
    const world = this.#world;
    let over = false;
    const close = this.#cluster.begin();
    const end = (): void => {
      over = true;
      close();
    };
    this.#cluster.whenDead(replica, end, () => over);
    world.after(0, replica.machine, 'read', () => {
      follow(world, this.#db, replica, happening).then(end, (error: unknown) => {
        const failure = DuolaneError.from(error);
        const known = ['closed', 'invalid', 'canceled', 'server', 'not_found'];
        if (!known.includes(failure.code) && failure.message !== 'the reader throws')
          world.broken('every failure is typed', String(failure.stack));
        if (failure.code === 'closed' && replica.isAlive)
          world.broken('a reader ends with its task', `${task}: ${failure.message}`);
        end();
      });
    });
  }

  // ——— people

  #committed(entry: Entry, task: string): void {
    this.#ledger.commit(entry, task);
    if (entry.type === 'input.required') this.#answer(task, entry.request.id);
    if (entry.type === 'step.stored' && entry.kind === 'event' && entry.status === 'waiting')
      // Some events never come, if the agent does not wait for ever.
      if (entry.until === undefined || this.#world.random('people').chance(0.6))
        this.#answer(task, entry.id);
  }

  #answer(task: string, id: string): void {
    const world = this.#world;
    const random = world.random('people');
    const { minMs, maxMs, twice } = this.#plan.person;
    const times = random.chance(twice) ? 2 : 1;
    for (let each = 0; each < times; each++) {
      const on = random.int(0, this.#plan.machines - 1);
      this.#cluster.open++;
      world.after(random.ms(minMs, maxMs), world.outside, `answer ${id}`, () => {
        this.#cluster.open--;
        const known = this.#db.get(task);
        if (!known || isFinal(known.state)) return;
        const messageId = `answer/${++this.#messages}`;
        const { agent, owner } = known;
        const answers = [{ id, action: 'accept', content: `yes${this.#messages}` } as const];
        const turn = { agent, task, context: 'c', messageId, parts: [], answers };
        this.#submit(owner === undefined ? turn : { ...turn, owner }, on);
      });
    }
  }

  // ——— laws of the log

  #checkAgents(): void {
    for (const { turn, machine, signal } of this.#ledger.active)
      this.#world.broken(
        'an agent ends with its task',
        `${turn.task} on ${machine.name}, ${signal.aborted ? 'aborted' : 'not aborted'}`,
      );
  }

  #checkLog(): void {
    checkLog(this.#world, this.#plan, this.#db, this.#ledger.texts, this.#canceled);
  }
}
