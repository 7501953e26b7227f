import { DuolaneError } from '../../errors.ts';
import { decodeEntry, isFinal } from '../../event/index.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import type { AgentEvent, Entry, Logger, Seq, Snapshot, Turn } from '../../event/types.ts';
import type { Abortable, Items } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { encodeEvent, flatEntry } from '../store/line-codec.ts';
import { ActiveClaims } from './active-claims.ts';
import {
  cancellableGenerator,
  addListener,
  waitForWake,
} from '../../stream/cancellable-generator.ts';
import { listTasks } from './list-tasks.ts';
import { processWarnings } from '../process-warnings.ts';
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

/**
 * A `TaskLog` over a store: what is the same for every database. Several logs may share one store,
 * as replicas do. Disposing ends readers and claims with `closed` and `fenced`, then closes the
 * store.
 */
export function openLog(store: Store, options: LogOptions = {}): TaskLog {
  return new Log(store, options);
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
  readonly #held: ActiveClaims;
  readonly #takeovers: CancelDeadlines;
  readonly #wakes = new Set<() => void>();
  readonly #unlisten: () => void;
  readonly #poll: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(given: Store, options: LogOptions) {
    const { heartbeatMs = 5000, leaseMs = 4 * heartbeatMs, pollMs = 5000 } = options;
    const { cancelTimeoutMs: takeoverMs = 10_000 } = options;
    if (leaseMs <= heartbeatMs)
      throw new DuolaneError(
        'invalid',
        `leaseMs (${leaseMs}) must be longer than heartbeatMs (${heartbeatMs}), or every claim is lost`,
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
    this.#held = new ActiveClaims(store, { leaseMs, heartbeatMs });
    this.#takeovers = new CancelDeadlines(store, takeoverMs);
    const unlisten = [
      store.onCommit((commit) => this.#commit(commit)),
      store.onGap?.(() => {
        this.#lookAgain().catch(reportUnexpected);
      }),
      store.onEvict?.((task) => this.#evicted(task)),
    ];
    this.#unlisten = () => unlisten.forEach((off) => off?.());
    if (store.replicas) this.replicas = store.replicas.bind(store);
    // A poll that fails is made again; readers and claims do not end for it.
    if (!store.announcesAll)
      // Made again with the next interval.
      this.#poll = setInterval(() => void this.#tails.poll().catch(() => {}), pollMs);
  }

  async submit(
    turn: Turn,
    { worker }: { readonly worker?: string } = {},
  ): Promise<{ entry: Entry; claim?: Claim }> {
    // A store that announces everything need not be asked what came after the claim.
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
      claimed = claim && this.#held.hold(claim, tail);
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
    if (!isFinal(snapshot.state)) this.#takeovers.watch(task, note);
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
      // Counted from before the question, so that a commit beside it is not slept through.
      let woken = false;
      const unsubscribe = this.#onWake(() => (woken = true), limited);
      const found = await this.#claim(worker, agents, limited?.names() ?? []).finally(unsubscribe);
      if (!found) {
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures++, this.#pollMs);
        await waitForWake(() => () => {}, signal, ms);
        continue;
      }
      failures = 0;
      if (found.claim) {
        const claim = this.#held.hold(found.claim);
        // If that fails, the lease runs out.
        if (signal.aborted) await this.release(claim).catch(() => {});
        else yield claim;
      } else if (!woken) {
        onIdle?.();
        // A lease that began after the question ends unannounced, so there is always a next look.
        const ms = Math.min(found.retryInMs ?? this.#pollMs, this.#pollMs);
        await waitForWake((wake) => this.#onWake(wake, limited), signal, ms);
      }
    }
  }

  #onWake(wake: () => void, limited: LimitedOwners | undefined): () => void {
    const unsubscribe = [addListener(this.#wakes, wake), limited?.onChange(wake)];
    return () => unsubscribe.forEach((off) => off?.());
  }

  /** Undefined when the store failed, which is reported: whether a task waits is then not known. */
  async #claim(
    worker: string,
    agents: readonly string[],
    except: readonly string[],
  ): Promise<Awaited<ReturnType<Store['claim']>> | undefined> {
    if (!(await this.#held.areRenewed())) return undefined;
    try {
      const found = await this.#store.claim(worker, agents, this.#leaseMs, except);
      for (const each of found.damaged ?? []) this.#reportDamage(each);
      return found;
    } catch (error) {
      // Trouble of the database is reported where it is observed.
      const failure = DuolaneError.from(error);
      if (!isTrouble(failure))
        this.#logger.error('a task could not be claimed', { ...failure.toJSON() });
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
    // One that is over or lost has nothing to give back.
    if (this.#held.drop(claim)) await this.#store.release(claim.task, claim.epoch);
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
    return this.#store.count(filter);
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

  async prune({
    tasksEndedBefore,
    deltasEndedBefore,
    signal,
  }: PrunePolicy & Abortable): Promise<number> {
    let count = 0;
    while (tasksEndedBefore !== undefined) {
      signal?.throwIfAborted();
      const tasks = await this.#store.ended(tasksEndedBefore);
      if (tasks.length === 0) break;
      // Bytes first: a crash in between leaves a task to prune again, never bytes without a task.
      for (const task of tasks) await this.#options.blobs?.removeTask(task);
      await this.#store.remove(tasks);
      count += tasks.length;
    }
    while (deltasEndedBefore !== undefined) {
      signal?.throwIfAborted();
      const compacted = await this.#store.compact(deltasEndedBefore);
      if (compacted === 0) break;
      count += compacted;
    }
    return count;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    clearInterval(this.#poll);
    this.#unlisten();
    this.#tails.close();
    this.#held.close();
    this.#takeovers.close();
    this.#wake();
    await this.#store[Symbol.asyncDispose]();
  }

  /** Commits may have been missed; a store that is given up ends whoever waits for it. */
  async #lookAgain(): Promise<void> {
    try {
      await this.#store.heads([]); // throws if there is no store any more
      await this.#tails.poll();
      await this.#held.beat();
      this.#wake();
    } catch (error) {
      const failure = DuolaneError.from(error);
      if (failure.retryable) return;
      this.#tails.close(failure);
      this.#held.close();
    }
  }

  /** Once for each task. */
  #reportDamage({ task, reason }: DamagedTask): void {
    if (this.#damaged.has(task) || this.#damaged.size >= MAX_REPORTS) return;
    this.#damaged.add(task);
    this.#logger.error('a stored task cannot be read; lists and runners leave it out', {
      task,
      reason,
    });
  }

  #evicted(task: string): void {
    this.#options.blobs?.removeTask(task).catch((error: unknown) => {
      const failure = DuolaneError.from(error).toJSON();
      this.#logger.warn('the blobs of a deleted task could not be deleted', { task, ...failure });
    });
  }

  #commit(commit: Commit): void {
    this.#tails.commit(commit);
    this.#held.commit(commit);
    this.#takeovers.commit(commit);
    if (commit.claimable) this.#wake();
  }

  #wake(): void {
    for (const wake of this.#wakes) wake();
  }

  #check(): void {
    if (this.#closed) throw new DuolaneError('closed', 'the log was closed');
  }
}
