import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { DuolaneError } from '../errors.ts';
import type { Turn } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import type { Bookmark, TaskLog } from '../task/types.ts';
import { resolveOutside } from './address.ts';
import type { Version } from './dialect.ts';
import { Refusal } from './errors.ts';
import type { PushConfig } from './model.ts';
import { deliver, type DeliveryOptions } from './push.ts';
import { nameId } from './task.ts';

const PREFIX = 'push/';
const MAX_PER_TASK = 16;
/** Clients of 0.3 may ask for a config by no id at all, or by this one. */
const DEFAULT_03 = 'default';

/** What is kept beside the place of a receiver in the log. */
interface Saved extends JsonObject {
  readonly agent: string;
  readonly version: Version;
  readonly config: PushConfig;
  /** Everything was delivered; there is nothing to resume. */
  readonly done?: boolean;
}

export interface PushOptions extends DeliveryOptions {
  /** Receivers on this machine or its network may be named; only for tests and closed networks. */
  readonly allowInside?: boolean;
}

/**
 * Who is told about a task, and how far they have got: a config is a bookmark in the log, so it
 * outlives the process. Each receiver gets the events of its task in order and at least once.
 * Opening resumes what an earlier process left; disposing stops, and leaves the places saved.
 */
export class PushConfigs implements AsyncDisposable {
  readonly #log: TaskLog;
  readonly #agent: string;
  readonly #options: PushOptions;
  readonly #running = new Map<
    string,
    { readonly stop: AbortController; readonly done: Promise<void> }
  >();
  readonly #resumed: Promise<void>;
  #closed = false;

  constructor(log: TaskLog, agent: string, options: PushOptions = {}) {
    this.#log = log;
    this.#agent = agent;
    this.#options = options;
    this.#resumed = this.#resume().catch((error: unknown) => options.onError?.(error));
  }

  /** Throws if this server would never call there. */
  async check(url: string): Promise<void> {
    await resolveOutside(url, this.#options.allowInside ?? false).catch((error: unknown) => {
      if (!DuolaneError.from(error).retryable) throw error;
    });
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
    const known = await this.#marks(task);
    const replaces = known.some(({ data }) => data.config.id === made.id);
    if (!replaces && known.length >= MAX_PER_TASK)
      throw new Refusal('INVALID_PARAMS', `a task has at most ${MAX_PER_TASK} push configs`);
    const mark = {
      task,
      name: PREFIX + made.id,
      after,
      data: { agent: this.#agent, version, config: made },
    };
    await this.#stop(mark);
    await this.#log.bookmark(mark);
    this.#start(mark);
    return made;
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
    throw new Refusal('TASK_NOT_FOUND', `task ${task} has no push config ${id ?? ''}`.trimEnd());
  }

  async list(task: string): Promise<readonly PushConfig[]> {
    return (await this.#marks(task)).map(({ data }) => data.config);
  }

  /** Twice is fine. */
  async delete(task: string, id: string | undefined): Promise<void> {
    if (id === undefined) throw new Refusal('INVALID_PARAMS', 'which push config? give its id');
    const mark = { task, name: PREFIX + id, after: 0 };
    await this.#stop(mark);
    await this.#log.bookmark(mark);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#resumed;
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    await Promise.all(running.map(({ done }) => done));
  }

  async #resume(): Promise<void> {
    for await (const mark of this.#log.bookmarks()) {
      if (this.#closed) return;
      const saved = readSaved(mark);
      const here = saved?.agent === this.#agent && !saved.done && !this.#running.has(keyOf(mark));
      if (saved && here) this.#start({ ...mark, data: saved });
    }
  }

  async #marks(task: string): Promise<(Bookmark & { readonly data: Saved })[]> {
    const marks = [];
    for await (const mark of this.#log.bookmarks(task)) {
      const data = readSaved(mark);
      if (data) marks.push({ ...mark, data });
    }
    return marks;
  }

  #start(mark: Bookmark & { readonly data: Saved }): void {
    const { task, name, data } = mark;
    const key = keyOf(mark);
    const stop = new AbortController();
    const save = (after: number, over: boolean): Promise<void> =>
      this.#log.bookmark({ task, name, after, data: { ...data, ...(over && { done: true }) } });
    const done = deliver(
      { log: this.#log, ...data, after: mark.after, save },
      stop.signal,
      this.#options,
    )
      .catch((error: unknown) => {
        if (!stop.signal.aborted) this.#options.onError?.(error);
      })
      .finally(() => {
        if (this.#running.get(key)?.stop === stop) this.#running.delete(key);
      });
    this.#running.set(key, { stop, done });
  }

  async #stop(mark: Pick<Bookmark, 'task' | 'name'>): Promise<void> {
    const running = this.#running.get(keyOf(mark));
    running?.stop.abort();
    await running?.done;
  }
}

const keyOf = ({ task, name }: Pick<Bookmark, 'task' | 'name'>): string => `${task}\n${name}`;

const readSaved = ({ name, data }: Bookmark): Saved | undefined =>
  name.startsWith(PREFIX) && data && isObject(data['config']) ? (data as Saved) : undefined;
