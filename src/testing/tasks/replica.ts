import type { Agent, Logger } from '../../event/types.ts';
import { openLog } from '../../task/log/task-log.ts';
import { createRunner } from '../../task/run/runner.ts';
import type { LogOptions, Runner, RunnerOptions, TaskLog } from '../../task/types.ts';
import { SIGNAL_TIMER } from '../kernel/virtual-globals.ts';
import type { Machine, World } from '../kernel/world.ts';
import type { SimulatedStore } from './simulated-store.ts';

const silent = (): void => {};
const SILENT: Logger = { debug: silent, info: silent, warn: silent, error: silent };

/** The options of the log and the runner of each process. */
export interface ReplicaSettings {
  readonly log: Omit<LogOptions, 'logger'>;
  readonly runner: Omit<RunnerOptions, 'log' | 'agents' | 'logger' | 'name'>;
  readonly logger?: Logger;
}

/** A process of the product: a log on a connection of its own, and a runner. */
export class Replica {
  readonly machine: Machine;
  readonly log: TaskLog;
  readonly runner: Runner;
  /** It is being disposed: nothing new is sent to it. */
  isDraining = false;
  readonly #world: World;
  readonly #store: SimulatedStore;

  constructor(
    world: World,
    store: SimulatedStore,
    machine: Machine,
    { log, runner, logger = SILENT }: ReplicaSettings,
    agents: Readonly<Record<string, Agent>>,
  ) {
    this.#world = world;
    this.#store = store;
    this.machine = machine;
    this.log = openLog(store.connect(machine).store, { ...log, logger });
    this.runner = createRunner({
      ...runner,
      log: this.log,
      agents,
      logger,
      name: machine.name,
    });
  }

  get isAlive(): boolean {
    return !this.machine.dead && !this.isDraining;
  }

  /** Drains the runner and closes the log. With `twice`, both at the same time and once more. */
  async dispose(twice: boolean): Promise<void> {
    this.isDraining = true;
    const { runner, log } = this;
    const drained = runner[Symbol.asyncDispose]();
    if (twice) await Promise.all([runner[Symbol.asyncDispose](), drained]);
    await drained;
    const closed = log[Symbol.asyncDispose]();
    if (twice) await Promise.all([log[Symbol.asyncDispose](), closed]);
    await closed;
    if (twice) await runner[Symbol.asyncDispose]();
    if (twice) await log[Symbol.asyncDispose]();
  }

  checkTimers(): void {
    for (const { where, event } of this.machine.timers) {
      if (where === SIGNAL_TIMER) continue;
      const ms = (event?.at ?? 0) - this.#world.now;
      this.#world.broken('no timer is left after dispose', `${where} of ${Math.round(ms)} ms`);
    }
  }

  /** Checks that nothing is left of it, and forgets its connection. */
  checkGone(): void {
    this.checkTimers();
    const { name } = this.machine;
    const connection = this.#store.of(this.machine);
    if (!connection) return;
    if (connection.listeners > 0)
      this.#world.broken('no listener is left after dispose', `${connection.listeners} of ${name}`);
    this.#store.disconnect(connection);
  }
}
