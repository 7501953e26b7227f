import type { LightResponse } from '../../../../http/light-fetch.ts';
import { DuolaneError } from '../../../../errors.ts';
import type { JsonObject } from '../../../../json.ts';
import { SseDecoder } from '../../../../wire/sse.ts';
import { messagesIn, sseEvents } from '../message-body.ts';

/** The wait before a reconnect, unless the server has set one; doubled with every failure. */
const WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;
/** The shortest wait that a server can set: with none, it could keep its client busy. */
const MIN_RETRY_MS = 100;
/** The longest wait that a server can set. A timer with a much longer one fires immediately. */
const MAX_RETRY_MS = 3_600_000;

/** The point where a stream broke. */
export interface Break {
  /** Empty if no event had an id: then the stream cannot be resumed. */
  readonly lastEventId: string;
  readonly waitMs: number;
  /** How many attempts failed since the last event. */
  readonly tries: number;
}

/** How to handle messages and breaks. */
export interface FollowOptions {
  /** Handles a message. Returning true ends the reading. */
  readonly take: (message: JsonObject) => Promise<boolean>;
  /**
   * Waits, then reopens the stream. `undefined` means that it is not possible yet; a throw ends the
   * reading.
   */
  readonly reopen: (at: Break) => Promise<LightResponse | undefined>;
  readonly signal: AbortSignal;
}

/**
 * Reads the messages of an event stream over any number of reconnects, until `take` returns true.
 */
export async function followEvents(
  first: LightResponse | undefined,
  { take, reopen, signal }: FollowOptions,
): Promise<void> {
  let response = first;
  let [lastEventId, waitMs, tries] = ['', WAIT_MS, 0];
  for (;;) {
    if (response) {
      const decoder = new SseDecoder();
      try {
        for await (const event of sseEvents(response, decoder)) {
          tries = 0;
          for (const message of messagesIn(event)) if (await take(message)) return;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (DuolaneError.from(error).code !== 'network') throw error;
      }
      lastEventId = decoder.lastEventId || lastEventId;
      waitMs = Math.max(MIN_RETRY_MS, Math.min(decoder.retryMs ?? waitMs, MAX_RETRY_MS));
    }
    tries += 1;
    const wait = Math.min(waitMs * 2 ** (tries - 1), Math.max(waitMs, MAX_WAIT_MS));
    response = await reopen({ lastEventId, waitMs: wait, tries });
  }
}
