import { Channel } from '../../../stream/channel.ts';
import type { ToolEvent } from '../../types.ts';

/** How many events of one call wait for its reader. */
const LIMIT = 256;

/**
 * The events of a call, between a transport that must not wait and a reader that may. Nothing is
 * lost up to the limit. Beyond it, the newest progress replaces the progress before it, and log
 * lines and partial results are dropped. The last event is never lost.
 */
export class CallEvents implements AsyncIterable<ToolEvent> {
  readonly #channel = new Channel<ToolEvent>();
  #waiting = 0;
  #newest: ToolEvent | undefined;

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

  finish(last: ToolEvent): void {
    this.insist(last);
    this.#channel.close();
  }

  fail(error: unknown): void {
    this.#catchUp();
    this.#channel.fail(error);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ToolEvent, void, undefined> {
    for await (const event of this.#channel) {
      this.#waiting -= 1;
      this.#catchUp();
      yield event;
    }
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
