import type { Answer } from '../../ask.ts';
import { DuolaneError, type Failure } from '../../errors.ts';
import { omitUndefined } from '../../json.ts';
import { raceAbort, sleep } from '../../stream/abort.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import { StepError } from '../step-error.ts';
import type {
  DurableSteps,
  OpenWait,
  StepContext,
  StepOptions,
  StepRecord,
  StepRetry,
  WaitForOptions,
} from '../step-types.ts';
import { jsonOutput } from './step-output.ts';

/** What durable steps need of their run. */
export interface StepHost {
  readonly task: string;
  /** `messageId` of the turn. */
  readonly turn: string;
  /** The last record of each step that earlier runs of the turn have stored. */
  readonly stored: ReadonlyMap<string, StepRecord>;
  /** The waits of the turn that were open when the run began. */
  readonly waits: readonly OpenWait[];
  readonly stop: Cancellation;
  /** Writes a record. Resolves when it is durable; rejects if the run is over before. */
  readonly store: (record: StepRecord) => Promise<void>;
  /** Returns the failure that readers of the log may see, and logs what they may not see. */
  readonly failureOf: (error: unknown) => Failure;
  /** Called with 1 when a step begins to wait or to work, and with -1 when that is over. */
  readonly onWaiting: (change: 1 | -1) => void;
  readonly onWorking: (change: 1 | -1) => void;
}

interface UsedStep {
  readonly kind: StepRecord['kind'];
  readonly code: string;
  readonly result: Promise<unknown>;
}

type StepFunction = (context: StepContext) => unknown;

/** A step that takes longer is announced to readers, at the cost of a second commit. */
const ANNOUNCED_AFTER_MS = 1000;
const MAX_ID_CHARS = 256;
/** The longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const OVER = new DuolaneError('canceled', 'the wait is over');

/**
 * The durable steps of one run. A result is returned only after it is in the log, and a stored one
 * is returned without running anything.
 */
export class StepRunner implements DurableSteps {
  readonly #host: StepHost;
  readonly #used = new Map<string, UsedStep>();
  /** Whether the log knows that the turn has durable steps. */
  #isAnnounced: boolean;
  /** Waits that a suspension leaves open, and until when; undefined if no time ends the wait. */
  readonly #waiting = new Map<string, number | undefined>();
  /** Events from outside: those that have arrived, and the steps that wait for one. */
  readonly #events = new Map<string, Answer>();
  readonly #listeners = new Map<string, (event: Answer) => void>();

  constructor(host: StepHost) {
    this.#host = host;
    this.#isAnnounced = host.stored.size > 0;
    for (const { id, answer } of host.waits) if (answer) this.#events.set(id, answer);
  }

