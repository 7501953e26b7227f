import type { JsonObject } from '../../json.ts';
import { Channel } from '../../stream/channel.ts';

const CAPACITY = 64;

/**
 * The queue of messages that the server sends on its own, for one reader. `push` waits for space
 * while there is a reader; `flushed` waits until the reader has asked for the next message after
 * everything that was pushed before. Without a reader nothing waits, and messages that do not fit
 * are dropped.
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
    // the reader has gone, so the message has no receiver
    await this.#channel.push(message).catch(() => {});
  }

  /**
   * Adds a message immediately, beyond the limit if necessary. Returns false if the reader has
   * gone.
   */
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
