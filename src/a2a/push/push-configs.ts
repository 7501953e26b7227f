import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { DuolaneError } from '../../errors.ts';
import type { Turn } from '../../event/types.ts';
import { sleep } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { TaskLog } from '../../task/types.ts';
import { resolvePublicAddress } from './public-address.ts';
import type { Version } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { PushConfig } from '../protocol/model.ts';
import { deliverPush, type DeliveryOptions } from './deliver-push.ts';
import {
  configMark,
  placeMark,
  receiversOf,
  type Progress,
  type Receiver,
} from './push-receivers.ts';
import { nameId } from '../protocol/task-encoder.ts';

const MAX_PER_TASK = 16;
/** Clients of 0.3 may ask for a config by no id at all, or by this one. */
const DEFAULT_03 = 'default';
/** How long two replicas that take up the same receiver have to see each other. */
const SETTLE_MS = 200;
/** The pauses before a log that failed is asked again. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 15_000;

type Beats = Map<string, { readonly beat: number; readonly at: number }>;

export interface PushOptions extends DeliveryOptions {
  /** Receivers on this machine or its network may be named; only for tests and closed networks. */
  readonly allowPrivateAddresses?: boolean;
  /**
   * Where replicas share the log: how often each looks who tells which receiver, by default every 15 s.
   * What one has not said for three times as long is taken over by another.
   */
  readonly pollMs?: number;
}

/**
 * Who is told about a task, and how far they have got: a config is a bookmark in the log, so it
 * outlives the process. Each receiver gets the events of its task in order and at least once.
 * Opening resumes what an earlier process left; disposing stops, and leaves the places saved. Of
 * replicas that share a log one tells a receiver; around a takeover it may be told things twice.
 * Makes and deletes of one receiver happen one after the other, and a look leaves it alone meanwhile.
 */
export class PushConfigs implements AsyncDisposable {
  readonly #log: TaskLog;
  readonly #agent: string;
  readonly #options: PushOptions;
  readonly #running = new Map<
    string,
    { readonly stop: AbortController; readonly done: Promise<void> }
  >();
  readonly #me = randomUUID();
  readonly #isShared: boolean;
  readonly #lookMs: number;
  readonly #timer: NodeJS.Timeout | undefined;
  /** Where no look would follow one that failed. */
  #lookAgain: NodeJS.Timeout | undefined;
  #failedLooks = 0;
  /** By receiver, the last beat of another replica, and when it was first seen by the steady clock. */
  #beats: Beats = new Map();
  readonly #closing = new AbortController();
  /** Receivers that this process has tried for long enough, or that want nothing. */
  #givenUp = new Set<string>();
  #looking: Promise<void> | undefined;
  /** The last make or delete of a receiver that is under way. */
  readonly #changing = new Map<string, Promise<unknown>>();
  /** Receivers that were made or deleted while a look is under way: what it has read of them may be old. */
  readonly #changed = new Set<string>();

  constructor(log: TaskLog, agent: string, options: PushOptions = {}) {
    this.#log = log;
    this.#agent = agent;
    this.#options = options;
    this.#isShared = log.replicas !== undefined;
    this.#lookMs = options.pollMs ?? 15_000;
    const look = (): void => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined;
        this.#changed.clear();
        if (this.#failedLooks === 0 || this.#isShared || this.#closing.signal.aborted) return;
        const pauseMs = FIRST_PAUSE_MS * 2 ** (this.#failedLooks - 1);
        this.#lookAgain = setTimeout(look, Math.min(pauseMs, MAX_PAUSE_MS)).unref();
      });
    };
    look();
    if (this.#isShared) this.#timer = setInterval(look, this.#lookMs).unref();
  }

  /** Throws if this server would never call there. */
  async check(url: string): Promise<void> {
    await resolvePublicAddress(url, this.#options.allowPrivateAddresses ?? false).catch(
      (error: unknown) => {
        if (!DuolaneError.from(error).retryable) throw error;
      },
    );
  }

  /** Durable when it resolves; what comes after entry `after` is told. The same id again replaces. */
  async create(
    task: string,
    config: Omit<PushConfig, 'taskId'>,
    version: Version,
    after: number,
  ): Promise<PushConfig> {
    const id = config.id || (version === '0.3' ? DEFAULT_03 : randomUUID());
    const made: PushConfig = { ...config, id, taskId: task };
    await this.#change({ task, id }, () => this.#create(made, version, after));
    return made;
  }

