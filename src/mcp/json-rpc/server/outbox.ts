import type { JsonObject } from '../../../json.ts';
import { Channel } from '../../../stream/channel.ts';

const CAPACITY = 64;

/**
 * What goes to the other side unasked, for one reader. `push` waits for room while there is a
 * reader; `flushed` waits until the reader has come back from all that was pushed before it.
 * Without a reader there is nobody to tell: what does not fit is dropped, and nothing waits.
 */
export class Outbox implements AsyncIterable<JsonObject> {
  readonly #channel = new Channel<JsonObject>({ capacity: CAPACITY });
  #read = false;
  #pushed = 0;
  #handled = 0;
  #waiting: Array<{ readonly upTo: number; readonly resolve: () => void }> = [];

  async push(message: JsonObject): Promise<void> {
    if (this.#channel.ended) return;
    if (!this.#read && this.#pushed - this.#handled >= CAPACITY) return;
    this.#pushed += 1;
    await this.#channel.push(message).catch(() => {}); // the reader left; nobody is told
  }

  /** At once, beyond the bound if need be; false when the reader has left. */
  offer(message: JsonObject): boolean {
    if (this.#channel.ended) return false;
    this.#channel.offer(message);
    this.#pushed += 1;
    return true;
  }

  async flushed(): Promise<void> {
    if (!this.#read || this.#channel.ended || this.#handled >= this.#pushed) return;
    const upTo = this.#pushed;
    await new Promise<void>((resolve) => this.#waiting.push({ upTo, resolve }));
  }

  close(): void {
    this.#channel.close();
    if (!this.#read) this.#release(Infinity);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<JsonObject, void, undefined> {
    this.#read = true;
    try {
      for await (const message of this.#channel) {
        yield message;
        this.#handled += 1;
        this.#release(this.#handled);
      }
    } finally {
      this.#release(Infinity);
    }
  }

  #release(handled: number): void {
    while (this.#waiting[0] && this.#waiting[0].upTo <= handled) this.#waiting.shift()?.resolve();
  }
}
