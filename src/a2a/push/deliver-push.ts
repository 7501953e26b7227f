import { DuolaneError } from '../../errors.ts';
import { sleep } from '../../stream/abort.ts';
import { followTask, type TaskFollower } from '../../task/log/follow-task.ts';
import type { TaskLog } from '../../task/types.ts';
import { resolvePublicAddress } from './resolve-webhook.ts';
import { RPC_DIALECTS } from '../v0.3/json-rpc-dialect.ts';
import type { Version } from '../protocol/dialect.ts';
import { a2aEncoder, type TextOptions } from '../protocol/stream-encoder.ts';
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

/**
 * Delivers the events of one task to one receiver in order, each until the receiver accepts it.
 * Resolves at the end of the task. Throws `network`, not `retryable`, if the receiver is given up;
 * a `retryable` error is a failure of the log. An abort interrupts the current attempt, and no
 * other starts.
 */
export async function deliverPush(
  delivery: Delivery,
  signal: AbortSignal,
  options: DeliveryOptions,
): Promise<void> {
  const { log, config, version, after, save } = delivery;
  const dialect = RPC_DIALECTS[version];
  const encoder = a2aEncoder(options.text);
  const encode = mergeChunks(encoder.encode, CHUNK_CHARS);
  const send = (event: A2AStreamEvent): Promise<void> => {
    const body = JSON.stringify(dialect.encodeEvent(event, false));
    return sendOne(delivery, body, signal, options);
  };
  let delivered = after;
  // It sends the events of each entry before it takes the next one, and has no outputs.
  const follower: TaskFollower<never> = {
    task: config.taskId,
    get seq() {
      return encoder.snapshot?.seq ?? 0;
    },
    async follow(entry) {
      const state = encoder.snapshot?.state;
      const encoded = encode(entry);
      if (entry.seq <= after) return false;
      const changed = state !== encoder.snapshot?.state;
      const tasks = (): readonly A2AStreamEvent[] => (changed ? [{ task: encoder.task() }] : []);
      const events = dialect.pushesTasks ? tasks() : encoded;
      for (const event of events) await send(event);
      delivered = entry.seq;
      if (events.length > 0) await save(delivered, false);
      return false;
    },
    // The events of a compacted task are gone, so the receiver gets the final task.
    async compacted() {
      const snapshot = await log.get(config.taskId);
      if (!snapshot) return;
      await send({ task: encodeTask(snapshot, { text: options.text }) });
    },
  };
  for await (const _ of followTask(log, follower, { signal }));
  await save(delivered, true);
}

async function sendOne(
  { config, version, check }: Pick<Delivery, 'config' | 'version' | 'check'>,
  body: string,
  signal: AbortSignal,
  {
    allowPrivateAddresses = false,
    timeoutMs = 15_000,
    retryMs = 1000,
    retryForMs = 3_600_000,
  }: DeliveryOptions,
): Promise<void> {
  const { url, token, authentication } = config;
  const { scheme, credentials = '' } = authentication ?? {};
  const headers = {
    'content-type': RPC_DIALECTS[version].mediaType,
    'a2a-version': version,
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(scheme !== undefined && { authorization: `${scheme} ${credentials}`.trimEnd() }),
  };
  const until = performance.now() + retryForMs;
  for (let waitMs = retryMs; ; waitMs = Math.min(waitMs * 2, MAX_RETRY_MS)) {
    try {
      const address = await resolvePublicAddress(url, allowPrivateAddresses);
      await check();
      return await post({ url, address, headers, body, timeoutMs, signal });
    } catch (error) {
      signal.throwIfAborted();
      const { retryable, retryAfterMs = 0, message } = DuolaneError.from(error);
      const pauseMs = Math.max(
        waitMs * (0.5 + Math.random() / 2),
        Math.min(retryAfterMs, MAX_RETRY_MS),
      );
      if (!retryable || performance.now() + pauseMs > until)
        // The message names the origin only: path and query of a webhook are often a secret, and
        // this message is logged.
        throw new DuolaneError(
          'network',
          `stopped delivering to the push receiver at ${new URL(url).origin}: ${message}`,
          { cause: error, retryable: false },
        );
      await sleep(pauseMs, signal);
    }
  }
}
