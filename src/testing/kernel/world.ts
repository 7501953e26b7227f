import { hashText, Random } from './random.ts';
import { realSetImmediate } from './real-clock.ts';

/** A process in the world: it has its own clocks and can be stopped or killed. */
export class Machine {
  readonly name: string;
  readonly bornAt: number;
  /** How far its wall clock is ahead of the world. */
  skewMs = 0;
  dead = false;
  stoppedUntil = 0;
  /** Timers that are armed. */
  readonly timers: Set<VirtualTimer> = new Set();

  constructor(name: string, bornAt: number) {
    this.name = name;
    this.bornAt = bornAt;
  }
}

interface WorldEvent {
  at: number;
  readonly due: number;
  readonly order: number;
  readonly machine: Machine;
  readonly label: string;
  run: (() => void) | undefined;
}

/** What `setTimeout`, `setInterval` and `setImmediate` return in the world. */
export class VirtualTimer {
  readonly machine: Machine;
  readonly everyMs: number | undefined;
  where: string;
  event: WorldEvent | undefined;

  constructor(machine: Machine, everyMs: number | undefined, where: string) {
    this.machine = machine;
    this.everyMs = everyMs;
    this.where = where;
  }

  unref(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.machine.timers.delete(this);
    if (this.event) this.event.run = undefined;
  }
}

/** When every run begins, in Unix ms. */
export const EPOCH = 1_800_000_000_000;

/** A law that a run has broken. */
export interface Violation {
  readonly law: string;
  readonly what: string;
  readonly at: number;
}

/**
 * A world with its own time. Everything that happens in it is an event of a machine; between two
 * events all microtasks run. The seed decides every delay, so a run is repeated exactly.
 */
export class World {
  readonly seed: number;
  /** Milliseconds since the world began. */
  now = 0;
  readonly outside: Machine = new Machine('outside', 0);
  current: Machine = this.outside;
  readonly violations: Violation[] = [];
  /** One line for each event, if the run is traced. */
  readonly lines: string[] | undefined;
  readonly counts: Map<string, number> = new Map();
  events = 0;
  #hash = 0x811c9dc5;
  #order = 0;
  readonly #heap: WorldEvent[] = [];
  readonly #streams = new Map<string, Random>();
  #uuids = 0;

  constructor(seed: number, { trace = false }: { readonly trace?: boolean } = {}) {
    this.seed = seed;
    this.lines = trace ? [] : undefined;
  }

  /** A stream of random numbers of its own, so that one part of a run does not move another. */
  random(name: string): Random {
    let stream = this.#streams.get(name);
    if (!stream) this.#streams.set(name, (stream = new Random(this.seed, name)));
    return stream;
  }

  uuid(): string {
    const tail = (++this.#uuids).toString(16).padStart(12, '0');
    return `00000000-0000-4000-8000-${tail}`;
  }

  machine(name: string): Machine {
    return new Machine(name, this.now);
  }

  broken(law: string, what: string): void {
    if (this.violations.length < 20) this.violations.push({ law, what, at: this.now });
    this.note(`BROKEN ${law}: ${what}`);
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** Adds a line to the trace, and to its hash. */
  note(text: string): void {
    this.#hash = hashText(text, this.#hash);
    this.lines?.push(`${this.now.toFixed(3).padStart(12)} ${this.current.name.padEnd(8)} ${text}`);
  }

  get traceHash(): string {
    return this.#hash.toString(16).padStart(8, '0');
  }

  /** Runs something on a machine after so many ms. */
  after(ms: number, machine: Machine, label: string, run: () => void): WorldEvent {
    return this.at(this.now + ms, machine, label, run);
  }

  /**
   * Runs something on a machine at this time. What must arrive in order needs it: a delay that is
   * computed from a time and added again is not always the same number.
   */
  at(at: number, machine: Machine, label: string, run: () => void): WorldEvent {
    const event = { at, due: at, order: this.#order++, machine, label, run };
    this.#push(event);
    return event;
  }

  timer(run: () => void, ms: number, repeats: boolean, kind: string): VirtualTimer {
    const where = kind;
    const timer = new VirtualTimer(this.current, repeats ? ms : undefined, where);
    this.current.timers.add(timer);
    this.#arm(timer, run, ms);
    return timer;
  }

  #arm(timer: VirtualTimer, run: () => void, ms: number): void {
    timer.event = this.after(ms, timer.machine, timer.where, () => {
      if (timer.everyMs === undefined) timer.machine.timers.delete(timer);
      else this.#arm(timer, run, timer.everyMs);
      run();
    });
  }

  /** Stops a machine for so many ms: what is due meanwhile happens when it goes on. */
  stop(machine: Machine, ms: number): void {
    machine.stoppedUntil = Math.max(machine.stoppedUntil, this.now + ms);
  }

  kill(machine: Machine): void {
    machine.dead = true;
    machine.timers.clear();
  }

  /** Runs events until `done` returns true, or nothing happens before `untilMs`. */
  run(untilMs: number, done: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const step = (): void => {
        this.current = this.outside;
        const event = done() ? undefined : this.#pop(untilMs);
        if (!event) return resolve();
        const { machine, label, run } = event;
        this.now = event.at;
        this.current = machine;
        this.events++;
        event.run = undefined;
        this.note(label);
        try {
          run?.();
        } catch (error) {
          this.broken('no error ends a process', String((error as Error).stack ?? error));
        }
        realSetImmediate(step);
      };
      realSetImmediate(step);
    });
  }

  #pop(untilMs: number): WorldEvent | undefined {
    for (;;) {
      const event = this.#heap[0];
      if (!event || event.at > untilMs) {
        this.now = Math.max(this.now, untilMs);
        return undefined;
      }
      this.#remove();
      if (!event.run || event.machine.dead) continue;
      if (event.machine.stoppedUntil > event.at) {
        event.at = event.machine.stoppedUntil;
        this.#push(event);
        continue;
      }
      return event;
    }
  }

  #push(event: WorldEvent): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, heap[parent] as WorldEvent)) break;
      heap[at] = heap[parent] as WorldEvent;
      at = parent;
    }
    heap[at] = event;
  }

  #remove(): void {
    const heap = this.#heap;
    const last = heap.pop() as WorldEvent;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (
        child + 1 < heap.length &&
        isBefore(heap[child + 1] as WorldEvent, heap[child] as WorldEvent)
      )
        child++;
      if (!isBefore(heap[child] as WorldEvent, last)) break;
      heap[at] = heap[child] as WorldEvent;
      at = child;
    }
    heap[at] = last;
  }
}

// Of two events that a stopped machine missed, the one that was due first happens first.
const isBefore = (one: WorldEvent, other: WorldEvent): boolean =>
  (one.at - other.at || one.due - other.due || one.order - other.order) < 0;
