import { DuolaneError } from '../../errors.ts';
import { sleep } from '../../stream/abort.ts';
import type { TaskLog } from '../../task/types.ts';
import { resolvePublicAddress } from './public-address.ts';
import { encodeTask03 } from '../v0.3/json-rpc-dialect.ts';
import type { Version } from '../protocol/dialect.ts';
import { a2aEncoder, type A2AEncoder, type TextOptions } from '../protocol/stream-encoder.ts';
import { mergeChunks } from './merge-chunks.ts';
import type { PushConfig } from '../protocol/model.ts';
import { post } from './webhook-post.ts';
import { encodeTask } from '../protocol/task-encoder.ts';

export interface DeliveryOptions {
  readonly allowPrivateAddresses?: boolean;
  /** How long a receiver has to answer. */
  readonly timeoutMs?: number;
  /** The first wait after a failure; each further one is twice as long, up to five minutes. */
  readonly retryMs?: number;
  /** How long one event is tried; then this process gives the receiver up, the next one tries again. */
  readonly retryForMs?: number;
  /** How the text of a run is told. */
  readonly text?: TextOptions;
  readonly onError?: (error: unknown) => void;
}

interface Delivery {
  readonly log: TaskLog;
  readonly config: PushConfig;
  readonly version: Version;
  /** The entry up to which the receiver has everything. */
  readonly after: number;
  /** Called behind every delivered entry, so that nobody is told twice without need. */
  readonly save: (after: number, over: boolean) => Promise<void>;
  /** Called right before every attempt; throws when there is to be none any more. */
  readonly check: () => Promise<void>;
}

const CHUNK_CHARS = 4096;
const MAX_RETRY_MS = 300_000;

/**
 * Tells one receiver about one task, in order, each event until it is taken. Resolves at the end of
 * the task. Throws `network`, not `retryable`, when the receiver is given up; what is `retryable` is a
 * failure of the log. An abort breaks off the attempt that is on the wire, and no other begins.
 */
export async function deliverPush(
  { log, config, version, after, save, check }: Delivery,
  signal: AbortSignal,
  options: DeliveryOptions,
): Promise<void> {
  const encoder = a2aEncoder(options.text);
  const encode = mergeChunks(encoder.encode, CHUNK_CHARS);
  const send = (body: unknown): Promise<void> =>
    sendOne({ config, version, check }, JSON.stringify(body), signal, options);
  let seq = after;
  for await (const entry of log.read(config.taskId, 0, { signal })) {
    if (entry.seq !== (encoder.snapshot?.seq ?? 0) + 1) {
      // Compacted meanwhile: the events are gone, how it ended is not.
      const snapshot = await log.get(config.taskId);
      if (snapshot) {
        const task = encodeTask(snapshot, { text: options.text });
        await send(version === '0.3' ? encodeTask03(task) : { task });
      }
      break;
    }
    const state = encoder.snapshot?.state;
    const events = encode(entry);
    if (entry.seq <= after) continue;
    const changed = state !== encoder.snapshot?.state;
    const bodies = version === '0.3' ? tasks03(encoder, changed) : events;
    for (const body of bodies) await send(body);
    seq = entry.seq;
    if (bodies.length > 0) await save(seq, false);
  }
  await save(seq, true);
}

/** In 0.3 a notification is the whole task: worth sending when its state is another. */
const tasks03 = (encoder: A2AEncoder, changed: boolean): readonly unknown[] =>
  changed ? [encodeTask03(encoder.task())] : [];

async function sendOne(
  { config, version, check }: Pick<Delivery, 'config' | 'version' | 'check'>,
  body: string,
  signal: AbortSignal,
  {
    allowPrivateAddresses: allowInside = false,
    timeoutMs = 15_000,
    retryMs = 1000,
    retryForMs: giveUpMs = 3_600_000,
  }: DeliveryOptions,
): Promise<void> {
  const { url, token, authentication } = config;
  const { scheme, credentials = '' } = authentication ?? {};
  const headers = {
    'content-type': version === '1.0' ? 'application/a2a+json' : 'application/json',
    'a2a-version': version,
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(scheme !== undefined && { authorization: `${scheme} ${credentials}`.trimEnd() }),
  };
  const until = performance.now() + giveUpMs;
  for (let waitMs = retryMs; ; waitMs = Math.min(waitMs * 2, MAX_RETRY_MS)) {
    try {
      const address = await resolvePublicAddress(url, allowInside);
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
        // Path and query of a webhook are often its secret, and this goes to a log.
        throw new DuolaneError(
          'network',
          `the receiver at ${new URL(url).origin} is not notified any more: ${message}`,
          { cause: error, retryable: false },
        );
      await sleep(pauseMs, signal);
    }
  }
}
