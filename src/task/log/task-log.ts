import { checkNumbers } from '../check-numbers.ts';
import { DuolaneError, invalid } from '../../errors.ts';
import { isFinal } from '../../event/index.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import type { AgentEvent, Entry, Logger, Seq, Snapshot, Turn } from '../../event/types.ts';
import { raceAbort } from '../../stream/abort.ts';
import type { Abortable, Items } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { encodeEvent, flatEntry } from '../store/line-codec.ts';
import { encodeStoredValue } from '../store/stored-values.ts';
import { ActiveClaims } from './active-claims.ts';
import {
  cancellableGenerator,
  addListener,
  waitForWake,
} from '../../stream/cancellable-generator.ts';
import { listTasks } from './list-tasks.ts';
import { processWarnings } from '../process-warnings.ts';
import { pruneTasks } from './prune-tasks.ts';
import { readMissed } from './read-missed.ts';
import { isTrouble, StoreHealth } from './store-health.ts';
import type { Commit, DamagedTask, Store } from '../store/store.ts';
import { LiveTails } from './live-tail.ts';
import { CancelDeadlines } from './cancel-deadlines.ts';
import type {
  Bookmark,
  Claim,
  LimitedOwners,
  LogHealth,
  LogOptions,
  PrunePolicy,
  Reading,
  TaskLog,
  TaskQuery,
} from '../types.ts';

const FIRST_PAUSE_MS = 50;
const MAX_QUEUED = 10_000;
const MAX_REPORTS = 1000;
/** Databases index these ids, and limit what an index can have. */
const MAX_ID_BYTES = 1024;
const MAX_MESSAGE_ID_BYTES = 2048;

/**
 * Opens a `TaskLog` over a store: everything that is the same for every database. Several logs may
 * share one store, as replicas do. Disposing ends readers with `closed` and claims with `fenced`,
 * then closes the store.
 */
export function openLog(store: Store, options: LogOptions = {}): TaskLog {
  return new Log(store, options);
}

/** `openLog` over a store that only this log uses: with invalid options it closes the store. */
export async function openOwnLog(store: Store, options: LogOptions): Promise<TaskLog> {
  try {
    return openLog(store, options);
  } catch (error) {
    await store[Symbol.asyncDispose]();
    throw error;
  }
}

class Log implements TaskLog {
  readonly replicas?: NonNullable<TaskLog['replicas']>;
  readonly #store: Store;
  readonly #options: LogOptions;
  readonly #leaseMs: number;
  readonly #pollMs: number;
  readonly #logger: Logger;
  readonly #damaged = new Set<string>();
  readonly #health: StoreHealth;
  readonly #tails: LiveTails;
  readonly #claimed: ActiveClaims;
  readonly #cancelDeadlines: CancelDeadlines;
  readonly #wakes = new Set<() => void>();
  readonly #commitListeners = new Set<() => void>();
  readonly #unlisten: () => void;
  readonly #poll: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(given: Store, options: LogOptions) {
    const { heartbeatMs = 5000, leaseMs = 4 * heartbeatMs, pollMs = 5000 } = options;
    const { cancelTimeoutMs = 10_000, maxQueuedPerOwner } = options;
    checkNumbers({ heartbeatMs, leaseMs, pollMs, cancelTimeoutMs, maxQueuedPerOwner });
    if (leaseMs <= heartbeatMs)
      throw new DuolaneError(
        'invalid',
        `invalid leaseMs ${leaseMs}: expected more than heartbeatMs (${heartbeatMs}), since leases are renewed by heartbeats`,
      );
    this.#logger = safeLogger(options.logger, processWarnings);
    const health = new StoreHealth(given, this.#logger, 3 * pollMs);
    const { store } = health;
    this.#health = health;
    this.#store = store;
    this.#options = options;
    this.#leaseMs = leaseMs;
    this.#pollMs = pollMs;
    this.#tails = new LiveTails(store);
    this.#claimed = new ActiveClaims(store, { leaseMs, heartbeatMs });
    this.#cancelDeadlines = new CancelDeadlines(store, cancelTimeoutMs);
    const unlisten = [
      store.onCommit((commit) => this.#commit(commit)),
      store.onGap?.(() => {
        this.#readMissed().catch(reportUnexpected);
      }),
      store.onEvict?.((task) => this.#evicted(task)),
    ];
    this.#unlisten = () => unlisten.forEach((off) => off?.());
    if (store.replicas) this.replicas = store.replicas.bind(store);
    if (!store.announcesAll)
      // A poll that fails is repeated by the next interval; readers and claims do not end for it.
      this.#poll = setInterval(() => void this.#tails.poll().catch(() => {}), pollMs);
  }

  async submit(
    turn: Turn,
    { worker }: { readonly worker?: string } = {},
  ): Promise<{ entry: Entry; claim?: Claim }> {
    checkIds(turn);
    // With a store that announces every commit, the claim need not read what came after it.
    const tail =
      worker !== undefined && this.#store.announcesAll ? this.#tails.keep(turn.task) : undefined;
    let claimed: Claim | undefined;
    try {
      const { row, claim } = await this.#store.submit({
        note: encodeEvent({ type: 'turn.submitted', turn }),
        leaseMs: this.#leaseMs,
        dedupe: this.#options.dedupe ?? true,
        maxQueued: this.#options.maxQueuedPerOwner ?? MAX_QUEUED,
        ...(worker !== undefined && { worker }),
      });
      claimed = claim && this.#claimed.hold(claim, tail);
      return { entry: row.entry ?? decodeEntry(row.line), ...(claimed && { claim: claimed }) };
    } finally {
      if (!claimed) tail?.drop();
    }
  }

