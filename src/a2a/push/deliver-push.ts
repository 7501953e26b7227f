import { DuolaneError } from '../../errors.ts';
import { onAbort, sleep } from '../../stream/abort.ts';
import { followTask, type TaskFollower } from '../../task/log/follow-task.ts';
import type { TaskLog } from '../../task/types.ts';
import { resolvePublicAddress } from './resolve-webhook.ts';
import { RPC_DIALECTS } from '../v0.3/json-rpc-dialect.ts';
import type { Version } from '../protocol/dialect.ts';
import { a2aEncoder, type TextOptions } from '../protocol/stream-encoder.ts';
import type { DeliveryBudget } from './delivery-budget.ts';
import { mergeChunks } from './merge-chunks.ts';
import type { A2AStreamEvent, PushConfig } from '../protocol/model.ts';
import { post } from './webhook-post.ts';
import { encodeTask } from '../protocol/task-encoder.ts';

/** How events are delivered to a push receiver. */
export interface DeliveryOptions {
  readonly allowPrivateAddresses?: boolean;
  /** How long to wait for the response of a receiver. */
  readonly timeoutMs?: number;
  /** The first pause after a failed delivery; doubled each time, up to five minutes. */
  readonly retryMs?: number;
  /**
   * How long one event is retried. After that this process stops delivering to the receiver; the
   * next process tries again.
   */
  readonly retryForMs?: number;
  /** How receivers see the text of a run. */
  readonly text?: TextOptions;
  /** Called with failures of the log and with receivers that were given up. */
  readonly onError?: (error: unknown) => void;
}

/** One receiver, and what its delivery needs. */
interface Delivery {
  readonly log: TaskLog;
  /** The memory of all deliveries. */
  readonly budget: DeliveryBudget;
  readonly config: PushConfig;
  readonly version: Version;
  /** The number of the last delivered entry. */
  readonly after: number;
  /** Called after every delivered entry, so that a restart does not deliver it again. */
  readonly save: (after: number, done: boolean) => Promise<void>;
  /**
   * Called right before every attempt; throws if the receiver was deleted or belongs to another
   * replica.
   */
  readonly check: () => Promise<void>;
}

const CHUNK_CHARS = 4096;
const MAX_RETRY_MS = 300_000;

/** How long a delivery without new events keeps its task in memory. */
const IDLE_MS = 10_000;

/**
 * Delivers the events of one task to one receiver in order, each until the receiver accepts it.
 * Resolves at the end of the task. Throws `network`, not `retryable`, if the receiver is given up;
 * a `retryable` error is a failure of the log. An abort interrupts the current attempt, and no
 * other starts. Between the attempts, and while the task has no new events, nothing of it is in
 * memory: a receiver may fail for an hour, and there may be any number of receivers.
 */
export async function deliverPush(
  delivery: Delivery,
  signal: AbortSignal,
  options: DeliveryOptions,
): Promise<void> {
  const { log, config, budget } = delivery;
  const retries = new Retries(config.url, options);
  const position: Position = { seq: delivery.after, sent: 0 };
  for (;;) {
    const free = await budget.take(config.taskId, { signal });
    let pauseMs: number | undefined;
    try {
      signal.throwIfAborted();
      if (await deliverUntilIdle(delivery, position, retries, signal, options)) return;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AttemptError)) throw error;
      pauseMs = retries.pauseAfter(error.cause);
    } finally {
      free();
    }
    if (pauseMs === undefined) await nextEntry(log, config.taskId, position.seq, signal);
    else await sleep(pauseMs, signal);
  }
}

/** How far a delivery is: the last entry that is delivered, and the events of the next one. */
interface Position {
  seq: number;
  sent: number;
}

/** A failed attempt, which is not a failure of the log. */
class AttemptError extends Error {}

/** Resolves when the task has an entry after this one, or has ended. */
async function nextEntry(
  log: TaskLog,
  task: string,
  after: number,
  signal: AbortSignal,
): Promise<void> {
  for await (const _ of log.read(task, after, { signal })) return;
}