  /** Whether a suspended run has something to wait for. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** How long all waits last at least, in ms. Undefined if one may end at any time. */
  get restMs(): number | undefined {
    const times = [...this.#waiting.values()];
    const known = times.filter((until) => until !== undefined);
    return known.length < times.length ? undefined : Math.min(...known) - Date.now();
  }

  /** How many waits are open. */
  get waits(): number {
    return this.#waiting.size;
  }

  /** Takes an event from outside. Returns false if no step waits for it, now or in the log. */
  answer(event: Answer): boolean {
    const { id } = event;
    const waits = this.#host.waits.some((wait) => wait.id === id && wait.kind === 'event');
    if (!waits && !this.#waiting.has(id)) return false;
    if (!this.#events.has(id)) this.#events.set(id, event);
    this.#listeners.get(id)?.(event);
    return true;
  }

  readonly step = <T>(
    id: string,
    run: (context: StepContext) => T | Promise<T>,
    options: StepOptions = {},
  ): Promise<T> => {
    if (typeof run !== 'function')
      return reject(`invalid step "${id}": expected a function, got ${typeof run}`);
    return this.#once('step', id, run, () => this.#step(id, run, options)) as Promise<T>;
  };

  readonly sleep = (id: string, until: Date | number): Promise<void> => {
    const at = until instanceof Date ? until.getTime() : Date.now() + until;
    if (!Number.isFinite(at))
      return reject(`invalid time of sleep "${id}": expected a Date or milliseconds`);
    return this.#once('sleep', id, undefined, () =>
      this.#sleep(id, Math.ceil(at)),
    ) as Promise<void>;
  };

  readonly waitFor = <T = unknown>(id: string, options: WaitForOptions = {}): Promise<T> =>
    this.#once('event', id, undefined, () => this.#waitFor(id, options)) as Promise<T>;

  /**
   * Begins a step, or returns the same promise if this run has begun it before. The code of the two
   * functions is compared, since one id for two different steps would return a wrong result.
   */
  #once(
    kind: StepRecord['kind'],
    id: string,
    run: StepFunction | undefined,
    begin: () => Promise<unknown>,
  ): Promise<unknown> {
    if (typeof id !== 'string' || id === '' || id.length > MAX_ID_CHARS)
      return reject(`invalid step id: expected a text of 1 to ${MAX_ID_CHARS} characters`);
    const code = run ? String(run) : '';
    const used = this.#used.get(id);
    if (used && (used.kind !== kind || used.code !== code)) return reject(reused(id));
    if (used) return used.result;
    const stored = this.#host.stored.get(id);
    if (stored && stored.kind !== kind)
      return reject(`step "${id}" is stored as a ${stored.kind}, not a ${kind}; use another id`);
    const result = begin();
    // Without a handler, a rejection would end the process if the agent does not await the step.
    result.catch(() => {});
    this.#used.set(id, { kind, code, result });
    return result;
  }

  async #step(
    id: string,
    run: StepFunction,
    { retry, storeFailure = true }: StepOptions,
  ): Promise<unknown> {
    const stored = this.#host.stored.get(id);
    if (stored?.status === 'completed') return stored.output;
    if (stored?.status === 'failed') throw failureOf(stored);
    let attempt = 1;
    if (stored?.status === 'retrying') {
      attempt = (stored.attempt ?? 1) + 1;
      await this.#until(id, stored.until ?? 0);
    }
    for (; ; attempt++) {
      this.#host.stop.signal.throwIfAborted();
      const since = performance.now();
      const attempted = await this.#attempt(id, run, attempt);
      const ms = Math.round(performance.now() - since);
      const record = { id, kind: 'step', attempt, ms } as const;
      if (!('error' in attempted)) {
        const { output } = attempted;
        const end = { ...record, status: 'completed' } as const;
        await this.#settle(output === undefined ? end : { ...end, output });
        return output;
      }
      const delayMs = attempted.isFinal ? undefined : delayAfter(attempt, attempted.error, retry);
      if (delayMs === undefined && !storeFailure) {
        this.#used.delete(id);
        throw attempted.error;
      }
      const error = this.#host.failureOf(attempted.error);
      if (delayMs === undefined) {
        await this.#settle({ ...record, status: 'failed', error });
        throw new StepError(id, attempt, error, attempted.error);
      }
      const until = Date.now() + delayMs;
      await this.#host.store({ ...record, status: 'retrying', error, until });
      await this.#until(id, until);
    }
  }

