import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { DuolaneError } from '../../errors.ts';
import type { Turn } from '../../event/types.ts';
import { sleep } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { nameId } from '../../task/name-id.ts';
import type { TaskLog } from '../../task/types.ts';
import { resolvePublicAddress } from './resolve-webhook.ts';
import type { Version } from '../protocol/dialect.ts';
import { RPC_DIALECTS } from '../v0.3/json-rpc-dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { PushConfig } from '../protocol/model.ts';
import { deliverPush, type DeliveryOptions } from './deliver-push.ts';
import { DeliveryBudget } from './delivery-budget.ts';
import {
  configBookmark,
  progressBookmark,
  receiversOf,
  type Progress,
  type Receiver,
} from './push-receivers.ts';

const MAX_PER_TASK = 16;
/** How long a replica waits after it claimed a receiver, to notice another replica that did too. */
const SETTLE_MS = 200;
/** The first and the longest pause before a failed log is read again. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 15_000;

type Beats = Map<string, { readonly beat: number; readonly at: number }>;

/** Options of push notifications. */
export interface PushOptions extends DeliveryOptions {
  /** Allows receivers on this machine or in its network; only for tests and closed networks. */
  readonly allowPrivateAddresses?: boolean;
  /**
   * If replicas share the log: how often each one checks which replica delivers to which receiver,
   * by default every 15 s. A replica without a beat for three times as long loses its receivers.
   */
  readonly pollMs?: number;
}

/**
 * The push receivers of an agent. A config is a bookmark in the log, so it outlives the process.
 * Each receiver gets the events of its task in order and at least once. The constructor resumes the
 * deliveries of an earlier process; disposing stops them and keeps their progress. If replicas
 * share a log, one of them delivers to a receiver; around a takeover an event may be delivered
 * twice. Creates and deletes of one receiver run one after the other, and a poll ignores the
 * receiver meanwhile.
 */
export class PushConfigs implements AsyncDisposable {
  readonly #log: TaskLog;
  readonly #agent: string;
  readonly #options: PushOptions;
  readonly #budget: DeliveryBudget;
  readonly #running = new Map<
    string,
    { readonly stop: AbortController; readonly done: Promise<void> }
  >();
  readonly #replicaId = randomUUID();
  readonly #isShared: boolean;
  readonly #pollMs: number;
  readonly #timer: NodeJS.Timeout | undefined;
  /** The retry after a failed poll, if the log is not shared and no interval follows. */
  #pollRetry: NodeJS.Timeout | undefined;
  #failedPolls = 0;
  /** By receiver, the last beat of another replica, and when this process saw it first. */
  #beats: Beats = new Map();
  readonly #closing = new AbortController();
  /** Receivers that this process has given up: they failed for too long, or returned 410 Gone. */
  #givenUp = new Set<string>();
  #polling: Promise<void> | undefined;
  /** By receiver, the last create or delete that is running. */
  readonly #changing: LastWork = new Map();
  /** By task, the last create: each counts the receivers of the task before it adds one. */
  readonly #creating: LastWork = new Map();
  /**
   * Receivers that were created or deleted during the current poll, which may have read old
   * bookmarks.
   */
  readonly #changed = new Set<string>();

