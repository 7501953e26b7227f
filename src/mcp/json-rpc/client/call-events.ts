import { Channel } from '../../../stream/channel.ts';
import type { ToolEvent } from '../../types.ts';

/** Events of one call that wait for its reader. */
const LIMIT = 256;

/**
 * The events of a call on their way from a wire that must not wait to a reader that may. Nothing
 * is lost up to the limit; beyond it the newest progress stands for those it overtakes, and log
 * lines and partial results are dropped. The last event is never lost.
 */
export class CallEvents implements AsyncIterable<ToolEvent> {
  readonly #channel = new Channel<ToolEvent>();
  #waiting = 0;
  #newest: ToolEvent | undefined;

  push(event: ToolEvent): void {
    if (this.#waiting < LIMIT && !this.#newest) this.#offer(event);
    else if (event.type === 'progress') this.#newest = event;
  }

  /** Never dropped, whatever the limit. */
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