  /**
   * Runs the function once. A run that is stopped does not count as a failure of the step. A
   * suspended run waits for the function, since a result that still comes in time need not be made
   * again; any other stop does not.
   */
  async #attempt(
    id: string,
    run: StepFunction,
    attempt: number,
  ): Promise<
    { readonly output: unknown } | { readonly error: unknown; readonly isFinal?: boolean }
  > {
    const { stop, task, turn, onWorking, store } = this.#host;
    const key = stepKey(task, turn, id);
    const announce = (): void => {
      // It delays nothing. If it cannot be written, the result cannot, either.
      store({ id, kind: 'step', status: 'started', attempt }).catch(() => {});
    };
    // The first step is announced with what comes before it: if the process dies now, the log knows
    // that the agent has steps, and may be called again.
    const announcement = this.#isAnnounced ? setTimeout(announce, ANNOUNCED_AFTER_MS) : undefined;
    if (!this.#isAnnounced) announce();
    this.#isAnnounced = true;
    onWorking(1);
    let result: unknown;
    try {
      result = await this.#unlessStopped(async () => run({ signal: stop.signal, key, attempt }));
    } catch (error) {
      if (stop.aborted) throw stop.signal.reason;
      return { error };
    } finally {
      clearTimeout(announcement);
      onWorking(-1);
    }
    try {
      return { output: jsonOutput(id, result) };
    } catch (error) {
      // The step has had its effect, so it must not run again.
      return { error, isFinal: true };
    }
  }

  #unlessStopped(work: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, rejectWork) => {
      const unfollow = whenAborted(this.#host.stop, (reason) => {
        if (DuolaneError.from(reason).code !== 'suspended') rejectWork(reason);
      });
      work().then(resolve, rejectWork).finally(unfollow);
    });
  }

  async #sleep(id: string, wanted: number): Promise<void> {
    const stored = this.#host.stored.get(id);
    if (stored?.status === 'completed') return;
    const until = stored?.until ?? wanted;
    if (!stored) await this.#host.store({ id, kind: 'sleep', status: 'waiting', until });
    await this.#until(id, until);
    await this.#settle({ id, kind: 'sleep', status: 'completed' });
  }

  async #waitFor(id: string, options: WaitForOptions): Promise<unknown> {
    const stored = this.#host.stored.get(id);
    if (stored?.status === 'completed') return stored.output;
    if (stored?.status === 'failed') throw failureOf(stored);
    const { schema, timeoutMs, signal } = options;
    this.#host.stop.signal.throwIfAborted();
    signal?.throwIfAborted();
    const until =
      stored?.until ?? (timeoutMs === undefined ? undefined : Math.ceil(Date.now() + timeoutMs));
    this.#waiting.set(id, undefined);
    if (!stored)
      await this.#host.store({
        id,
        kind: 'event',
        status: 'waiting',
        ...omitUndefined({ schema, until }),
      });
    const event = await this.#whileWaiting(
      id,
      undefined,
      (ended) => this.#event(id, until, ended),
      signal,
    );
    if (event?.action === 'accept') {
      const { content } = event;
      const output = content === undefined ? {} : { output: content };
      await this.#settle({ id, kind: 'event', status: 'completed', ...output });
      return content;
    }
    const failure = event
      ? new DuolaneError('canceled', `event "${id}" was declined by its sender`)
      : new DuolaneError('timeout', `event "${id}" did not arrive in time (timeoutMs)`);
    const error = failure.toJSON();
    await this.#settle({ id, kind: 'event', status: 'failed', attempt: 1, error });
    throw new StepError(id, 1, error);
  }

  /**
   * Stores the end of a step. The run is not suspended meanwhile, even if another wait is open:
   * the agent would not see what it waited for.
   */
  async #settle(record: StepRecord): Promise<void> {
    this.#host.onWorking(1);
    try {
      await this.#host.store(record);
    } finally {
      this.#host.onWorking(-1);
    }
  }

  /** Resolves with the event; without one, with undefined when the time has come. */
  #event(id: string, until: number | undefined, signal: AbortSignal): Promise<Answer | undefined> {
    const known = this.#events.get(id);
    if (known) return Promise.resolve(known);
    const over = new Cancellation();
    return new Promise((resolve, rejectWait) => {
      const unfollow = over.follow({ signal });
      this.#listeners.set(id, (event) => {
        unfollow();
        over.abort(OVER);
        resolve(event);
      });
      if (until !== undefined)
        sleepUntil(until, over.signal)
          .then(() => resolve(undefined), rejectWait)
          .finally(unfollow);
    });
  }

  #until(id: string, at: number): Promise<void> {
    return this.#whileWaiting(id, at, (signal) => sleepUntil(at, signal));
  }

  /**
   * A suspended run keeps the wait open. Otherwise it is over when `wait` is, whose signal aborts
   * when the run stops or the `given` one aborts.
   */
  async #whileWaiting<T>(
    id: string,
    until: number | undefined,
    wait: (signal: AbortSignal) => Promise<T>,
    given?: AbortSignal,
  ): Promise<T> {
    const { signal } = this.#host.stop;
    signal.throwIfAborted();
    this.#waiting.set(id, until);
    this.#host.onWaiting(1);
    try {
      const either = given ? AbortSignal.any([signal, given]) : signal;
      const result = await raceAbort(wait(either), either);
      this.#waiting.delete(id);
      return result;
    } catch (error) {
      if (DuolaneError.from(error).code !== 'suspended') this.#waiting.delete(id);
      throw error;
    } finally {
      this.#listeners.delete(id);
      this.#host.onWaiting(-1);
    }
  }
}

async function sleepUntil(at: number, signal: AbortSignal): Promise<void> {
  for (let ms = at - Date.now(); ms > 0; ms = at - Date.now())
    await sleep(Math.min(ms, MAX_TIMER_MS), signal);
}

/** The idempotency key of a step. It differs for each step, whatever characters ids have. */
export const stepKey = (task: string, turn: string, id: string): string =>
  [task, turn, id]
    .map((part) => encodeURIComponent(part.replaceAll(/\p{Surrogate}/gu, '\uFFFD')))
    .join('/');

const failureOf = ({ id, attempt = 1, error }: StepRecord): StepError =>
  new StepError(id, attempt, error ?? new DuolaneError('internal', 'the step failed').toJSON());

/** Returns the delay before the next attempt; undefined after the last one. */
function delayAfter(
  attempt: number,
  error: unknown,
  retry: StepRetry | undefined,
): number | undefined {
  if (!retry || attempt >= retry.attempts) return undefined;
  // An error of the package knows whether a retry may help. Any other may.
  if (error instanceof DuolaneError && !error.retryable) return undefined;
  const { firstMs = 1000, factor = 2, maxMs = 60_000 } = retry.backoff ?? {};
  const delayMs = Math.min(firstMs * factor ** (attempt - 1), maxMs);
  const wantedMs = error instanceof DuolaneError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(0, delayMs, Math.min(wantedMs, maxMs));
}

const reused = (id: string): string =>
  `step "${id}" is used for two different things in one turn; give each step its own id`;

function reject(message: string): Promise<never> {
  const rejected = Promise.reject(new DuolaneError('invalid', message));
  // Without a handler, it would end the process if the agent does not await the step.
  rejected.catch(() => {});
  return rejected;
}