  constructor(log: TaskLog, agent: string, options: PushOptions = {}) {
    this.#log = log;
    this.#agent = agent;
    this.#options = options;
    this.#budget = new DeliveryBudget(log);
    this.#isShared = log.replicas !== undefined;
    this.#pollMs = options.pollMs ?? 15_000;
    const poll = (): void => {
      this.#polling ??= this.#poll().finally(() => {
        this.#polling = undefined;
        this.#changed.clear();
        if (this.#failedPolls === 0 || this.#isShared || this.#closing.signal.aborted) return;
        const pauseMs = FIRST_PAUSE_MS * 2 ** (this.#failedPolls - 1);
        this.#pollRetry = setTimeout(poll, Math.min(pauseMs, MAX_PAUSE_MS)).unref();
      });
    };
    poll();
    if (this.#isShared) this.#timer = setInterval(poll, this.#pollMs).unref();
  }

  /** Throws if the URL has a private address. An unknown name is accepted: it may exist later. */
  async check(url: string): Promise<void> {
    await resolvePublicAddress(url, this.#options.allowPrivateAddresses ?? false).catch(
      (error: unknown) => {
        if (!DuolaneError.from(error).retryable) throw error;
      },
    );
  }

  /**
   * Creates a config for the events after entry `after`; durable when it resolves. Replaces the
   * same id.
   */
  async create(
    task: string,
    config: Omit<PushConfig, 'taskId'>,
    version: Version,
    after: number,
  ): Promise<PushConfig> {
    const id = config.id || RPC_DIALECTS[version].defaultPushId || randomUUID();
    const made: PushConfig = { ...config, id, taskId: task };
    await this.#change({ task, id }, () =>
      inTurn(this.#creating, task, () => this.#create(made, version, after)),
    );
    return made;
  }

  async #create(made: PushConfig, version: Version, after: number): Promise<void> {
    const { id, taskId: task } = made;
    requireRoom(await this.list(task), id);
    const saved = { agent: this.#agent, version, config: made, rev: randomUUID() };
    const receiver: Receiver = { task, id, saved, after, progress: {} };
    await this.#stop(receiver);
    this.#givenUp.delete(keyOf(receiver));
    // Save the holder first: otherwise another replica could find the config without one and claim
    // it.
    if (this.#isShared) await this.#save(receiver, after, false);
    await this.#log.bookmark(configBookmark(task, id, after, saved));
    this.#start(receiver);
  }

  /** Throws if `ensure` would: a message that is refused must not have been stored. */
  async checkRoom(
    { task, messageId }: Pick<Turn, 'task' | 'messageId'>,
    config: Omit<PushConfig, 'taskId'>,
    version: Version,
  ): Promise<void> {
    requireRoom(await this.list(task), idOf(config, version, messageId));
  }

  /** Creates the config of a message, unless the same message created it already. */
  async ensure(
    { task, messageId }: Pick<Turn, 'task' | 'messageId'>,
    config: Omit<PushConfig, 'taskId'>,
    version: Version,
    after: number,
  ): Promise<void> {
    const id = idOf(config, version, messageId);
    const [known] = (await this.list(task)).filter((each) => each.id === id);
    const wanted = { ...config, id, taskId: task };
    if (known && isDeepStrictEqual(known, wanted)) return;
    await this.create(task, wanted, version, after);
  }

  /** Reads a config; without an id the first one. */
  async get(task: string, id: string | undefined): Promise<PushConfig> {
    const found = (await this.list(task)).find((config) => id === undefined || config.id === id);
    if (found) return found;
    const which = id === undefined ? '' : ` "${id}"`;
    throw new A2AError('TASK_NOT_FOUND', `push config${which} of task "${task}" not found`);
  }

  async list(task: string): Promise<readonly PushConfig[]> {
    const configs: PushConfig[] = [];
    for await (const { saved } of receiversOf(this.#log, task)) configs.push(saved.config);
    return configs;
  }

  /**
   * Deletes a config; may be called twice. When it resolves, the current attempt of this process
   * was aborted and no other starts. Another replica may start one last attempt that it had checked
   * before.
   */
  async delete(task: string, id: string | undefined): Promise<void> {
    if (id === undefined)
      throw new A2AError(
        'INVALID_PARAMS',
        'missing push config id: the parameter "id" must be a string',
      );
    await this.#change({ task, id }, async () => {
      await this.#log.bookmark(configBookmark(task, id));
      await this.#stop({ task, id });
      await this.#log.bookmark(progressBookmark(task, id));
    });
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    clearTimeout(this.#pollRetry);
    await this.#polling;
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    await Promise.all(running.map(({ done }) => done));
  }

  /** Polls the receivers: claims those without a holder, stops those that are deleted or lost. */
  async #poll(): Promise<void> {
    const lost = new Set(this.#running.keys());
    const givenUp = new Set<string>();
    const free: Receiver[] = [];
    const beats: Beats = new Map();
    try {
      for await (const receiver of receiversOf(this.#log)) {
        if (this.#closing.signal.aborted) return;
        const { saved, progress } = receiver;
        if (saved.agent !== this.#agent || progress.done) continue;
        const key = keyOf(receiver);
        if (this.#isChanged(key)) continue;
        if (this.#givenUp.has(key)) givenUp.add(key);
        else if (!this.#running.has(key)) {
          if (!this.#isForeign(receiver, beats)) free.push(receiver);
        } else if (progress.holder === this.#replicaId) {
          lost.delete(key);
          // Deliveries save a beat too, so an extra one is needed only while nothing is delivered.
          if (Math.abs(Date.now() - (progress.beat ?? 0)) >= this.#pollMs)
            await this.#save(receiver, receiver.after, false);
        }
      }
      this.#givenUp = givenUp;
      this.#beats = beats;
      if (this.#isShared)
        for (const key of lost) if (!this.#isChanged(key)) this.#running.get(key)?.stop.abort();
      await this.#claim(free);
      this.#failedPolls = 0;
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      // Report only the first failure in a row; the next poll follows.
      if (this.#failedPolls++ === 0) this.#options.onError?.(error);
    }
  }

  /** Claims receivers. If two replicas claim one at the same time, the last write wins. */
  async #claim(free: readonly Receiver[]): Promise<void> {
    const { signal } = this.#closing;
    if (this.#isShared && free.length > 0) {
      for (const receiver of free) await this.#save(receiver, receiver.after, false);
      await sleep(SETTLE_MS, signal);
    }
    for (const receiver of free) {
      const isOurs = await this.#isOurs(receiver);
      if (isOurs && !this.#isChanged(keyOf(receiver))) this.#start(receiver);
    }
  }

  #isChanged(key: string): boolean {
    return this.#changing.has(key) || this.#changed.has(key);
  }

  async #change(receiver: Pick<Receiver, 'task' | 'id'>, work: () => Promise<void>): Promise<void> {
    const key = keyOf(receiver);
    await inTurn(this.#changing, key, () =>
      work().finally(() => {
        if (this.#polling) this.#changed.add(key);
      }),
    );
  }

  /**
   * Whether another replica delivers to the receiver: its beat is recent by the system clocks, and
   * it keeps changing. The second condition is for a clock that was set back: otherwise a dead
   * replica would count as alive for as long.
   */
  #isForeign(receiver: Receiver, beats: Beats): boolean {
    const { holder, beat = 0 } = receiver.progress;
    if (!this.#isShared || holder === undefined) return false;
    const key = keyOf(receiver);
    const known = this.#beats.get(key);
    const seen = known?.beat === beat ? known : { beat, at: performance.now() };
    beats.set(key, seen);
    const deadMs = 3 * this.#pollMs;
    return Date.now() - beat < deadMs && performance.now() - seen.at < deadMs;
  }

  async #isOurs({ task, id, saved }: Receiver): Promise<boolean> {
    if (!this.#isShared) return true;
    for await (const now of receiversOf(this.#log, task))
      if (now.id === id)
        return now.saved.rev === saved.rev && now.progress.holder === this.#replicaId;
    return false;
  }

  async #save({ task, id, saved }: Receiver, after: number, done: boolean): Promise<void> {
    const progress: Progress = {
      rev: saved.rev,
      ...(this.#isShared && { holder: this.#replicaId, beat: Date.now() }),
      ...(done && { done }),
    };
    await this.#log.bookmark(progressBookmark(task, id, after, progress));
  }

  #start(receiver: Receiver): void {
    if (this.#closing.signal.aborted) return;
    const key = keyOf(receiver);
    const stop = new AbortController();
    const done = this.#deliver(receiver, stop)
      .catch((error: unknown) => {
        if (stop.signal.aborted) return;
        this.#givenUp.add(key);
        this.#options.onError?.(error);
      })
      .finally(() => {
        if (this.#running.get(key)?.stop === stop) this.#running.delete(key);
      });
    this.#running.set(key, { stop, done });
  }

  /**
   * Delivers until the task ends. Retries after a failure of the log, from the last saved entry.
   */
  async #deliver(receiver: Receiver, stop: AbortController): Promise<void> {
    const { signal } = stop;
    let { after } = receiver;
    let failures = 0;
    const check = async (): Promise<void> => {
      if (!(await this.#isOurs(receiver))) stop.abort();
      signal.throwIfAborted();
    };
    const save = async (delivered: number, done: boolean): Promise<void> => {
      after = delivered;
      await check();
      await this.#save(receiver, delivered, done);
      failures = 0;
    };
    for (;;) {
      try {
        const known = { log: this.#log, budget: this.#budget, ...receiver.saved };
        const delivery = { ...known, after, save, check };
        return await deliverPush(delivery, signal, this.#options);
      } catch (error) {
        signal.throwIfAborted();
        if (!DuolaneError.from(error).retryable) throw error;
        const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** failures, MAX_PAUSE_MS);
        if (failures++ === 0) this.#options.onError?.(error);
        await sleep(pauseMs, signal);
      }
    }
  }

  async #stop(receiver: Pick<Receiver, 'task' | 'id'>): Promise<void> {
    const running = this.#running.get(keyOf(receiver));
    running?.stop.abort();
    await running?.done;
  }
}

/** The id of the config that a message creates. */
const idOf = (config: Omit<PushConfig, 'taskId'>, version: Version, messageId: string): string =>
  config.id || RPC_DIALECTS[version].defaultPushId || nameId(`push/${messageId}`);

function requireRoom(known: readonly PushConfig[], id: string): void {
  if (known.length < MAX_PER_TASK || known.some((each) => each.id === id)) return;
  throw new A2AError(
    'INVALID_PARAMS',
    `cannot create the push config: a task must have at most ${MAX_PER_TASK}; delete one first`,
  );
}

/** By key, the last work that was begun for it. */
type LastWork = Map<string, Promise<unknown>>;

/** Runs the work for one key after the work before it, however that ends. */
async function inTurn(last: LastWork, key: string, work: () => Promise<void>): Promise<void> {
  const working = (last.get(key) ?? Promise.resolve()).then(work);
  const settled = working.catch(() => {}); // the caller gets the error from `working`
  last.set(key, settled);
  try {
    await working;
  } finally {
    if (last.get(key) === settled) last.delete(key);
  }
}

const keyOf = ({ task, id }: Pick<Receiver, 'task' | 'id'>): string => `${task}\n${id}`;