  async requestCancel(task: string, reason?: string): Promise<Snapshot> {
    const note = encodeEvent({
      type: 'cancel.requested',
      ...(reason !== undefined && { reason }),
    });
    const snapshot = await this.#store.cancel(task, note);
    if (!isFinal(snapshot.state)) this.#cancelDeadlines.watch(task, note);
    return snapshot;
  }

  claims(
    worker: string,
    { agents, onIdle, limited, ...options }: Parameters<TaskLog['claims']>[1],
  ): AsyncIterable<Claim> {
    return cancellableGenerator(options, (signal) =>
      this.#claims(worker, agents, signal, onIdle, limited),
    );
  }

  async *#claims(
    worker: string,
    agents: readonly string[],
    signal: AbortSignal,
    onIdle?: () => void,
    limited?: LimitedOwners,
  ): AsyncGenerator<Claim, void> {
    for (let failures = 0; ;) {
      signal.throwIfAborted();
      this.#check();
      // Listen before the claim is tried, so that a commit during it is not missed. It ends in the
      // microtask in which `waitForWake` begins to listen; `.finally` would end it earlier.
      let woken = false;
      const unsubscribe = this.#onWake(() => (woken = true), limited);
      const found = await this.#claim(worker, agents, limited?.names() ?? []);
      unsubscribe();
      if (!found) {
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures++, this.#pollMs);
        await waitForWake(() => () => {}, signal, ms);
        continue;
      }
      failures = 0;
      if (found.claim) {
        const claim = this.#claimed.hold(found.claim);
        // If the release fails, the lease expires.
        if (signal.aborted) await this.release(claim).catch(() => {});
        else yield claim;
      } else if (!woken) {
        onIdle?.();
        // A lease that begins after this claim ends without an announcement, so look again in time.
        const ms = Math.min(found.retryInMs ?? this.#pollMs, this.#pollMs);
        await waitForWake((wake) => this.#onWake(wake, limited), signal, ms);
      }
    }
  }

  #onWake(wake: () => void, limited: LimitedOwners | undefined): () => void {
    const unsubscribe = [addListener(this.#wakes, wake), limited?.onChange(wake)];
    return () => unsubscribe.forEach((off) => off?.());
  }

  /** Tries to claim a task. Undefined if the store failed, which is logged. */
  async #claim(
    worker: string,
    agents: readonly string[],
    except: readonly string[],
  ): Promise<Awaited<ReturnType<Store['claim']>> | undefined> {
    try {
      if (!(await this.#claimed.areRenewed())) return undefined;
      const found = await this.#store.claim(worker, agents, this.#leaseMs, except);
      for (const each of found.damaged ?? []) this.#reportDamage(each);
      return found;
    } catch (error) {
      // `StoreHealth` reports failures of the database.
      const failure = DuolaneError.from(error);
      if (!isTrouble(failure)) this.#logger.error('cannot claim a task', { ...failure.toJSON() });
      return undefined;
    }
  }

  async append(claim: Claim, after: Seq, events: readonly AgentEvent[]): Promise<Seq> {
    if (events.length === 0) return after;
    const { task, epoch } = claim;
    const now = Date.now();
    const lines: string[] = [];
    const entries: (Entry | undefined)[] = [];
    for (const event of events) {
      lines.push(encodeEvent(event, now));
      if (this.#store.announcesAll) entries.push(flatEntry(event, after + lines.length, now));
    }
    return await this.#store.append({ task, epoch, after, events: lines, entries });
  }

  async release(claim: Claim): Promise<void> {
    // A claim that is over or lost has nothing to release.
    if (this.#claimed.drop(claim)) await this.#store.release(claim.task, claim.epoch);
  }

  read(task: string, after: Seq, options: Abortable = {}): Reading {
    return this.#tails.read(task, after, options);
  }

  health({ timeoutMs = 2000 }: { readonly timeoutMs?: number } = {}): Promise<LogHealth> {
    return this.#health.check(timeoutMs);
  }

  get(task: string): Promise<Snapshot | undefined> {
    return this.#store.get(task);
  }

  list(query: TaskQuery): Items<Snapshot> {
    return listTasks(this.#store, query, (damaged) => this.#reportDamage(damaged));
  }

  count({ signal, ...filter }: Omit<TaskQuery, 'after' | 'outline'>): Promise<number> {
    signal?.throwIfAborted();
    return raceAbort(this.#store.count(filter), signal);
  }

  bookmark(mark: Bookmark): Promise<void> {
    return this.#store.bookmark(mark);
  }

  async *bookmarks(task?: string): AsyncIterable<Bookmark> {
    for (let after: Bookmark | undefined; ;) {
      const marks = await this.#store.bookmarks(task, after);
      yield* marks;
      after = marks.at(-1);
      if (!after) return;
    }
  }

  async setValues(
    { task, epoch }: Claim,
    values: readonly (readonly [key: string, value: unknown])[],
  ): Promise<void> {
    const changes = values.map(([key, value]) => encodeStoredValue(key, value));
    if (changes.length > 0) await this.#store.setValues({ task, epoch }, changes);
  }

  values(
    task: string,
    prefix: string,
    options: Abortable = {},
  ): AsyncIterable<readonly [key: string, value: unknown]> {
    return cancellableGenerator(options, (signal) => this.#values(task, prefix, signal));
  }

  async *#values(
    task: string,
    prefix: string,
    signal: AbortSignal,
  ): AsyncGenerator<readonly [key: string, value: unknown], void> {
    for (let after: string | undefined; ;) {
      signal.throwIfAborted();
      const page = await raceAbort(this.#store.values(task, prefix, after), signal);
      for (const { key, value } of page) yield [key, JSON.parse(value)];
      after = page.at(-1)?.key;
      if (after === undefined) return;
    }
  }

  prune(policy: PrunePolicy & Abortable): Promise<number> {
    return pruneTasks(this.#store, policy, this.#options.blobs);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#poll);
    this.#unlisten();
    this.#tails.close();
    this.#claimed.close();
    this.#cancelDeadlines.close();
    this.#health.close();
    this.#wake();
    await this.#store[Symbol.asyncDispose]();
  }

  async #readMissed(): Promise<void> {
    const { signal } = this.#closing;
    const [store, tails, claims] = [this.#store, this.#tails, this.#claimed];
    if (await readMissed({ store, tails, claims, signal, maxPauseMs: this.#pollMs })) this.#wake();
  }

  /** Logs a damaged task once. */
  #reportDamage({ task, reason }: DamagedTask): void {
    if (this.#damaged.has(task) || this.#damaged.size >= MAX_REPORTS) return;
    this.#damaged.add(task);
    this.#logger.error('cannot read a stored task; lists and runners skip it', {
      task,
      reason,
    });
  }

  #evicted(task: string): void {
    this.#options.blobs?.removeTask(task).catch((error: unknown) => {
      const failure = DuolaneError.from(error).toJSON();
      this.#logger.warn('cannot delete the blobs of a deleted task', { task, ...failure });
    });
  }

  #commit(commit: Commit): void {
    this.#tails.commit(commit);
    this.#claimed.commit(commit);
    this.#cancelDeadlines.commit(commit);
    if (commit.claimable) this.#wake();
    for (const listener of this.#commitListeners) listener();
  }

  onCommit(listener: () => void): () => void {
    return addListener(this.#commitListeners, listener);
  }

  #wake(): void {
    for (const wake of this.#wakes) wake();
  }

  #check(): void {
    if (this.#closed) throw new DuolaneError('closed', 'the log is closed; open a new one');
  }
}

// The ids that callers choose. That of the task is chosen by the server. A database may refuse
// other text, together with what others submit at the same time, or store two ids as one.
function checkIds({ context, tenant = '', messageId }: Turn): void {
  for (const [name, id] of Object.entries({ context, tenant, messageId })) {
    if (/[\0\p{Surrogate}]/u.test(id))
      throw invalid(`invalid ${name} of a turn: expected valid Unicode without zero characters`);
    const most = name === 'messageId' ? MAX_MESSAGE_ID_BYTES : MAX_ID_BYTES;
    // A UTF-16 unit has at most three bytes in UTF-8, so most ids need not be counted.
    if (id.length * 3 <= most || Buffer.byteLength(id) <= most) continue;
    throw new DuolaneError(
      'invalid',
      `invalid ${name} of a turn: expected at most ${most} bytes, got ${Buffer.byteLength(id)}`,
    );
  }
}
