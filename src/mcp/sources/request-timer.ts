import { DuolaneError, invalid } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import type { TimeLimits } from '../types.ts';

const TIMEOUT_MS = 60_000;
const MAX_TOTAL_MS = 3_600_000;
/** The longest time of a timer of Node. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Time limits with their defaults. */
export type KnownLimits = Required<TimeLimits>;

/** No limits, for a connection whose program has limits of its own. */
export const NO_LIMITS: KnownLimits = { timeoutMs: Infinity, maxTotalMs: Infinity };

/** Adds the defaults. */
export const limitsOf = ({
  timeoutMs = TIMEOUT_MS,
  maxTotalMs = MAX_TOTAL_MS,
}: TimeLimits): KnownLimits => ({ timeoutMs, maxTotalMs });

/** Throws `invalid` for a limit that is not a positive number. */
export function checkLimits(limits: TimeLimits): void {
  for (const [name, value] of Object.entries(limitsOf(limits)))
    if (!(value > 0))
      throw invalid(`invalid ${name} "${value}": expected a number above 0, or Infinity`);
}

/** What a timer watches. */
export interface RequestTimerOptions {
  /** The request in an error message, such as `call of tool "x"`. */
  readonly what: string;
  /** Called once, with `timeout`. */
  readonly end: (reason: DuolaneError) => void;
  /** Whether the server waits for us, such as for an answer of a person; that time is free. */
  readonly isOurTurn?: () => boolean;
}

/**
 * Limits how long a server is silent during a request, and how long the request takes in total.
 * Only time between `wait` and `pause` counts: a slow reader is not a slow server.
 */
export class RequestTimer implements Disposable {
  readonly #limits: KnownLimits;
  readonly #options: RequestTimerOptions;
  #timer: NodeJS.Timeout | undefined;
  #isWaiting = false;
  /** When the current wait began, by `performance.now()`. */
  #since = 0;
  /** The time of the waits before the current one. */
  #waited = 0;

  constructor(limits: KnownLimits, options: RequestTimerOptions) {
    this.#limits = limits;
    this.#options = options;
  }

  /** Starts to wait for the next message of the server. */
  wait(): void {
    this.#since = performance.now();
    this.#isWaiting = true;
    // A timer that is set goes on: it compares the times when it fires.
    if (!this.#timer) this.#arm(this.#remaining(0));
  }

  /** The server has sent a message. */
  pause(): void {
    if (this.#isWaiting) this.#waited += performance.now() - this.#since;
    this.#isWaiting = false;
  }

  [Symbol.dispose](): void {
    this.#isWaiting = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #remaining(silent: number): number {
    const { timeoutMs, maxTotalMs } = this.#limits;
    return Math.min(timeoutMs - silent, maxTotalMs - this.#waited - silent);
  }

  #arm(ms: number): void {
    if (ms !== Infinity)
      this.#timer = setTimeout(() => this.#fire(), Math.min(Math.ceil(ms), MAX_TIMER_MS));
  }

  #fire(): void {
    this.#timer = undefined;
    if (!this.#isWaiting) return;
    const { what, end, isOurTurn } = this.#options;
    if (isOurTurn?.()) this.#since = performance.now();
    const silent = performance.now() - this.#since;
    const remaining = this.#remaining(silent);
    if (remaining > 0) return this.#arm(remaining);
    const { timeoutMs, maxTotalMs } = this.#limits;
    end(
      new DuolaneError(
        'timeout',
        silent >= timeoutMs
          ? `${what} timed out after ${timeoutMs} ms without a message of the tool server; set timeoutMs`
          : `${what} timed out after ${maxTotalMs} ms in total; set maxTotalMs`,
      ),
    );
  }
}

/** Runs a request with one response within the limits. */
export async function withinLimits<T>(
  limits: KnownLimits,
  { what, isOurTurn }: Omit<RequestTimerOptions, 'end'>,
  signal: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const scope = new AbortController();
  const end = (reason: unknown): void => scope.abort(reason);
  using timer = new RequestTimer(limits, { what, end, ...(isOurTurn && { isOurTurn }) });
  const unlisten = onAbort(signal, end);
  try {
    timer.wait();
    return await run(scope.signal);
  } finally {
    unlisten();
  }
}

/** Yields what a server streams, within the limits; the time of the reader does not count. */
export async function* streamWithinLimits<T>(
  limits: KnownLimits,
  what: string,
  signal: AbortSignal | undefined,
  open: (signal: AbortSignal) => AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  const scope = new AbortController();
  const end = (reason: unknown): void => scope.abort(reason);
  using timer = new RequestTimer(limits, { what, end });
  const unlisten = onAbort(signal, end);
  try {
    timer.wait();
    for await (const item of open(scope.signal)) {
      timer.pause();
      yield item;
      timer.wait();
    }
  } finally {
    unlisten();
  }
}
