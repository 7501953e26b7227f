import type { Machine, World } from '../world.ts';
import type { Database } from './database.ts';
import type { Ledger } from './ledger.ts';
import type { MachineFault } from './plan.ts';
import type { Replica } from './replica.ts';

/** How long a disposed machine has for the timers of agents that do not listen. */
export const QUIET_MS = 10_000;

/** The machines of a run, which are stopped, killed, drained and started again. */
export class Cluster<R extends Replica> {
  readonly slots: (R | undefined)[] = [];
  readonly #world: World;
  readonly #db: Database;
  readonly #ledger: Ledger;
  readonly #create: (machine: Machine) => R;
  #machines = 0;
  /** Work of clients, people and restarts that is not done. */
  open = 0;
  onKilled: (machine: Machine) => void = () => {};

  constructor(world: World, db: Database, ledger: Ledger, create: (machine: Machine) => R) {
    this.#world = world;
    this.#db = db;
    this.#ledger = ledger;
    this.#create = create;
    db.onLost = (task, machine) => ledger.lost(task, machine);
    db.onDrain = (machine) => {
      const on = this.slots.findIndex((replica) => replica?.machine === machine);
      if (on >= 0) this.drain(on, 100, false);
    };
  }

  start(slot: number, skewMs: number): void {
    const machine = this.#world.machine(`m${slot}.${++this.#machines}`);
    machine.skewMs = skewMs;
    this.#world.after(0, machine, 'start', () => {
      this.slots[slot] = this.#create(machine);
    });
  }

  /** Whether no machine is stopped, and nothing that was begun is open. */
  get isCalm(): boolean {
    if (this.open > 0 || this.#db.stalledUntil > this.#world.now) return false;
    for (const replica of this.slots)
      if (replica && replica.machine.stoppedUntil > this.#world.now) return false;
    return true;
  }

  /** A machine that takes requests: the wanted one, or another. */
  alive(wanted: number): R | undefined {
    const { length } = this.slots;
    for (let each = 0; each < length; each++) {
      const replica = this.slots[(wanted + each) % length];
      if (replica?.isAlive) return replica;
    }
    return undefined;
  }

  happen(fault: MachineFault): void {
    const world = this.#world;
    if (fault.do === 'down') return this.#db.goDown(fault.ms);
    if (fault.do === 'kill') {
      this.#kill(fault.on);
      return this.#restart(fault.on, fault.againMs, fault.skewMs);
    }
    if (fault.do === 'drain') return this.drain(fault.on, fault.againMs, fault.twice);
    const machine = this.slots[fault.on]?.machine;
    if (!machine) return;
    if (fault.do === 'stop') world.stop(machine, fault.ms);
    else if (fault.do === 'cut') this.#db.of(machine)?.cut(fault.ms);
    else machine.skewMs += fault.ms;
  }

  #kill(slot: number): void {
    const replica = this.slots[slot];
    if (!replica) return;
    this.#world.kill(replica.machine);
    const connection = this.#db.of(replica.machine);
    if (connection) this.#db.disconnect(connection);
    for (const call of this.#ledger.active)
      if (call.machine === replica.machine) this.#ledger.active.delete(call);
    this.slots[slot] = undefined;
    this.onKilled(replica.machine);
  }

  #restart(slot: number, afterMs: number, skewMs: number): void {
    this.open++;
    this.#world.after(afterMs, this.#world.outside, 'restart', () => {
      this.open--;
      if (!this.slots[slot]) this.start(slot, skewMs);
    });
  }

  drain(slot: number, againMs: number, twice: boolean): void {
    const replica = this.slots[slot];
    if (!replica?.isAlive) return;
    const end = this.begin();
    replica.leaving = true;
    // The next process opens the same file only when this one has gone.
    this.#dispose(replica, twice, () => {
      end();
      if (this.slots[slot] !== replica) return;
      this.slots[slot] = undefined;
      this.#restart(slot, againMs, 0);
    });
    this.whenDead(replica, end);
  }

  /** Disposes every machine, and returns when all have gone, or it takes too long. */
  async disposeAll(patienceMs: number): Promise<void> {
    const world = this.#world;
    let disposing = 0;
    for (const replica of this.slots)
      if (replica) {
        disposing++;
        this.#dispose(replica, false, () => disposing--);
      }
    await world.run(world.now + patienceMs, () => disposing === 0);
    if (disposing > 0) world.broken('dispose resolves', `${disposing} did not`);
    await world.run(world.now + QUIET_MS, () => false);
  }

  #dispose(replica: R, twice: boolean, onGone: () => void): void {
    this.#world.after(0, replica.machine, 'dispose', () => {
      replica.dispose(twice).then(
        () => {
          for (const { turn, machine, signal } of this.#ledger.active)
            if (machine === replica.machine && !signal.aborted)
              this.#world.broken('a drain waits for its runs', turn.task);
          replica.checkTimers();
          this.#world.after(QUIET_MS - 1, this.#world.outside, 'look for leaks', () => {
            if (!replica.machine.dead) replica.checkGone();
            onGone();
          });
        },
        (error: unknown) => {
          this.#world.broken('dispose does not reject', String(error));
          onGone();
        },
      );
    });
  }

  /** Counts work that is not done. Returns the function that ends it, which may be called twice. */
  begin(): () => void {
    this.open++;
    let isOpen = true;
    return () => {
      if (isOpen) this.open--;
      isOpen = false;
    };
  }

  /** Calls `run` if the machine dies before the work is over. */
  whenDead(replica: R, run: () => void, isOver: () => boolean = () => false): void {
    const look = (): void => {
      if (replica.machine.dead) return run();
      if (isOver() || !this.#db.of(replica.machine)) return;
      this.#world.after(1000, this.#world.outside, 'look', look);
    };
    look();
  }
}
