import type { Agent, Logger } from '../../../src/event/types.ts';
import { openLog } from '../../../src/task/log/task-log.ts';
import { createRunner } from '../../../src/task/run/runner.ts';
import type { Runner, TaskLog } from '../../../src/task/types.ts';
import type { Machine, World } from '../world.ts';
import type { Database } from './database.ts';
import type { Plan } from './plan.ts';

/** Marks the timers of agents. */
export const AGENT_TIMER = 'timer of an agent';

const silent = (): void => {};
const SILENT: Logger = { debug: silent, info: silent, warn: silent, error: silent };
const thrower = (): never => {
  throw new Error('the logger throws');
};
const THROWS: Logger = { debug: thrower, info: thrower, warn: thrower, error: thrower };

/** A process of the product: a log on a connection of its own, and a runner. */
export class Replica {
  readonly machine: Machine;
  readonly log: TaskLog;
  readonly runner: Runner;
  /** It is being disposed: nothing new is sent to it. */
  leaving = false;
  readonly #world: World;
  readonly #db: Database;

  constructor(
    world: World,
    db: Database,
    machine: Machine,
    plan: Pick<Plan, 'log' | 'runner' | 'throwingLogger'>,
    agents: Readonly<Record<string, Agent>>,
  ) {
    this.#world = world;
    this.#db = db;
    this.machine = machine;
    const logger = plan.throwingLogger ? THROWS : SILENT;
    this.log = openLog(db.connect(machine).store, { ...plan.log, logger });
    this.runner = createRunner({
      ...plan.runner,
      log: this.log,
      agents,
      logger,
      name: machine.name,
    });
  }

  get isAlive(): boolean {
    return !this.machine.dead && !this.leaving;
  }

  /** Drains the runner and closes the log. With `twice`, both at the same time and once more. */
  async dispose(twice: boolean): Promise<void> {
    this.leaving = true;
    const { runner, log } = this;
    const drained = runner[Symbol.asyncDispose]();
    if (twice) await Promise.all([runner[Symbol.asyncDispose](), drained]);
    await drained;
    await this.closeStreams(twice);
    const closed = log[Symbol.asyncDispose]();
    if (twice) await Promise.all([log[Symbol.asyncDispose](), closed]);
    await closed;
    if (twice) await runner[Symbol.asyncDispose]();
    if (twice) await log[Symbol.asyncDispose]();
  }

  /** Closes what serves the task, when its runs have ended. */
  protected async closeStreams(_twice: boolean): Promise<void> {}

  checkTimers(): void {
    for (const { where, event } of this.machine.timers) {
      if (where === AGENT_TIMER) continue;
      const ms = (event?.at ?? 0) - this.#world.now;
      this.#world.broken('no timer is left after dispose', `${where} of ${Math.round(ms)} ms`);
    }
  }

  /** Checks that nothing is left of it, and forgets its connection. */
  checkGone(): void {
    this.checkTimers();
    const { name } = this.machine;
    const connection = this.#db.of(this.machine);
    if (!connection) return;
    if (connection.listeners > 0)
      this.#world.broken('no listener is left after dispose', `${connection.listeners} of ${name}`);
    this.#db.disconnect(connection);
  }
}
