import type { LightResponse } from '../../../../http/light-fetch.ts';
import { DuolaneError } from '../../../../errors.ts';
import type { JsonObject } from '../../../../json.ts';
import { SseDecoder } from '../../../../wire/sse.ts';
import { messageIn, sseEvents } from '../message-body.ts';

/** How long we wait before we come back, unless the server has said; doubled with every failure. */
const WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;

/** Where a stream broke. */
export interface Break {
  /** Empty if the server gave no event an id: then nothing can be resumed. */
  readonly lastEventId: string;
  readonly waitMs: number;
  /** Attempts since the last event. */
  readonly tries: number;
}

export interface FollowOptions {
  /** True ends the reading. */
  readonly take: (message: JsonObject) => Promise<boolean>;
  /** The stream after a break, after the wait; undefined: not now, ask again. Throws to give up. */
  readonly reopen: (at: Break) => Promise<LightResponse | undefined>;
  readonly signal: AbortSignal;
}

/** The messages of an event stream, over any number of breaks, until `take` has what it wants. */
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
          const message = messageIn(event);
          if (message && (await take(message))) return;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (DuolaneError.from(error).code !== 'network') throw error;
      }
      lastEventId = decoder.lastEventId || lastEventId;
      waitMs = decoder.retryMs ?? waitMs;
    }
    tries += 1;
    const wait = Math.min(waitMs * 2 ** (tries - 1), Math.max(waitMs, MAX_WAIT_MS));
    response = await reopen({ lastEventId, waitMs: wait, tries });
  }
}
