import { DuolaneError, type Failure } from '../../errors.ts';
import type { Logger } from '../../event/types.ts';
import { omitUndefined } from '../../json.ts';
import { raceAbort, settledWithin } from '../../stream/abort.ts';
import { STORE_METHODS, type Store, storeFromCalls, type StoreMethods } from '../store/store.ts';
import type { LogHealth } from '../types.ts';

const CLOSED: LogHealth = {
  ok: false,
  failure: new DuolaneError('closed', 'the task log is closed').toJSON(),
};

/** A write that succeeded so recently proves that the store works, without a probe. */
const FRESH_MS = 2000;

/**
 * Claims need their own rights and indexes in a database, so they may fail while writes succeed.
 */
type Group = 'writes' | 'claims';

interface GroupState {
  failure?: Failure;
  /** The methods that failed last. A success of another method does not prove that these work. */
  readonly failing: Set<string>;
  /** Unix ms. */
  failingSince?: number;
  /** Monotonic clock. */
  lastSuccess: number;
  lastFailure: number;
}

/**
 * Observes every write to a store. Logs the first failure and the recovery, once each, and knows
 * since when writes fail. Reads do not count: their caller gets the error, and one damaged task
 * does not make a store unhealthy.
 */
export class StoreHealth {
  /** The same store, observed. */
  readonly store: Store;
  readonly #logger: Logger;
  readonly #claimMs: number;
  readonly #groups: Readonly<Record<Group, GroupState>> = {
    writes: { failing: new Set(), lastSuccess: -Infinity, lastFailure: -Infinity },
    claims: { failing: new Set(), lastSuccess: -Infinity, lastFailure: -Infinity },
  };
  readonly #closing = new AbortController();
  #probing: Promise<void> | undefined;

  /** `claimMs`: how long a failed claim counts. A runner that works claims again before that. */
  constructor(store: Store, logger: Logger, claimMs: number) {
    this.#logger = logger;
    this.#claimMs = claimMs;
    this.store = {
      ...storeFromCalls((method, args) => {
        const call = store[method] as (...args: readonly unknown[]) => Promise<unknown>;
        const called = call.apply(store, [...args]);
        if (STORE_METHODS[method] === 'write') this.#observe(method, called);
        return called;
      }),
      announcesAll: store.announcesAll,
      onCommit: (listener) => store.onCommit(listener),
      ...omitUndefined<Pick<Store, 'exclusive' | 'onGap' | 'onEvict' | 'replicas'>>({
        exclusive: store.exclusive,
        onGap: store.onGap?.bind(store),
        onEvict: store.onEvict?.bind(store),
        replicas: store.replicas?.bind(store),
      }),
      [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    };
  }

  /** Returns the health. Probes the store if the last writes are old or failed. */
  async check(timeoutMs: number): Promise<LogHealth> {
    const { writes } = this.#groups;
    if (writes.failure || performance.now() - writes.lastSuccess > FRESH_MS)
      await this.#probe(timeoutMs);
    return this.#closing.signal.aborted ? CLOSED : this.#state();
  }

  /** Ends the checks that wait for the store. */
  close(): void {
    this.#closing.abort();
  }

  #state(): LogHealth {
    const { writes, claims } = this.#groups;
    const recent = performance.now() - claims.lastFailure < this.#claimMs;
    const failing = writes.failure ? writes : recent && claims.failure ? claims : undefined;
    if (!failing?.failure || failing.failingSince === undefined) return { ok: true };
    return { ok: false, failingSince: failing.failingSince, failure: failing.failure };
  }

  async #probe(timeoutMs: number): Promise<void> {
    // A store that does not reply has one probe under way, however often it is checked. After a
    // failure the probe writes as much as a run does: on a full disk a few bytes still find room.
    const isThorough = this.#groups.writes.failure !== undefined;
    this.#probing ??= this.store
      .probe(isThorough)
      .then(() => (isThorough ? this.#recovered('writes') : undefined))
      // `closed` means here that the store was given up; it is not a refusal by the rules.
      .catch((error: unknown) => this.#failed('writes', 'probe', DuolaneError.from(error)))
      .finally(() => (this.#probing = undefined));
    if (await settledWithin(raceAbort(this.#probing, this.#closing.signal), timeoutMs)) return;
    const message = `the task store timed out after ${timeoutMs} ms: a write was awaited`;
    this.#failed('writes', 'probe', new DuolaneError('timeout', message));
  }

  #observe(method: keyof StoreMethods, called: Promise<unknown>): void {
    const group = method === 'claim' ? 'claims' : 'writes';
    called.then(
      () => this.#succeeded(group, method),
      (error: unknown) => {
        const failure = DuolaneError.from(error);
        if (isTrouble(failure)) this.#failed(group, method, failure);
        else this.#succeeded(group, method);
      },
    );
  }

  #succeeded(group: Group, method: string): void {
    const { failing } = this.#groups[group];
    failing.delete(method);
    if (failing.size === 0) this.#recovered(group);
  }

  #recovered(group: Group): void {
    const state = this.#groups[group];
    state.lastSuccess = performance.now();
    state.failing.clear();
    if (!state.failure || state.failingSince === undefined) return;
    const failedForMs = Date.now() - state.failingSince;
    delete state.failure;
    delete state.failingSince;
    this.#logger.info(`the task store accepts ${group} again`, { failedForMs });
  }

  #failed(group: Group, method: string, error: DuolaneError): void {
    const state = this.#groups[group];
    state.lastFailure = performance.now();
    state.failing.add(method);
    const isFirst = state.failure === undefined;
    state.failure = error.toJSON();
    if (!isFirst) return;
    state.failingSince = Date.now();
    this.#logger.error(`the task store does not accept ${group}`, { method, ...state.failure });
  }
}

/**
 * Whether the database failed. Any other error is a refusal by the rules, as an intact store gives.
 */
export const isTrouble = ({ code }: DuolaneError): boolean =>
  code === 'server' || code === 'network' || code === 'timeout' || code === 'internal';
