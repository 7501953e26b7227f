import { DuolaneError } from '../../errors.ts';
import type { Agent } from '../../event/types.ts';
import type { Machine, World } from '../kernel/world.ts';
import { Replica, type ReplicaSettings } from './replica.ts';
import type { SimulatedStore } from './simulated-store.ts';

/** How long everything has to come to its end, once nothing more goes wrong. */
const SETTLE_MS = 20 * 60_000;
/** How long a disposed process has for the timers of agents that ignore their signal. */
export const QUIET_MS = 10_000;

const RETRY_MS = 700;

/** What a `Cluster` runs. */
export interface ClusterOptions {
  readonly machines: number;
  readonly settings: ReplicaSettings;
  readonly agents: Readonly<Record<string, Agent>>;
}

/**
 * The processes that share a store. Each has a slot, in which another one is started after it was
 * killed or drained. Counts the work that is not done.
 */
export class Cluster {
  readonly #world: World;
  readonly #store: SimulatedStore;
  readonly #options: ClusterOptions;
  readonly #slots: (Replica | undefined)[] = [];
  #started = 0;
  #open = 0;
  /** Called when a machine is killed. */
  onKilled: (machine: Machine) => void = () => {};
  /** Called when a machine was disposed. */
  onDisposed: (machine: Machine) => void = () => {};

  constructor(world: World, store: SimulatedStore, options: ClusterOptions) {
    this.#world = world;
    this.#store = store;
    this.#options = options;
    for (let slot = 0; slot < options.machines; slot++) this.#start(slot, 0);
  }

  /** Whether work of clients, people and restarts is not done, or a machine is stopped. */
  get isBusy(): boolean {
    if (this.#open > 0 || this.#store.stalledUntil > this.#world.now) return true;
    return this.#slots.some((replica) => replica && replica.machine.stoppedUntil > this.#world.now);
  }

  /** How much work of clients, people and restarts is not done. */
  get open(): number {
    return this.#open;
  }

  /** Counts work that is not done. Returns the function that ends it, which may be called twice. */
  begin(): () => void {
    this.#open++;
    let isOpen = true;
    return () => {
      if (isOpen) this.#open--;
      isOpen = false;
    };
  }

  at(slot: number): Replica | undefined {
    return this.#slots[slot];
  }

  slotOf(machine: Machine): number {
    return this.#slots.findIndex((replica) => replica?.machine === machine);
  }

  /** A process that takes requests: the wanted one, or another. */
  alive(wanted: number): Replica | undefined {
    const { length } = this.#slots;
    for (let each = 0; each < length; each++) {
      const replica = this.#slots[(wanted + each) % length];
      if (replica?.isAlive) return replica;
    }
    return undefined;
  }

  #start(slot: number, skewMs: number): void {
    const world = this.#world;
    const machine = world.machine(`m${slot}.${++this.#started}`);
    machine.skewMs = skewMs;
    world.after(0, machine, 'start', () => {
      const { settings, agents } = this.#options;
      this.#slots[slot] = new Replica(world, this.#store, machine, settings, agents);
    });
  }

  /** Ends a process as kill -9 does, and starts another one later. */
  kill(slot: number, againMs: number, skewMs: number): void {
    const replica = this.#slots[slot];
    if (replica) {
      const { machine } = replica;
      this.#world.kill(machine);
      const connection = this.#store.of(machine);
      if (connection) this.#store.disconnect(connection);
      this.onKilled(machine);
      this.#slots[slot] = undefined;
    }
    this.#restart(slot, againMs, skewMs);
  }

  #restart(slot: number, afterMs: number, skewMs: number): void {
    const end = this.begin();
    this.#world.after(afterMs, this.#world.outside, 'restart', () => {
      end();
      if (!this.#slots[slot]) this.#start(slot, skewMs);
    });
  }

  /** Disposes a process, and starts another one when it has gone. */
  drain(slot: number, againMs: number, twice: boolean): void {
    const replica = this.#slots[slot];
    if (!replica?.isAlive) return;
    const end = this.begin();
    replica.isDraining = true;
    // The next process opens the same file only when this one has gone.
    this.#dispose(replica, twice, () => {
      end();
      if (this.#slots[slot] !== replica) return;
      this.#slots[slot] = undefined;
      this.#restart(slot, againMs, 0);
    });
    this.whenDead(replica, end);
  }

  /** Disposes all processes, and looks what they leave behind. */
  async close(): Promise<void> {
    const world = this.#world;
    let disposing = 0;
    for (const replica of this.#slots)
      if (replica) {
        disposing++;
        this.#dispose(replica, false, () => disposing--);
      }
    await world.run(world.now + SETTLE_MS, () => disposing === 0);
    if (disposing > 0) world.broken('dispose resolves', `${disposing} did not`);
    await world.run(world.now + QUIET_MS, () => false);
  }

  #dispose(replica: Replica, twice: boolean, onGone: () => void): void {
    const world = this.#world;
    world.after(0, replica.machine, 'dispose', () => {
      replica.dispose(twice).then(
        () => {
          this.onDisposed(replica.machine);
          world.after(QUIET_MS - 1, world.outside, 'look for leaks', () => {
            if (!replica.machine.dead) replica.checkGone();
            onGone();
          });
        },
        (error: unknown) => {
          world.broken('dispose does not reject', String(error));
          onGone();
        },
      );
    });
  }

  /** Calls `run` if the machine dies before the work is over. */
  whenDead(replica: Replica, run: () => void, isOver: () => boolean = () => false): void {
    const look = (): void => {
      if (replica.machine.dead) return run();
      if (isOver() || !this.#store.of(replica.machine)) return;
      this.#world.after(1000, this.#world.outside, 'look', look);
    };
    look();
  }

  /**
   * Calls something on a process, as a client over a network does: it repeats the call when the
   * process dies or the store fails, and ends with the result or an error.
   */
  request<T>(
    on: number,
    call: (replica: Replica) => Promise<T>,
    done: (result: T | DuolaneError) => void,
  ): void {
    const world = this.#world;
    const over = this.begin();
    const end = (result: T | DuolaneError): void => {
      over();
      done(result);
    };
    const attempt = (): void => {
      const replica = this.alive(on);
      if (!replica) {
        world.after(500, world.outside, 'try again', attempt);
        return;
      }
      let settled = false;
      const settle = (result: T | DuolaneError, again: boolean): void => {
        if (settled) return;
        settled = true;
        if (again) world.after(RETRY_MS, world.outside, 'try again', attempt);
        else world.after(0, world.outside, 'reply', () => end(result));
      };
      world.after(0.1, replica.machine, 'request', () => {
        call(replica).then(
          (result) => settle(result, false),
          (error: unknown) => {
            const failure = DuolaneError.from(error);
            if (failure.code === 'internal')
              world.broken('every failure is typed', String(failure.stack));
            const isFinalError = failure.code === 'conflict' || !failure.retryable;
            settle(failure, !isFinalError || (failure.code === 'closed' && !replica.isAlive));
          },
        );
      });
      this.whenDead(
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
}
