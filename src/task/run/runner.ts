import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { DuolaneError } from '../../errors.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import type { Agent, Entry, Snapshot, Turn } from '../../event/types.ts';
import { sleep } from '../../stream/index.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import { checkNumbers } from '../check-numbers.ts';
import { heapShare, TextBudget } from '../text-budget.ts';
import { addListener } from '../../stream/cancellable-generator.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { processWarnings } from '../process-warnings.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { type RunOptions } from './agent-run.ts';
import { partyOf } from '../store/run-queue.ts';
import type { Claim, LimitedOwners, Runner, RunnerOptions, TaskLog } from '../types.ts';
import { readWithRetry } from './retry-store.ts';
import { ClaimedTask } from './claimed-task.ts';
import { RunStorage } from './run-storage.ts';
import { readEarlierRuns } from './stored-steps.ts';

/**
 * For each run that may be busy, so many runs may wait for a person in memory. Further ones are
 * suspended immediately.
 */
const MOST_WAITING = 10;

const SUSPEND_AFTER_MS = 5000;
const MAX_RUN_CHARS = 32 << 20;

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5000;
const MAX_GIVEN_UP = 1000;

/**
 * Creates a runner: it runs agents on the tasks of a log. It claims tasks while it has room, ends
 * or resumes the runs that another claim holder abandoned, and writes each run through its claim. A
 * task outlives every connection: only `requestCancel` cancels it. Disposing the runner does not
 * close the log.
 *
 * @example
 * ```ts
 * await using log = memoryLog();
 * await using runner = createRunner({ log, agents: { echo } });
 * const turn = { agent: 'echo', task: 't1', context: 'c1', messageId: 'm1' };
 * await runner.submit({ ...turn, parts: [{ text: 'Hi' }] });
 * for await (const entry of log.read('t1', 0)) console.log(entry.type);
 * ```
 */
export function createRunner(options: RunnerOptions): Runner {
  return new LogRunner(options);
}

class LogRunner implements Runner {
  readonly #log: TaskLog;
  readonly #agents: Readonly<Record<string, Agent>>;
  readonly #name: string;
  readonly #maxRuns: number;
  readonly #queue: boolean;
  readonly #owners: OwnerRuns;
  readonly #maxAttempts: number;
  readonly #runOptions: RunOptions;
  readonly #stopping = new AbortController();
  readonly #active = new ReleasingMap<number, ClaimedTask>();
  #started = 0;
  readonly #pulling: Promise<void>;
  #reserved = 0;
  /** Tasks may wait in the log: a new task waits behind them, even if a slot is free. */
  #crowded = false;
  /** By task, how often in a row this runner gave it up. */
  readonly #givenUp = new LruCache<string, number>(MAX_GIVEN_UP);
  /** How many of the active runs wait for a person. */
  #waiting = 0;
  #room: (() => void) | undefined;
  #drained: Promise<void> | undefined;

  constructor(options: RunnerOptions) {
    const { log, agents, maxRuns = 100, maxAttempts = 10 } = options;
    const logger = safeLogger(options.logger, processWarnings);
    const { graceMs = 5000, suspendAfterMs = SUSPEND_AFTER_MS, timeoutMs, observer } = options;
    const { maxRunChars = MAX_RUN_CHARS, maxTotalChars = heapShare(), maxRunsPerOwner } = options;
    checkNumbers({ maxRuns, maxRunsPerOwner, maxAttempts, maxRunChars, maxTotalChars });
    checkNumbers({ graceMs, suspendAfterMs, timeoutMs });
    const textBudget = new TextBudget(maxRunChars, maxTotalChars);
    for (const [name, agent] of Object.entries(agents))
      if (typeof agent !== 'function')
        throw new DuolaneError(
          'invalid',
          `invalid agent "${name}": expected a function, got ${agent === null ? 'null' : typeof agent}`,
        );
    this.#log = log;
    this.#agents = agents;
    this.#name = options.name ?? `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
    this.#maxRuns = maxRuns;
    this.#queue = options.queue ?? false;
    this.#owners = new OwnerRuns(maxRunsPerOwner ?? Math.ceil(maxRuns / 2));
    this.#maxAttempts = maxAttempts;
    const history = (task: Snapshot, signal: AbortSignal): AsyncIterable<Snapshot> =>
      readWithRetry(
        () => earlierTasks(log, task),
        (earlier) => earlier.task,
        signal,
      );
    const storage: RunOptions['storage'] = (...run) => new RunStorage(log, ...run);
    const onWaiting = (change: 1 | -1): number => {
      this.#waiting += change;
      this.#room?.();
      return this.#waiting > MOST_WAITING * this.#maxRuns ? 0 : suspendAfterMs;
    };
    const earlier = (task: Snapshot, signal: AbortSignal): ReturnType<RunOptions['earlier']> =>
      readEarlierRuns(log, task, signal);
    const { eventUrl } = options;
    const base = { graceMs, timeoutMs, logger, history, storage, earlier, eventUrl };
    this.#runOptions = { ...base, onWaiting, observer, textBudget };
    this.#pulling = maxRuns > 0 ? this.#pull() : Promise.resolve();
  }