/** Returns whether the task has ended and everything is delivered. */
async function deliverUntilIdle(
  delivery: Delivery,
  position: Position,
  retries: Retries,
  signal: AbortSignal,
  options: DeliveryOptions,
): Promise<boolean> {
  const { log, config, version, save } = delivery;
  const dialect = RPC_DIALECTS[version];
  const encoder = a2aEncoder(options.text);
  const encode = mergeChunks(encoder.encode, CHUNK_CHARS);
  const after = position.seq;
  const send = async (event: A2AStreamEvent): Promise<void> => {
    const body = JSON.stringify(dialect.encodeEvent(event, false));
    await sendOne(delivery, body, signal, options);
    retries.succeeded();
  };
  // It sends the events of each entry before it takes the next one, and has no outputs.
  const follower: TaskFollower<never> = {
    task: config.taskId,
    get seq() {
      return encoder.snapshot?.seq ?? 0;
    },
    async follow(entry) {
      idle.stop();
      const state = encoder.snapshot?.state;
      const encoded = encode(entry);
      if (entry.seq > after) {
        const changed = state !== encoder.snapshot?.state;
        const tasks = (): readonly A2AStreamEvent[] => (changed ? [{ task: encoder.task() }] : []);
        const events = dialect.pushesTasks ? tasks() : encoded;
        for (const event of events.slice(position.sent)) {
          await send(event);
          position.sent++;
        }
        position.seq = entry.seq;
        position.sent = 0;
        if (events.length > 0) await save(position.seq, false);
      }
      idle.start();
      return false;
    },
    // The events of a compacted task are gone, so the receiver gets the final task.
    async compacted() {
      idle.stop();
      const snapshot = await log.get(config.taskId);
      if (!snapshot) return;
      await send({ task: encodeTask(snapshot, { text: options.text }) });
    },
  };
  const idle = new IdleTimer(signal);
  try {
    for await (const _ of followTask(log, follower, { signal: idle.signal }));
  } catch (error) {
    if (idle.isOver && !signal.aborted) return false;
    throw error;
  } finally {
    idle.end();
  }
  await save(position.seq, true);
  return true;
}

/** Aborts its signal after `IDLE_MS`, unless it is stopped, and together with another signal. */
class IdleTimer {
  readonly #stop = new AbortController();
  readonly #unlisten: () => void;
  #timer: NodeJS.Timeout | undefined;
  isOver = false;

  constructor(signal: AbortSignal) {
    this.#unlisten = onAbort(signal, (reason) => this.#stop.abort(reason));
    this.start();
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  start(): void {
    this.stop();
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.#stop.abort(new DuolaneError('canceled', 'the task has no new events'));
    }, IDLE_MS).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.stop();
    this.#unlisten();
  }
}

/** When a failed event is tried again, and when its receiver is given up. */
class Retries {
  readonly #url: string;
  readonly #retryMs: number;
  readonly #retryForMs: number;
  #waitMs: number;
  #until: number | undefined;

  constructor(url: string, { retryMs = 1000, retryForMs = 3_600_000 }: DeliveryOptions) {
    this.#url = url;
    this.#retryMs = this.#waitMs = retryMs;
    this.#retryForMs = retryForMs;
  }

  succeeded(): void {
    this.#waitMs = this.#retryMs;
    this.#until = undefined;
  }

  /** The pause after a failed attempt. Throws if the receiver is given up. */
  pauseAfter(error: unknown): number {
    const { retryable, retryAfterMs = 0, message } = DuolaneError.from(error);
    const pauseMs = Math.max(
      this.#waitMs * (0.5 + Math.random() / 2),
      Math.min(retryAfterMs, MAX_RETRY_MS),
    );
    this.#until ??= performance.now() + this.#retryForMs;
    if (!retryable || performance.now() + pauseMs > this.#until)
      // The message names the origin only: path and query of a webhook are often a secret, and
      // this message is logged.
      throw new DuolaneError(
        'network',
        `stopped delivering to the push receiver at ${new URL(this.#url).origin}: ${message}`,
        { cause: error, retryable: false },
      );
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_RETRY_MS);
    return pauseMs;
  }
}

/** One attempt. Throws an `AttemptError`, unless the delivery is aborted. */
async function sendOne(
  { config, version, check }: Pick<Delivery, 'config' | 'version' | 'check'>,
  body: string,
  signal: AbortSignal,
  { allowPrivateAddresses = false, timeoutMs = 15_000 }: DeliveryOptions,
): Promise<void> {
  const { url, token, authentication } = config;
  const { scheme, credentials = '' } = authentication ?? {};
  const headers = {
    'content-type': RPC_DIALECTS[version].mediaType,
    'a2a-version': version,
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(scheme !== undefined && { authorization: `${scheme} ${credentials}`.trimEnd() }),
  };
  try {
    const address = await resolvePublicAddress(url, allowPrivateAddresses);
    await check();
    await post({ url, address, headers, body, timeoutMs, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw new AttemptError('the receiver did not accept an event', { cause });
  }
}
