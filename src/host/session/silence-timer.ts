const MOST_TICK_MS = 5000;

/** Ten looks until the time is up, at most five seconds apart. */
const tickOf = (ms: number): number => Math.max(1, Math.min(ms / 10, MOST_TICK_MS));

/**
 * Time that this process was awake for, in ticks. A machine that was suspended, or a process that was
 * stopped, misses ticks; whether the clock counted that time or not, at most two ticks of it count
 * here. The other side was suspended as well, or has had no chance to be heard.
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

  /** Since the last call. */
  passed(): number {
    const now = this.#now();
    const elapsed = now - this.#last;
    this.#last = now;
    return Math.min(Math.max(elapsed, 0), 2 * this.#tickMs);
  }
}

const monotonic = (): number => performance.now();

/** Calls `run` once after `ms` during which this process was awake; returns what prevents it. */
export function whileAwake(ms: number, run: () => void, now: () => number = monotonic): () => void {
  const tickMs = tickOf(ms);
  const time = new AwakeTime(tickMs, now);
  let left = ms;
  const look = (): void => {
    left -= time.passed();
    if (left > 0) timer = setTimeout(look, Math.min(tickMs, left));
    else run();
  };
  let timer = setTimeout(look, tickMs);
  return () => clearTimeout(timer);
}

/**
 * Calls back when something has been silent for too long. `reset` costs an assignment, not a timer:
 * the silence is looked at in ticks, and counts from the first tick after the last sound. While
 * `counts` is false, and while the machine is suspended, it is not counted. The timer does not keep
 * the process alive.
 */
export class SilenceTimer {
  readonly #afterMs: number;
  readonly #counts: () => boolean;
  readonly #onSilence: (silentMs: number) => void;
  readonly #now: () => number;
  #heard = false;
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
    this.#heard = false;
    this.#silentMs = 0;
    this.#time = new AwakeTime(tickOf(this.#afterMs), this.#now);
    this.#arm();
  }

  reset(): void {
    this.#heard = true;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(): void {
    this.stop();
    const left = Math.max(1, this.#afterMs - this.#silentMs);
    this.#timer = setTimeout(() => this.#look(), Math.min(tickOf(this.#afterMs), left)).unref();
  }

  #look(): void {
    const passed = this.#time?.passed() ?? 0;
    if (this.#heard || !this.#counts()) this.#silentMs = 0;
    else this.#silentMs += passed;
    this.#heard = false;
    if (this.#silentMs < this.#afterMs) return this.#arm();
    this.#timer = undefined;
    this.#onSilence(Math.round(this.#silentMs));
  }
}
