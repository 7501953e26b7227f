const MOST_TICK_MS = 5000;

/** The interval of checks: ten until the time is up, at most five seconds apart. */
const tickOf = (ms: number): number => Math.max(1, Math.min(ms / 10, MOST_TICK_MS));

/**
 * Measures the time during which this process was awake. A suspended machine or a stopped process
 * misses ticks; at most two ticks of that time count, whether the clock ran or not. Without this, a
 * laptop that wakes up would fail its sessions with a timeout, although the CLI was suspended as
 * well.
 */
class AwakeTime {
  readonly #tickMs: number;
  readonly #now: () => number;
  #last: number;

  constructor(tickMs: number, now: () => number) {
    this.#tickMs = tickMs;
    this.#now = now;
    this.#last = now();
  }

  /** The awake time since the last call. */
  passed(): number {
    const now = this.#now();
    const elapsed = now - this.#last;
    this.#last = now;
    return Math.min(Math.max(elapsed, 0), 2 * this.#tickMs);
  }
}

const monotonic = (): number => performance.now();

/** Calls `run` once after `ms` of awake time. Returns a function that cancels it. */
export function whileAwake(ms: number, run: () => void, now: () => number = monotonic): () => void {
  const tickMs = tickOf(ms);
  const time = new AwakeTime(tickMs, now);
  let remainingMs = ms;
  const check = (): void => {
    remainingMs -= time.passed();
    if (remainingMs > 0) timer = setTimeout(check, Math.min(tickMs, remainingMs));
    else run();
  };
  let timer = setTimeout(check, tickMs);
  return () => clearTimeout(timer);
}

/**
 * Calls back after a period without activity. `reset` costs an assignment and no timer, because it
 * is called for every chunk of output: the period is checked in ticks and counts from the first
 * tick after the last activity. Time does not count while `counts` returns false, nor while the
 * machine is suspended. The timer does not keep the process alive.
 */
export class SilenceTimer {
  readonly #afterMs: number;
  readonly #counts: () => boolean;
  readonly #onSilence: (silentMs: number) => void;
  readonly #now: () => number;
  #wasActive = false;
  #silentMs = 0;
  #time: AwakeTime | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    afterMs: number,
    counts: () => boolean,
    onSilence: (silentMs: number) => void,
    now: () => number = monotonic,
  ) {
    this.#afterMs = afterMs;
    this.#counts = counts;
    this.#onSilence = onSilence;
    this.#now = now;
  }

  start(): void {
    this.#wasActive = false;
    this.#silentMs = 0;
    this.#time = new AwakeTime(tickOf(this.#afterMs), this.#now);
    this.#arm();
  }

  reset(): void {
    this.#wasActive = true;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(): void {
    this.stop();
    const remainingMs = Math.max(1, this.#afterMs - this.#silentMs);
    const delayMs = Math.min(tickOf(this.#afterMs), remainingMs);
    this.#timer = setTimeout(() => this.#check(), delayMs).unref();
  }

  #check(): void {
    const passed = this.#time?.passed() ?? 0;
    if (this.#wasActive || !this.#counts()) this.#silentMs = 0;
    else this.#silentMs += passed;
    this.#wasActive = false;
    if (this.#silentMs < this.#afterMs) return this.#arm();
    this.#timer = undefined;
    this.#onSilence(Math.round(this.#silentMs));
  }
}