  async #create(made: PushConfig, version: Version, after: number): Promise<void> {
    const { id, taskId: task } = made;
    const known = await this.list(task);
    if (!known.some((each) => each.id === id) && known.length >= MAX_PER_TASK)
      throw new A2AError('INVALID_PARAMS', `a task has at most ${MAX_PER_TASK} push configs`);
    const saved = { agent: this.#agent, version, config: made, rev: randomUUID() };
    const receiver: Receiver = { task, id, saved, after, progress: {} };
    await this.#stop(receiver);
    this.#givenUp.delete(keyOf(receiver));
    // First whose it is, lest another replica find it and take it up.
    if (this.#isShared) await this.#save(receiver, after, false);
    await this.#log.bookmark(configMark(task, id, after, saved));
    this.#start(receiver);
  }

  /** The config that came with a message: sent again with it, it is the one that is there. */
  async ensure(
    { task, messageId }: Pick<Turn, 'task' | 'messageId'>,
    config: Omit<PushConfig, 'taskId'>,
    version: Version,
    after: number,
  ): Promise<void> {
    const id = config.id || (version === '0.3' ? DEFAULT_03 : nameId(`push/${messageId}`));
    const [known] = (await this.list(task)).filter((each) => each.id === id);
    const wanted = { ...config, id, taskId: task };
    if (known && isDeepStrictEqual(known, wanted)) return;
    await this.create(task, wanted, version, after);
  }

  /** Without an id, the only one or the first. */
  async get(task: string, id: string | undefined): Promise<PushConfig> {
    const found = (await this.list(task)).find((config) => id === undefined || config.id === id);
    if (found) return found;
    throw new A2AError('TASK_NOT_FOUND', `task ${task} has no push config ${id ?? ''}`.trimEnd());
  }

  async list(task: string): Promise<readonly PushConfig[]> {
    const configs: PushConfig[] = [];
    for await (const { saved } of receiversOf(this.#log, task)) configs.push(saved.config);
    return configs;
  }

  /**
   * Twice is fine. When it resolves, the attempt that was on the wire here is broken off and no other
   * begins; another replica may begin at most the one that it was about to.
   */
  async delete(task: string, id: string | undefined): Promise<void> {
    if (id === undefined) throw new A2AError('INVALID_PARAMS', 'which push config? give its id');
    await this.#change({ task, id }, async () => {
      await this.#log.bookmark(configMark(task, id));
      await this.#stop({ task, id });
      await this.#log.bookmark(placeMark(task, id));
    });
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    clearTimeout(this.#lookAgain);
    await this.#looking;
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    await Promise.all(running.map(({ done }) => done));
  }

  /** Takes up what nobody tells, and leaves what is another's by now, or gone. */
  async #look(): Promise<void> {
    const strange = new Set(this.#running.keys());
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
          if (!this.#isOthers(receiver, beats)) free.push(receiver);
        } else if (progress.holder === this.#me) {
          strange.delete(key);
          // While there is something to tell, telling it says that somebody is there.
          if (Math.abs(Date.now() - (progress.beat ?? 0)) >= this.#lookMs)
            await this.#save(receiver, receiver.after, false);
        }
      }
      this.#givenUp = givenUp;
      this.#beats = beats;
      if (this.#isShared)
        for (const key of strange) if (!this.#isChanged(key)) this.#running.get(key)?.stop.abort();
      await this.#take(free);
      this.#failedLooks = 0;
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      // Reported once: the next look follows.
      if (this.#failedLooks++ === 0) this.#options.onError?.(error);
    }
  }

  /** Of two that take one at once, the one that wrote last has it. */
  async #take(free: readonly Receiver[]): Promise<void> {
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
    const changing = (this.#changing.get(key) ?? Promise.resolve()).then(work);
    const settled = changing.catch(() => {}); // whoever asked is told
    this.#changing.set(key, settled);
    try {
      await changing;
    } finally {
      if (this.#looking) this.#changed.add(key);
      if (this.#changing.get(key) === settled) this.#changing.delete(key);
    }
  }

  /**
   * Whether another replica tells the receiver: its beat is new by the clocks of both, and changes. The
   * second is for a clock that was set back, by which a dead replica would live for as long.
   */
  #isOthers(receiver: Receiver, beats: Beats): boolean {
    const { holder, beat = 0 } = receiver.progress;
    if (!this.#isShared || holder === undefined) return false;
    const key = keyOf(receiver);
    const known = this.#beats.get(key);
    const seen = known?.beat === beat ? known : { beat, at: performance.now() };
    beats.set(key, seen);
    const deadMs = 3 * this.#lookMs;
    return Date.now() - beat < deadMs && performance.now() - seen.at < deadMs;
  }

  async #isOurs({ task, id, saved }: Receiver): Promise<boolean> {
    if (!this.#isShared) return true;
    for await (const now of receiversOf(this.#log, task))
      if (now.id === id) return now.saved.rev === saved.rev && now.progress.holder === this.#me;
    return false;
  }

  async #save({ task, id, saved }: Receiver, after: number, done: boolean): Promise<void> {
    const progress: Progress = {
      rev: saved.rev,
      ...(this.#isShared && { holder: this.#me, beat: Date.now() }),
      ...(done && { done }),
    };
    await this.#log.bookmark(placeMark(task, id, after, progress));
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

  /** Until everything is delivered. A log that fails is asked again, and nothing is delivered twice for it. */
  async #deliver(receiver: Receiver, stop: AbortController): Promise<void> {
    const { signal } = stop;
    let { after } = receiver;
    let failures = 0;
    const check = async (): Promise<void> => {
      if (!(await this.#isOurs(receiver))) stop.abort();
      signal.throwIfAborted();
    };
    const save = async (place: number, over: boolean): Promise<void> => {
      after = place;
      await check();
      await this.#save(receiver, place, over);
      failures = 0;
    };
    for (;;) {
      try {
        const delivery = { log: this.#log, ...receiver.saved, after, save, check };
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

const keyOf = ({ task, id }: Pick<Receiver, 'task' | 'id'>): string => `${task}\n${id}`;
