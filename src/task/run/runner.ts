import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { DuolaneError } from '../../errors.ts';
import { isFinal, nextTurn, recoverRun } from '../../event/index.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import type { Agent, Entry, Note, Snapshot, Turn } from '../../event/types.ts';
import { sleep } from '../../stream/index.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import { heapShare, HeldText } from '../held-text.ts';
import { addListener } from '../../stream/cancellable-generator.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { processWarnings } from '../process-warnings.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { AgentRun, type RunOptions } from './agent-run.ts';
import { partyOf } from '../store/run-queue.ts';
import type { Claim, LimitedOwners, Runner, RunnerOptions, TaskLog } from '../types.ts';
import { TaskWriter } from './task-writer.ts';

/** For each run that may be busy, so many may wait awake for a person; further ones sleep at once. */
const MOST_WAITING = 10;

const PARK_MS = 60_000;
const MAX_RUN_CHARS = 32 << 20;

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5000;
const MAX_GIVEN_UP = 1000;

/**
 * Runs agents on the tasks of a log: pulls claims while there is room, ends or wakes what another
 * owner left, and writes each run through its claim. A task outlives every connection: only
 * `requestCancel` cancels. Does not close the log.
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
  /** Tasks may wait in the log: whoever comes now waits behind them, even if a place is free. */
  #crowded = false;
  /** By task, how often in a row it was given up here. */
  readonly #givenUp = new LruCache<string, number>(MAX_GIVEN_UP);
  /** Runs that wait for a person, among those that are active. */
  #waiting = 0;
  #room: (() => void) | undefined;
  #drained: Promise<void> | undefined;

  constructor(options: RunnerOptions) {
    const { log, agents, maxRuns = 100, maxAttempts = 10 } = options;
    const logger = safeLogger(options.logger, processWarnings);
    const { graceMs = 5000, suspendAfterMs: parkMs = PARK_MS, timeoutMs, observer } = options;
    const { maxRunChars = MAX_RUN_CHARS, maxHeldChars = heapShare() } = options;
    const held = new HeldText(maxRunChars, maxHeldChars);
    for (const [name, agent] of Object.entries(agents))
      if (typeof agent !== 'function')
        throw new DuolaneError(
          'invalid',
          `agent "${name}" is no function but ${agent === null ? 'null' : typeof agent}; give the agent itself`,
        );
    this.#log = log;
    this.#agents = agents;
    this.#name = options.name ?? `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;
    this.#maxRuns = maxRuns;
    this.#queue = options.queue ?? false;
    this.#owners = new OwnerRuns(options.maxRunsPerOwner ?? Math.ceil(maxRuns / 2));
    this.#maxAttempts = maxAttempts;
    const history = (task: Snapshot): AsyncIterable<Snapshot> => earlierTasks(log, task);
    const onWaiting = (change: 1 | -1): number => {
      this.#waiting += change;
      this.#room?.();
      return this.#waiting > MOST_WAITING * this.#maxRuns ? 0 : parkMs;
    };
    this.#runOptions = { graceMs, timeoutMs, logger, history, onWaiting, observer, held };
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
      if (claim) this.#start(claim);
      return entry;
    } finally {
      if (here) {
        this.#reserved--;
        this.#owners.add(owner, -1);
      }
      // Again, lest a look at the log that missed it count for more.
      else if (mayRun) this.#crowded = true;
      this.#room?.();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#drained ??= this.#drain());
  }

  // Who waits for a person takes no place; answered, it goes on at once, so there may be one too many.
  get #hasRoom(): boolean {
    const busy = this.#active.size + this.#reserved - this.#waiting;
    const { aborted } = this.#stopping.signal;
    return !aborted && busy < this.#maxRuns && this.#runOptions.held.hasRoomBeside(busy);
  }

  /** Claims tasks until the runner is disposed of; an error of the log is reported and tried again. */
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
        await sleep(pauseMs, signal).catch(() => {}); // aborted: the loop ends
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
      // A submit may have taken the last room while this claim was waited for.
      if (this.#hasRoom) this.#start(claim);
      else
        await this.#log.release(claim).catch((error: unknown) => {
          // Its lease runs out, so another runner gets it, or this one when it has room.
          const failure = DuolaneError.from(error).toJSON();
          this.#runOptions.logger.warn('a claim could not be released', {
            task: claim.task,
            ...failure,
          });
        });
      while (!this.#hasRoom && !signal.aborted)
        await new Promise<void>((resolve) => (this.#room = resolve));
    }
  }

  #start(claim: Claim): void {
    const agent = this.#agents[claim.snapshot.agent] as Agent;
    const owner = partyOf(claim.snapshot);
    const options = this.#optionsOf(owner);
    this.#owners.add(owner, 1);
    const pause = (): Promise<void> => this.#pauseOf(claim.task);
    const serving = new ClaimedTask(this.#log, claim, agent, options, this.#maxAttempts, pause);
    if (this.#stopping.signal.aborted) serving.drain(this.#runOptions.graceMs);
    const number = ++this.#started;
    this.#active.set(number, serving);
    serving.done
      .finally(() => {
        this.#active.take(number);
        this.#owners.add(owner, -1);
        this.#room?.();
      })
      .catch(reportUnexpected);
  }

  /**
   * A task that is given up can be claimed at once, so without a pause one that fails every time, as
   * by an observer that throws, would be claimed thousands of times a second.
   */
  async #pauseOf(task: string): Promise<void> {
    const before = this.#givenUp.get(task) ?? 0;
    this.#givenUp.set(task, before + 1);
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** before, MAX_PAUSE_MS);
    await sleep(pauseMs, this.#stopping.signal).catch(() => {}); // aborted: it is handed back now
  }

  // A run that waits for a person counts for its owner as little as for the runner.
  #optionsOf(owner: string): RunOptions {
    if (owner === '') return this.#runOptions;
    const onWaiting = (change: 1 | -1): number => {
      this.#owners.add(owner, change === 1 ? -1 : 1);
      return this.#runOptions.onWaiting(change);
    };
    return { ...this.#runOptions, onWaiting };
  }

  async #drain(): Promise<void> {
    this.#stopping.abort();
    this.#room?.();
    for (const serving of this.#active.values()) serving.drain(this.#runOptions.graceMs);
    await this.#pulling;
    // What is being submitted here comes with its claim.
    while (this.#reserved > 0) await new Promise<void>((resolve) => (this.#room = resolve));
    for (const { done } of this.#active.values()) await done;
  }
}

/** How many runs each owner has in this runner. Tasks without an owner are not counted. */
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

/** A claimed task, until it has ended, waits for a person, or is handed back. */
class ClaimedTask {
  readonly done: Promise<void>;
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #agent: Agent;
  readonly #options: RunOptions;
  readonly #writer: TaskWriter;
  readonly #maxAttempts: number;
  readonly #pause: () => Promise<void>;
  #run: AgentRun | undefined;
  #draining: NodeJS.Timeout | undefined;
  #writing: NodeJS.Timeout | undefined;

  /** `pause`: what a task that is given up waits for before it is handed back. */
  constructor(
    log: TaskLog,
    claim: Claim,
    agent: Agent,
    options: RunOptions,
    maxAttempts: number,
    pause: () => Promise<void>,
  ) {
    this.#pause = pause;
    this.#log = log;
    this.#claim = claim;
    this.#agent = agent;
    this.#options = options;
    this.#maxAttempts = maxAttempts;
    this.#writer = new TaskWriter(log, claim, (note) => this.#hear(note));
    this.done = this.#serve();
  }

  /**
   * No further turn is begun; the run sleeps now if it can, else it has `graceMs` to end. So long again
   * its agent has to stop, and the store to take what it said: one that does not, as with a full disk,
   * is not waited for. Whoever claims the task next ends the run or goes on with it.
   */
  drain(graceMs: number): void {
    if (this.#draining) return;
    const suspendMs = this.#run?.canSuspend ? 0 : graceMs;
    this.#draining = setTimeout(() => this.#run?.suspend(), suspendMs);
    this.#writing = setTimeout(() => this.#writer.giveUp(), suspendMs + 2 * graceMs);
  }

  async #serve(): Promise<void> {
    const { task, epoch } = this.#claim;
    try {
      // Whoever submitted it is told first that it stands; then the agent has the floor.
      await new Promise((resolve) => setImmediate(resolve));
      await this.#settle();
      for (let turn = this.#next(); turn; turn = this.#next()) {
        const isFirst = this.#run === undefined;
        this.#run = new AgentRun(this.#agent, this.#writer, this.#options);
        // Notes that came before there was somebody to hear them were kept.
        if (isFirst) this.#claim.onNote((note) => this.#hear(note));
        if ((await this.#run.serve(turn, this.#claim)) === 'sleeps') break;
      }
    } catch (error) {
      const failure = DuolaneError.from(error).toJSON();
      const level = failure.code === 'fenced' ? 'info' : 'error';
      this.#options.logger[level]('gave up a task', { task, epoch, ...failure });
      if (failure.code !== 'fenced') await this.#pause();
    } finally {
      // Ended or waiting, the claim is over by itself, and this does nothing. If it fails, the lease
      // runs out.
      await this.#log.release(this.#claim).catch(() => {});
      // Clear them last: a drain may start during the release, and its timers would keep the
      // process alive.
      clearTimeout(this.#draining);
      clearTimeout(this.#writing);
    }
  }

  /** A run that is open at this point lost its owner. */
  async #settle(): Promise<void> {
    const { snapshot } = this.#writer;
    const resumable = this.#agent.resumable === true && snapshot.attempt < this.#maxAttempts;
    await this.#writer.put(recoverRun(snapshot, { resumable }));
  }

  #next(): Turn | undefined {
    const { snapshot } = this.#writer;
    return this.#draining || isFinal(snapshot.state) ? undefined : nextTurn(snapshot);
  }

  #hear(note: Entry & Note): void {
    this.#run?.hear(note);
  }
}

async function* earlierTasks(log: TaskLog, task: Snapshot): AsyncGenerator<Snapshot, void> {
  const { context, owner = '', turns } = task;
  const filter = { context, owner, tenant: turns[0]?.tenant ?? '' };
  for await (const other of log.list(filter)) if (other.task !== task.task) yield other;
}
