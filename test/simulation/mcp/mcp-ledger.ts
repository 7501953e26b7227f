import type { Machine, World } from '../world.ts';

/** One run of the handler of a tool. */
export interface HandlerRun {
  readonly n: number;
  readonly signal: AbortSignal;
  readonly machine: Machine;
}

/** What the tools of the server do, by the number of the call. */
export class McpLedger {
  readonly #world: World;
  readonly active: Set<HandlerRun> = new Set();
  readonly #runs = new Map<number, number>();
  readonly #stopped = new Set<number>();

  constructor(world: World) {
    this.#world = world;
  }

  begins(n: number, asks: number, signal: AbortSignal): HandlerRun {
    const runs = (this.#runs.get(n) ?? 0) + 1;
    this.#runs.set(n, runs);
    // A handler that asks runs again with each answer.
    if (asks === 0 && runs > 1) this.#world.broken('a call runs once', `${n}: ${runs} times`);
    if (signal.aborted) this.#world.broken('no handler begins after it was stopped', `${n}`);
    const run = { n, signal, machine: this.#world.current };
    this.active.add(run);
    return run;
  }

  /** The caller has stopped the call: its handler must be stopped within so many ms. */
  stopped(n: number, withinMs: number): void {
    if (this.#stopped.has(n)) return;
    this.#stopped.add(n);
    this.#world.after(withinMs, this.#world.outside, 'expect a cancel', () => {
      for (const run of this.active)
        if (run.n === n && !run.signal.aborted)
          this.#world.broken('a cancel reaches its handler', `call ${n}`);
    });
  }

  /** Handlers of a process that was killed do not go on. */
  forget(machine: Machine): void {
    for (const run of this.active) if (run.machine === machine) this.active.delete(run);
  }

  checkStopped(): void {
    for (const { n, signal } of this.active)
      if (!signal.aborted) this.#world.broken('a handler is stopped with its server', `call ${n}`);
  }
}
