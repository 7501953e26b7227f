import { Channel } from '../../../stream/channel.ts';
import { DONE } from '../../../stream/queue-reader.ts';
import type { ToolEvent } from '../../types.ts';

/** How many events of one call wait for its reader. */
const LIMIT = 256;

/**
 * The events of a call, between a transport and a reader that may be slower. A transport with a
 * stream for each request waits for `room`, and loses nothing. Others must not wait, because all
 * calls share them: beyond the limit, the newest progress replaces the progress before it, and log
 * lines and partial results are dropped. The last event is never lost.
 */
export class CallEvents implements AsyncIterable<ToolEvent> {
  readonly #channel = new Channel<ToolEvent>();
  #waiting = 0;
  #newest: ToolEvent | undefined;
  #onRoom: Array<() => void> = [];
  #isOver = false;

  /** Adds an event, or drops it beyond the limit. */
  push(event: ToolEvent): void {
    if (this.#waiting < LIMIT && !this.#newest) this.#offer(event);
    else if (event.type === 'progress') this.#newest = event;
  }

  /** Adds an event beyond the limit. */
  insist(event: ToolEvent): void {
    this.#catchUp();
    this.#offer(event);
  }

  /** Resolves when another event fits, or the call or its reader has ended. */
  async room(): Promise<void> {
    while (!this.#isOver && this.#waiting >= LIMIT)
      await new Promise<void>((resolve) => this.#onRoom.push(resolve));
  }

  finish(last: ToolEvent): void {
    this.insist(last);
    this.#channel.close();
    this.#end();
  }

  fail(error: unknown): void {
    this.#catchUp();
    this.#channel.fail(error);
    this.#end();
  }

  /** Not a generator: each event of each call would cost several promises more. */
  [Symbol.asyncIterator](): AsyncIterator<ToolEvent, void, undefined> & AsyncIterable<ToolEvent> {
    const reader = this.#channel[Symbol.asyncIterator]();
    const iterator = {
      next: async () => {
        const result = await reader.next();
        if (!result.done) this.#taken();
        return result;
      },
      return: async () => {
        this.#end();
        await reader.return?.();
        return DONE;
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  #taken(): void {
    this.#waiting -= 1;
    this.#catchUp();
    this.#release();
  }

  #end(): void {
    this.#isOver = true;
    this.#release();
  }

  #release(): void {
    if (this.#onRoom.length === 0) return;
    const waiting = this.#onRoom;
    this.#onRoom = [];
    for (const resolve of waiting) resolve();
  }

  #catchUp(): void {
    if (this.#newest) this.#offer(this.#newest);
    this.#newest = undefined;
  }

  #offer(event: ToolEvent): void {
    if (this.#channel.ended) return;
    this.#waiting += 1;
    this.#channel.offer(event);
  }
}