  async submit(turn: Turn): Promise<Entry> {
    const mayRun = !this.#queue && Object.hasOwn(this.#agents, turn.agent);
    const owner = turn.owner || (turn.tenant ?? '');
    const here = mayRun && this.#hasRoom && !this.#crowded && this.#owners.hasRoom(owner);
    if (here) {
      this.#reserved++;
      this.#owners.add(owner, 1);
    } else if (mayRun) this.#crowded = true;
    try {
      this.#runOptions.observer?.submitted?.(turn);
      const { entry, claim } = await this.#log.submit(turn, here ? { worker: this.#name } : {});
      // The task may be of another owner than the turn: a signed event address names none.
      if (claim && this.#mayStart(claim, owner)) this.#start(claim);
      else if (claim) {
        this.#crowded = true;
        await this.#release(claim);
      }
      return entry;
    } finally {
      if (here) {
        this.#reserved--;
        this.#owners.add(owner, -1);
      }
      // Set the flag again: a claim poll that started before this submit may have cleared it.
      else if (mayRun) this.#crowded = true;
      this.#room?.();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#drained ??= this.#drain());
  }

  // A run that waits for a person takes no slot. It goes on immediately when the answer comes, so
  // there may be one run too many for a while.
  get #hasRoom(): boolean {
    const busy = this.#active.size + this.#reserved - this.#waiting;
    const { aborted } = this.#stopping.signal;
    return !aborted && busy < this.#maxRuns && this.#runOptions.textBudget.hasRoomBeside(busy);
  }

  /** Claims tasks until the runner is disposed. Logs an error of the log, and tries again. */
  async #pull(): Promise<void> {
    const { signal } = this.#stopping;
    const { logger } = this.#runOptions;
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted;) {
      try {
        await this.#claim(() => (pauseMs = FIRST_PAUSE_MS));
      } catch (error) {
        const failure = DuolaneError.from(error);
        if (signal.aborted) return;
        if (failure.code === 'closed') {
          logger.error('no more tasks are claimed', { ...failure.toJSON() });
          return;
        }
        logger.error('tasks could not be claimed', { retryInMs: pauseMs, ...failure.toJSON() });
        await sleep(pauseMs, signal).catch(() => {}); // an abort ends the loop
        pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
      }
    }
  }

  async #claim(onClaim: () => void): Promise<void> {
    const { signal } = this.#stopping;
    const agents = Object.keys(this.#agents);
    const onIdle = (): void => void (this.#crowded = false);
    const options = { agents, signal, onIdle, limited: this.#owners };
    for await (const claim of this.#log.claims(this.#name, options)) {
      onClaim();
      // A submit may have taken the last slot while this claim was awaited.
      if (this.#hasRoom) this.#start(claim);
      else await this.#release(claim);
      while (!this.#hasRoom && !signal.aborted)
        await new Promise<void>((resolve) => (this.#room = resolve));
    }
  }

  /** Whether the owner of the task has room, or is the one that has a reserved run. */
  #mayStart({ snapshot }: Claim, reserved: string): boolean {
    const owner = partyOf(snapshot);
    return owner === reserved || this.#owners.hasRoom(owner);
  }

  /** Leaves the task to a runner with room. */
  async #release(claim: Claim): Promise<void> {
    await this.#log.release(claim).catch((error: unknown) => {
      // Its lease expires, then a runner with room claims it.
      const failure = DuolaneError.from(error).toJSON();
      this.#runOptions.logger.warn('a claim could not be released', {
        task: claim.task,
        ...failure,
      });
    });
  }

  #start(claim: Claim): void {
    const agent = this.#agents[claim.snapshot.agent] as Agent;
    const owner = partyOf(claim.snapshot);
    const options = this.#optionsOf(owner);
    this.#owners.add(owner, 1);
    const pause = (): Promise<void> => this.#pauseOf(claim.task);
    const task = new ClaimedTask(this.#log, claim, agent, options, this.#maxAttempts, pause);
    if (this.#stopping.signal.aborted) task.drain(this.#runOptions.graceMs);
    const number = ++this.#started;
    this.#active.set(number, task);
    task.done
      .finally(() => {
        this.#active.take(number);
        this.#owners.add(owner, -1);
        this.#room?.();
      })
      .catch(reportUnexpected);
  }

  /**
   * Waits before a task that was given up is released. A released task can be claimed immediately,
   * so a task that fails every time, as with an observer that throws, would otherwise be claimed
   * thousands of times a second.
   */
  async #pauseOf(task: string): Promise<void> {
    const before = this.#givenUp.get(task) ?? 0;
    this.#givenUp.set(task, before + 1);
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** before, MAX_PAUSE_MS);
    await sleep(pauseMs, this.#stopping.signal).catch(() => {}); // an abort releases it now
  }

  // A run that waits goes on immediately when its wait is over, so it counts against the limit of
  // its owner until it is suspended. If the owner has no room, that is immediately.
  #optionsOf(owner: string): RunOptions {
    if (owner === '') return this.#runOptions;
    const onWaiting = (change: 1 | -1): number => {
      const suspendAfterMs = this.#runOptions.onWaiting(change);
      return this.#owners.hasRoom(owner) ? suspendAfterMs : 0;
    };
    return { ...this.#runOptions, onWaiting };
  }

  async #drain(): Promise<void> {
    this.#stopping.abort();
    this.#room?.();
    for (const task of this.#active.values()) task.drain(this.#runOptions.graceMs);
    await this.#pulling;
    // A submit that is under way may still bring a claim.
    while (this.#reserved > 0) await new Promise<void>((resolve) => (this.#room = resolve));
    for (const { done } of this.#active.values()) await done;
  }
}

/** Counts the runs of each owner in this runner. Tasks without an owner are not counted. */
class OwnerRuns implements LimitedOwners {
  readonly #most: number;
  readonly #runs = new Map<string, number>();
  readonly #listeners = new Set<() => void>();

  constructor(most: number) {
    this.#most = most;
  }

  hasRoom(owner: string): boolean {
    return (this.#runs.get(owner) ?? 0) < this.#most;
  }

  add(owner: string, change: 1 | -1): void {
    if (owner === '') return;
    const before = this.#runs.get(owner) ?? 0;
    if (before + change === 0) this.#runs.delete(owner);
    else this.#runs.set(owner, before + change);
    if (change < 0 && before >= this.#most) for (const listener of this.#listeners) listener();
  }

  names(): readonly string[] {
    const names: string[] = [];
    for (const [owner, runs] of this.#runs) if (runs >= this.#most) names.push(owner);
    return names;
  }

  onChange(listener: () => void): () => void {
    return addListener(this.#listeners, listener);
  }
}

async function* earlierTasks(log: TaskLog, task: Snapshot): AsyncGenerator<Snapshot, void> {
  const { context, owner = '', turns } = task;
  const filter = { context, owner, tenant: turns[0]?.tenant ?? '' };
  for await (const other of log.list(filter)) if (other.task !== task.task) yield other;
}
